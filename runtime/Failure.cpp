//===- Failure.cpp ----------------------------------------------------------===//
#include "runtime/Failure.h"

namespace ccl {

char RuntimeError::ID;

std::error_code RuntimeError::convertToErrorCode() const { return llvm::inconvertibleErrorCode(); }

int exitStatus(Failure category) {
  switch (category) {
  case Failure::Unproved: return 1;
  case Failure::BadArgument: return 2;
  case Failure::Machine:
  case Failure::Timeout:
  case Failure::Aborted:
  case Failure::Mismatch: return 3;
  }
  return 3;
}

} // namespace ccl
