// A library as oneCCL is one: namespace ccl, an inline version, libccl.so.
#pragma once

#include <cstdint>
#include <string_view>

namespace ccl {

void init();
int version();
int name();

inline namespace v1 {
class communicator {
public:
  explicit communicator(int size) : theSize(size) {}
  int size() const;
  int allreduce(int mine, int theirs) const;

private:
  int theSize;
};
} // namespace v1

// Names of ours.
class Communicator {
public:
  Communicator();
  int size() const;
};
class Program {
public:
  static int compile();
};

// Names that our library has inside.
enum class Failure : uint8_t {};
int exitStatus(Failure);
enum class ElementType : uint32_t {};
int64_t sizeOf(ElementType);
namespace model {
enum class Collective : uint32_t {};
bool reduces(Collective);
bool hasRoot(Collective);
} // namespace model

} // namespace ccl
