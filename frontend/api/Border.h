//===- Border.h - Between the library's errors and the application's ------------===//
#pragma once

#include <ccl/ccl.h>

#include "dialect/model/Contract.h"
#include "runtime/Failure.h"
#include "runtime/plan/Plan.h"

#include <exception>
#include <new>

namespace ccl {
inline namespace jit {

/// One failure of what an llvm::Error holds: that which tells the cause. Ranks that were
/// only aborted do not know it.
Error toError(llvm::Error error);
inline Error argumentError(std::string message) {
  return {Error::Kind::argument, std::move(message), -1};
}
/// Why no call can have that time-out, or nothing.
std::optional<Error> refuseTimeout(std::chrono::milliseconds timeout);
Error memoryError();
Error exceptionError(const std::exception &e);

/// Runs `body`, a function that returns a Status or Result; exceptions become errors.
template <typename Body>
auto guarded(Body &&body) noexcept -> decltype(body()) {
  try {
    return body();
  } catch (const std::bad_alloc &) {
    return memoryError();
  } catch (const std::exception &e) {
    return exceptionError(e);
  }
}

/// abort() of a communicator whose work `engine` does: a Member or a CudaGroup.
template <typename Engine>
void abortEngine(Engine &engine, std::string_view reason) noexcept {
  (void)bool(guarded([&]() -> Status {
    engine.abort(std::string(reason));
    return {};
  }));
}
/// What every call of it answers with, or success.
template <typename Engine>
Status failureOf(Engine &engine) {
  std::optional<RuntimeError> failure = engine.failure();
  if (!failure)
    return {};
  return toError(llvm::make_error<RuntimeError>(*failure));
}

// The public enumerators are numbered as ours; `None` comes before `Sum`.
inline ElementType toInternal(DataType type) { return ElementType(uint32_t(type)); }
inline model::Reduction toInternal(Op op) { return model::Reduction(uint32_t(op) + 1); }
inline model::Collective toInternal(Collective c) { return model::Collective(uint32_t(c)); }
inline DataType toPublic(ElementType type) { return DataType(uint32_t(type)); }
inline Collective toPublic(model::Collective c) { return Collective(uint32_t(c)); }
inline std::optional<Op> toPublic(model::Reduction r) {
  return r == model::Reduction::None ? std::nullopt : std::optional(Op(uint32_t(r) - 1));
}

inline bool isValid(DataType type) { return type <= DataType::f8e5m2; }
inline bool isValid(Op op) { return op <= Op::bxor; }
inline bool isValid(Collective c) { return c <= Collective::custom; }

} // namespace jit
} // namespace ccl
