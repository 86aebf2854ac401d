//===- Words.cpp - Names and errors of the public interface ----------------------===//
#include "frontend/api/Border.h"

#include <fmt/format.h>

#include <array>
#include <cstdio>
#include <cstdlib>

namespace ccl {
inline namespace jit {

static_assert(uint32_t(DataType::f8e5m2) == uint32_t(ElementType::F8E5M2) &&
              uint32_t(DataType::bf16) == uint32_t(ElementType::BF16));
static_assert(uint32_t(Op::sum) + 1 == uint32_t(model::Reduction::Sum) &&
              uint32_t(Op::avg) + 1 == uint32_t(model::Reduction::Avg) &&
              uint32_t(Op::bxor) + 1 == uint32_t(model::Reduction::Bxor));
static_assert(uint32_t(Collective::allToAllV) == uint32_t(model::Collective::AllToAllV) &&
              uint32_t(Collective::custom) == uint32_t(model::Collective::Custom));

//===----------------------------------------------------------------------===//
// Names
//===----------------------------------------------------------------------===//

static constexpr std::array<std::string_view, 12> typeNames = {
    "i8", "u8", "i32", "u32", "i64", "u64", "f16", "bf16", "f32", "f64", "f8e4m3", "f8e5m2"};

size_t sizeOf(DataType type) { return isValid(type) ? size_t(sizeOf(toInternal(type))) : 0; }

std::string_view name(DataType type) { return isValid(type) ? typeNames[size_t(type)] : "?"; }
std::string_view name(Op op) { return isValid(op) ? model::name(toInternal(op)) : "?"; }
std::string_view name(Collective collective) {
  return isValid(collective) ? model::name(toInternal(collective)) : "?";
}

std::string_view name(Error::Kind kind) {
  switch (kind) {
  case Error::Kind::argument: return "argument";
  case Error::Kind::program: return "program";
  case Error::Kind::unproved: return "unproved";
  case Error::Kind::machine: return "machine";
  case Error::Kind::timeout: return "timeout";
  case Error::Kind::aborted: return "aborted";
  case Error::Kind::mismatch: return "mismatch";
  }
  return "?";
}

std::optional<DataType> parseDataType(std::string_view text) {
  for (size_t i = 0; i < typeNames.size(); ++i)
    if (typeNames[i] == text)
      return DataType(i);
  std::optional<ElementType> type = parseElementType(text);
  return type ? std::optional(toPublic(*type)) : std::nullopt;
}

std::optional<Op> parseOp(std::string_view text) {
  std::optional<model::Reduction> reduction = model::parseReduction(text);
  return reduction ? toPublic(*reduction) : std::nullopt;
}

std::optional<Collective> parseCollective(std::string_view text) {
  std::optional<model::Collective> collective = model::parseCollective(text);
  return collective ? std::optional(toPublic(*collective)) : std::nullopt;
}

std::string_view version() { return CCL_VERSION; }

//===----------------------------------------------------------------------===//
// Errors
//===----------------------------------------------------------------------===//

void endUnchecked(const Error *error) {
  if (error)
    fmt::print(stderr, "ccl: a result was used that is an error ({}): {}\n", name(error->kind),
               error->message);
  else
    fmt::print(stderr, "ccl: the error of a success was asked for\n");
  std::abort();
}

static Error::Kind kindOf(Failure category) {
  switch (category) {
  case Failure::BadArgument: return Error::Kind::argument;
  case Failure::Unproved: return Error::Kind::unproved;
  case Failure::Machine: return Error::Kind::machine;
  case Failure::Timeout: return Error::Kind::timeout;
  case Failure::Aborted: return Error::Kind::aborted;
  case Failure::Mismatch: return Error::Kind::mismatch;
  }
  return Error::Kind::machine;
}

Error toError(llvm::Error error) {
  std::optional<Error> cause;
  llvm::handleAllErrors(
      std::move(error),
      [&](const RuntimeError &e) {
        if (!cause || cause->kind == Error::Kind::aborted)
          cause = Error{kindOf(e.category), e.message, int(e.culprit)};
      },
      [&](const llvm::ErrorInfoBase &e) {
        if (!cause || cause->kind == Error::Kind::aborted)
          cause = Error{Error::Kind::machine, e.message(), -1};
      });
  return cause.value_or(Error{Error::Kind::machine, "failed without a reason", -1});
}

std::optional<Error> refuseTimeout(std::chrono::milliseconds timeout) {
  if (timeout.count() >= 0)
    return std::nullopt;
  return argumentError(fmt::format("a time-out of {} ms", timeout.count()));
}

Error memoryError() { return {Error::Kind::machine, "out of memory", -1}; }
Error exceptionError(const std::exception &e) { return {Error::Kind::machine, e.what(), -1}; }

} // namespace jit
} // namespace ccl
