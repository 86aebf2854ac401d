//===- Machine.h - All executions of a few small threads --------------------===//
//
// Explores every execution that C11 allows of a handful of straight threads, to prove the
// protocols of the runtime (docs/protocol.md) or show how they break.
//
// The memory is that of RC11 [Lahav et al., Repairing Sequential Consistency in C/C++11,
// PLDI 2017] without fences and sequentially consistent accesses, in the operational form
// of [Kang et al., A Promising Semantics, POPL 2017, sections 3 and 4] without promises:
//   - An atomic location is the list of its messages in modification order. A thread's view
//     says which message of each location is the oldest that it may still read, and what
//     it knows of plain locations.
//   - A load reads any message that its view allows. An acquire load joins the view that
//     the message carries; a release store puts the thread's view into its message.
//   - A read-modify-write reads a message and puts its own right behind it; nothing ever
//     comes between the two. Its message carries the view of the one that it read as well
//     (release sequences as in C++20).
//   - Two accesses to a plain location, one of them a write, that no view orders are a race.
// Sequential consistency of single locations, release/acquire and all staleness that weak
// hardware can show are in it; a load that reads a store later in its own thread's future
// (a cycle of program order and reads-from) is not, as in RC11.
//===----------------------------------------------------------------------===//
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace ccl::litmus {

enum class Order : uint8_t { Relaxed, Acquire, Release, AcqRel };

/// Names a location or a label of one model.
using Location = int;
using Label = int;
/// Of a thread: four, all 0 at the start.
using Register = int;
constexpr int numRegisters = 4;

/// A constant, or a register plus a constant.
struct Value {
  Value(int constant) : constant(constant) {}
  static Value of(Register reg, int plus = 0) {
    Value value(plus);
    value.reg = reg;
    return value;
  }
  int constant;
  Register reg = -1;
};

struct Condition {
  enum Kind : uint8_t { AtLeast, Equal, Differs } kind;
  int than;
  bool holds(int value) const {
    return kind == AtLeast ? value >= than : (value == than) == (kind == Equal);
  }
};
inline Condition atLeast(int value) { return {Condition::AtLeast, value}; }
inline Condition equal(int value) { return {Condition::Equal, value}; }
inline Condition differs(int value) { return {Condition::Differs, value}; }

struct Instruction {
  enum Kind : uint8_t { Read, Write, Load, Store, Add, Exchange, Lock, Await, Expect, Branch } kind;
  Order order = Order::Relaxed;
  Location location = -1;
  Value value = 0;
  Condition condition = {Condition::Equal, 0}; ///< Exchange, Lock: equal(what it expects)
  Register reg = -1;                           ///< gets what was read
  Label target = -1;                           ///< Branch; Await: where to go on abort
  Location abort = -1;                         ///< Await: ends when this one is not 0
  Order abortOrder = Order::Relaxed;
  std::string text{}; ///< Expect: what is wrong if not
};

/// A thread under construction. Registers default to "not kept".
class ThreadCode {
public:
  std::string name;
  /// A daemon need not come to its end.
  bool daemon = false;
  /// The thread may stop for ever before any instruction; this location then becomes 1,
  /// which orders nothing.
  Location death = -1;

  void read(Location plain, Register reg) { add({Instruction::Read, {}, plain, 0, {}, reg}); }
  void write(Location plain, Value value) { add({Instruction::Write, {}, plain, value}); }
  void load(Location atomic, Register reg, Order order) {
    add({Instruction::Load, order, atomic, 0, {}, reg});
  }
  void store(Location atomic, Value value, Order order) {
    add({Instruction::Store, order, atomic, value});
  }
  /// fetch_add; `reg` gets the old value.
  void fetchAdd(Location atomic, int value, Order order, Register reg = -1) {
    add({Instruction::Add, order, atomic, value, {}, reg});
  }
  /// Strong compare-and-exchange; `reg` gets the old value. Failing, it is a load.
  void compareExchange(Location atomic, int expected, Value desired, Order order,
                       Register reg = -1) {
    add({Instruction::Exchange, order, atomic, desired, equal(expected), reg});
  }
  /// Takes a mutex, which is an atomic that is 0 while nobody has it.
  void lock(Location mutex) { add({Instruction::Lock, Order::Acquire, mutex, 1, equal(0)}); }
  void unlock(Location mutex) { store(mutex, 0, Order::Release); }
  /// Loads until the condition holds. Only the load that ends the waiting is executed: one
  /// before it would make the thread know more, which hides faults and shows none.
  void await(Location atomic, Condition condition, Order order, Register reg = -1) {
    add({Instruction::Await, order, atomic, 0, condition, reg});
  }
  /// The same, but goes to `target` if it finds that `abort` is not 0.
  void awaitOrAbort(Location atomic, Condition condition, Order order, Location abort,
                    Order abortOrder, Label target) {
    Instruction wait{Instruction::Await, order, atomic, 0, condition};
    wait.abort = abort;
    wait.abortOrder = abortOrder;
    wait.target = target;
    add(wait);
  }
  void expect(Register reg, Condition condition, std::string text) {
    Instruction instruction{Instruction::Expect, {}, -1, 0, condition, reg};
    instruction.text = std::move(text);
    add(instruction);
  }
  void branchIf(Register reg, Condition condition, Label target) {
    Instruction instruction{Instruction::Branch, {}, -1, 0, condition, reg};
    instruction.target = target;
    add(instruction);
  }
  Label label() {
    labels.push_back(-1);
    return Label(labels.size()) - 1;
  }
  void bind(Label label) { labels[size_t(label)] = int(code.size()); }

private:
  friend class Explorer;
  void add(Instruction instruction) { code.push_back(std::move(instruction)); }
  std::vector<Instruction> code;
  std::vector<int> labels;
};

/// How one execution ended, by thread.
struct Final {
  std::vector<std::array<int, numRegisters>> registers;
  std::vector<bool> died;
};

struct Model {
  Location atomic(std::string name, int initial = 0) { return add(std::move(name), initial, true); }
  Location plain(std::string name, int initial = 0) { return add(std::move(name), initial, false); }
  ThreadCode &thread(std::string name) {
    threads.emplace_back().name = std::move(name);
    return threads.back();
  }
  /// What is wrong with an end that came without a fault, or "".
  std::function<std::string(const Final &)> judge;

  struct LocationInfo {
    std::string name;
    int initial;
    bool isAtomic;
  };
  std::vector<LocationInfo> locations;
  std::deque<ThreadCode> threads; ///< references to them stay valid

private:
  Location add(std::string name, int initial, bool isAtomic) {
    locations.push_back({std::move(name), initial, isAtomic});
    return Location(locations.size()) - 1;
  }
};

struct Fault {
  enum Kind : uint8_t { Race, WrongValue, Hang, TooLarge } kind;
  std::string text;
  std::string trace; ///< an execution that leads there, one step a line
};

struct Result {
  uint64_t states = 0;
  uint64_t ends = 0; ///< different final states
  /// Registers of all threads at each end in which nobody died.
  std::set<std::vector<int>> outcomes;
  std::optional<Fault> fault; ///< the first one; exploring stops there
};

struct ExploreOptions {
  /// Lets a thread whose next instruction reads no atomic run ahead of the others. Every
  /// execution has the same reads-from and modification order as one of those that are left:
  /// whoever wants to read older messages still can, and a race is one in any order.
  bool reduce = true;
  uint64_t maxStates = 5'000'000;
};

/// Explores all executions. States are told apart by 128 bits of hash.
Result explore(const Model &model, const ExploreOptions &options = {});

} // namespace ccl::litmus
