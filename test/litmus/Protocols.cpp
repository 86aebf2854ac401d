//===- Protocols.cpp ----------------------------------------------------------===//
#include "test/litmus/Protocols.h"

#include <fmt/format.h>

#include <algorithm>

namespace ccl::litmus {
namespace {

using Grid = std::vector<std::vector<Location>>;

/// What all ranks share, and the code of one operation of a rank.
class Builder {
public:
  Builder(Model &model, const Shape &shape, const Rules &rules)
      : model(model), shape(shape), rules(rules), ranks(shape.ranks) {
    arrivals = model.atomic("arrivals");
    failedBy = model.atomic("failedBy");
    for (int r = 0; r < ranks; ++r) {
      auto perRank = [&](const char *what) { return fmt::format("{}{}", what, r); };
      std::vector<Location> sets;
      for (int s = 0; s < rules.announcements && shape.entry; ++s)
        sets.push_back(model.plain(fmt::format("announcement{}[{}]", r, s)));
      announcements.push_back(sets);
      if (uses(Data::Ring) || uses(Data::Chain))
        addChannel(r);
      if (uses(Data::Direct)) {
        in.push_back(model.plain(perRank("in")));
        sums.push_back(model.plain(perRank("sum")));
        for (const char *what : {"inReady", "inDone", "sumReady", "sumDone"})
          guards.push_back(model.atomic(perRank(what)));
      }
    }
    sent.resize(size_t(ranks));
    received.resize(size_t(ranks));
  }

  /// Launch number `launch` (1, 2, ...) of rank r. `failed`: where to go on abort, or -1.
  void launch(ThreadCode &t, int r, int launch, Label failed) {
    const Data data = dataOf(launch);
    if (data == Data::Direct)
      t.write(in[size_t(r)], 100 + launch); // by the user
    if (shape.entry)
      enter(t, r, launch, launch, failed);
    for (int m = 0; m < shape.microBatches; ++m) {
      if (data == Data::Ring || (data == Data::Chain && r + 1 < ranks))
        send(t, r, failed);
      if (data == Data::Ring || (data == Data::Chain && r > 0))
        receive(t, r, failed);
    }
    if (data == Data::Direct)
      readNeighbour(t, r, launch, failed);
  }

  /// Announces `announced`, waits for all, compares. Register 1 ends as the number of
  /// ranks that announced something else.
  void enter(ThreadCode &t, int r, int operation, int announced, Label failed) {
    const size_t set = size_t(operation) % announcements[size_t(r)].size();
    appendEntry(t, r, operation);
    t.write(announcements[size_t(r)][set], announced);
    t.fetchAdd(arrivals, 1, rules.arrive);
    if (rules.waitsForAll)
      wait(t, arrivals, atLeast(operation * ranks), rules.enter, failed);
    else
      wait(t, arrivals, atLeast((operation - 1) * ranks + 1), rules.enter, failed);
    for (int other = 0; other < ranks; ++other) {
      if (other == r)
        continue;
      t.read(announcements[size_t(other)][set], 0);
      if (!mayDisagree)
        t.expect(0, equal(announced), "everybody announces the same");
      readDirectory(t, other, operation);
    }
  }

  /// Writes rank r's record and names it, unless there is a failure already.
  void fail(ThreadCode &t, int r, int text) {
    const size_t me = size_t(r);
    const Label out = t.label();
    if (rules.recordIsLocked)
      t.lock(locks[me]);
    t.load(failedBy, 0, Order::Acquire);
    t.branchIf(0, differs(0), out);
    if (rules.recordFirst)
      t.write(records[me], text);
    if (rules.oneNamesIt)
      t.compareExchange(failedBy, 0, r + 1, rules.publish);
    else
      t.store(failedBy, r + 1, rules.publish);
    if (!rules.recordFirst)
      t.write(records[me], text);
    t.bind(out);
    if (rules.recordIsLocked)
      t.unlock(locks[me]);
  }

  /// The error that a call answers with: register 2 gets the text of the record.
  void answer(ThreadCode &t) {
    t.await(failedBy, differs(0), rules.notice, 0);
    const Label end = t.label();
    for (int r = 0; r < ranks; ++r) {
      const Label other = t.label();
      t.branchIf(0, differs(r + 1), other);
      t.read(records[size_t(r)], 2);
      t.expect(2, differs(0), "the record is complete");
      t.branchIf(2, differs(0), end);
      t.bind(other);
    }
    t.bind(end);
  }

  void addRecords() {
    for (int r = 0; r < ranks; ++r) {
      records.push_back(model.plain(fmt::format("record{}", r)));
      locks.push_back(model.atomic(fmt::format("lock{}", r)));
    }
  }

  /// Directories with an entry for each operation.
  void addDirectories(int operations) {
    for (int r = 0; r < ranks; ++r) {
      std::vector<Location> entries;
      for (int e = 0; e < operations; ++e)
        entries.push_back(model.plain(fmt::format("directory{}[{}]", r, e)));
      directories.push_back(entries);
      lengths.push_back(model.plain(fmt::format("length{}", r)));
    }
  }

  Location arrivals = -1, failedBy = -1;
  std::vector<Location> in, records;
  bool mayDisagree = false;

private:
  bool uses(Data data) const {
    return std::find(shape.data.begin(), shape.data.end(), data) != shape.data.end();
  }
  Data dataOf(int launch) const { return shape.data[size_t(launch - 1) % shape.data.size()]; }
  int next(int r) const { return (r + 1) % ranks; }
  int previous(int r) const { return (r + ranks - 1) % ranks; }

  /// The channel from rank r to the next one.
  void addChannel(int r) {
    filled.push_back(model.atomic(fmt::format("filled{}", r)));
    freed.push_back(model.atomic(fmt::format("freed{}", r)));
    std::vector<Location> places;
    for (int s = 0; s < shape.slots; ++s)
      places.push_back(model.plain(fmt::format("slot{}[{}]", r, s)));
    slots.push_back(places);
  }

  void wait(ThreadCode &t, Location counter, Condition condition, Order order, Label failed) {
    if (failed >= 0 && rules.waitsLookForFailure)
      t.awaitOrAbort(counter, condition, order, failedBy, rules.notice, failed);
    else
      t.await(counter, condition, order);
  }

  // A `to` end: *arrive + slots >= next + 1, fill, *depart = ++next.
  void send(ThreadCode &t, int r, Label failed) {
    const size_t me = size_t(r);
    const int number = sent[me]++;
    if (rules.senderWaits)
      wait(t, freed[me], atLeast(number + 1 - shape.slots), rules.wait, failed);
    const Location slot = slots[me][size_t(number % shape.slots)];
    if (rules.signalsAfterFilling)
      t.write(slot, 1000 + number);
    t.store(filled[me], number + 1, rules.signal);
    if (!rules.signalsAfterFilling)
      t.write(slot, 1000 + number);
  }

  // A `from` end: *arrive >= next + 1, use, *depart = ++next.
  void receive(ThreadCode &t, int r, Label failed) {
    const size_t from = size_t(previous(r));
    const int number = received[size_t(r)]++;
    wait(t, filled[from], atLeast(number + 1), rules.wait, failed);
    t.read(slots[from][size_t(number % shape.slots)], 0);
    t.expect(0, equal(1000 + number), "the slot holds what was sent");
    t.store(freed[from], number + 1, rules.signal);
  }

  /// Makes a sum and reads that of the next rank, then reads the next rank's input.
  void readNeighbour(ThreadCode &t, int r, int launch, Label failed) {
    // Guards of rank r's memory: its owner tells ready, the rank before it tells done.
    auto guard = [&](int owner, int which) { return guards[size_t(owner * 4 + which)]; };
    for (int phase : {1, 0}) {
      const int ready = 2 * phase, done = 2 * phase + 1;
      const std::vector<Location> &memory = phase ? sums : in;
      if (phase)
        t.write(memory[size_t(r)], 200 + launch);
      if (rules.ownerTellsWhenReady) {
        t.store(guard(r, ready), launch, rules.signal);
        wait(t, guard(next(r), ready), atLeast(launch), rules.wait, failed);
      }
      t.read(memory[size_t(next(r))], 0);
      t.expect(0, equal(100 + 100 * phase + launch), "the peer's memory holds its datum");
      if (rules.readerTellsWhenDone) {
        t.store(guard(next(r), done), launch, rules.signal);
        wait(t, guard(r, done), atLeast(launch), rules.wait, failed);
      }
    }
  }

  void appendEntry(ThreadCode &t, int r, int operation) {
    if (directories.empty())
      return;
    t.write(directories[size_t(r)][size_t(operation - 1)], operation);
    if (!rules.lengthIsAnnounced)
      t.write(lengths[size_t(r)], operation);
  }
  void readDirectory(ThreadCode &t, int other, int operation) {
    if (directories.empty())
      return;
    if (!rules.lengthIsAnnounced)
      t.read(lengths[size_t(other)], 0);
    for (int e = 0; e < operation; ++e) {
      t.read(directories[size_t(other)][size_t(e)], 0);
      t.expect(0, equal(e + 1), "an announced entry of a directory is there");
    }
  }

  Model &model;
  const Shape shape;
  const Rules rules;
  const int ranks;
  Grid announcements, directories, slots;
  std::vector<Location> lengths, sums, filled, freed, guards, locks;
  std::vector<int> sent, received; ///< by rank
};

std::string rankName(int r) { return fmt::format("rank{}", r); }

} // namespace

Model launches(const Shape &shape, const Rules &rules) {
  Model model;
  Builder builder(model, shape, rules);
  if (shape.data.front() == Data::None)
    builder.addDirectories(shape.launches);
  for (int r = 0; r < shape.ranks; ++r) {
    ThreadCode &t = model.thread(rankName(r));
    for (int l = 1; l <= shape.launches; ++l)
      builder.launch(t, r, l, -1);
    if (!builder.in.empty()) // the user has its buffer back
      t.write(builder.in[size_t(r)], 99);
  }
  return model;
}

Model disagreement(int ranks, const Rules &rules) {
  Model model;
  Builder builder(model, {.ranks = ranks, .data = {Data::None}}, rules);
  builder.addRecords();
  builder.mayDisagree = true;
  for (int r = 0; r < ranks; ++r) {
    ThreadCode &t = model.thread(rankName(r));
    const Label failed = t.label();
    builder.enter(t, r, 1, 1, failed);
    builder.enter(t, r, 2, r == ranks - 1 ? 7 : 2, failed);
    // Register 0 holds what the last other one announced: rank n - 1, or n - 2 for itself.
    t.expect(0, equal(r == ranks - 1 ? 2 : 7), "the disagreement is seen");
    builder.fail(t, r, 50); // all say the same
    t.bind(failed);
    builder.answer(t);
  }
  model.judge = [](const Final &end) {
    for (const auto &registers : end.registers)
      if (registers[2] != 50)
        return std::string("a rank has no error");
    return std::string();
  };
  return model;
}

Model failure(const Shape &shape, bool aborts, const Rules &rules) {
  Model model;
  Builder builder(model, shape, rules);
  builder.addRecords();
  const int mortal = shape.ranks - 1;
  const Location gone = model.atomic("gone");
  for (int r = 0; r < shape.ranks; ++r) {
    ThreadCode &t = model.thread(rankName(r));
    const Label failed = t.label(), end = t.label();
    if (r == mortal)
      t.death = gone;
    for (int l = 1; l <= shape.launches; ++l)
      builder.launch(t, r, l, failed);
    t.load(builder.failedBy, 3, Order::Relaxed);
    t.branchIf(3, equal(0), end); // all launches were good, as far as this rank knows
    t.bind(failed);
    builder.answer(t);
    t.bind(end);
  }
  for (int r = 0; r < mortal; ++r) {
    ThreadCode &monitor = model.thread(fmt::format("monitor{}", r));
    monitor.daemon = true;
    monitor.await(gone, equal(1), Order::Relaxed);
    builder.fail(monitor, r, 10 + mortal);
  }
  if (aborts)
    builder.fail(model.thread("aborter0"), 0, 20);
  const int ranks = shape.ranks;
  model.judge = [ranks](const Final &end) {
    int text = 0;
    for (int r = 0; r < ranks; ++r) {
      const int found = end.registers[size_t(r)][2];
      if (end.died[size_t(r)] || found == 0)
        continue;
      if (text != 0 && text != found)
        return fmt::format("two ranks report different errors: {} and {}", text, found);
      text = found;
    }
    return std::string();
  };
  return model;
}

Model reuseAfterFailure(const Rules &rules) {
  Model model;
  Builder builder(model, {.ranks = 2, .data = {Data::Direct}}, rules);
  builder.addRecords();
  const Location returned = model.atomic("returned");
  for (int r = 0; r < 2; ++r) {
    ThreadCode &t = model.thread(rankName(r));
    const Label failed = t.label();
    builder.launch(t, r, 1, failed);
    t.bind(failed);
    t.fetchAdd(returned, 1, Order::AcqRel);
    if (rules.returnsBeforeReuse)
      t.await(returned, equal(2), Order::Acquire);
    t.write(builder.in[size_t(r)], 99);
  }
  builder.fail(model.thread("aborter0"), 0, 20);
  return model;
}

Model leaving(int ranks, const Rules &rules) {
  Model model;
  Builder builder(model, {.ranks = ranks, .data = {Data::None}}, rules);
  const Location leavers = model.atomic("leavers"), block = model.plain("controlBlock", 1);
  std::vector<Location> tables, entered, left, ended;
  for (int r = 0; r < ranks; ++r) {
    tables.push_back(model.plain(fmt::format("table{}", r), 1));
    entered.push_back(model.atomic(fmt::format("entered{}", r)));
    left.push_back(model.atomic(fmt::format("left{}", r)));
    ended.push_back(model.atomic(fmt::format("ended{}", r)));
  }
  for (int r = 0; r < ranks; ++r) {
    const size_t me = size_t(r);
    ThreadCode &t = model.thread(rankName(r));
    t.store(entered[me], 1, Order::Release);
    builder.enter(t, r, 1, 1, -1);
    t.read(block, 0);
    for (int other = 0; other < ranks; ++other)
      t.read(tables[size_t(other)], 0); // where everybody's buffers lie
    if (!rules.tablesLiveUntilAllLeft)
      t.write(tables[me], 0); // freed
    t.store(left[me], 1, rules.left);
    t.fetchAdd(leavers, 1, rules.leave);
    if (r == 0 || rules.tablesLiveUntilAllLeft)
      t.await(leavers, equal(ranks), rules.allLeft);
    if (rules.tablesLiveUntilAllLeft)
      t.write(tables[me], 0);
    if (r == 0)
      t.write(block, 0);
    t.store(ended[me], 1, Order::Release); // by the kernel, which orders it
  }
  // Somebody who still waits at the entry looks whether those who left had come.
  ThreadCode &waiter = model.thread("waiter");
  const Label fine = waiter.label();
  waiter.load(left[0], 0, rules.seeLeft);
  waiter.branchIf(0, equal(0), fine);
  waiter.load(entered[0], 1, Order::Acquire);
  waiter.expect(1, equal(1), "who has left had entered before");
  waiter.bind(fine);
  ThreadCode &monitor = model.thread("monitor");
  monitor.await(ended[0], equal(1), Order::Acquire);
  monitor.load(left[0], 0, rules.seeLeft);
  monitor.expect(0, equal(1), "who has ended in order had left");
  return model;
}

Model splitting(int ranks, const Rules &rules) {
  Model model;
  Builder builder(model, {.ranks = ranks, .data = {Data::None}}, rules);
  const Location child = model.atomic("child");
  const std::vector<Location> blocks = {model.plain("block1"), model.plain("block2")};
  for (int r = 0; r < ranks; ++r) {
    ThreadCode &t = model.thread(rankName(r));
    for (int split = 1, operation = 1; split <= 2; ++split) {
      builder.enter(t, r, operation++, split, -1);
      if (r == 0) {
        t.write(blocks[size_t(split - 1)], 1);
        t.store(child, split, Order::Release);
      }
      if (rules.publishes)
        builder.enter(t, r, operation++, split, -1);
      t.load(child, 0, Order::Acquire);
      t.expect(0, equal(split), "child is that of this split");
      t.read(blocks[size_t(split - 1)], 0);
      t.expect(0, equal(1), "the child's block is complete");
    }
  }
  return model;
}

Model rebuilding(int ranks, const Rules &rules) {
  Model model;
  const Location decidedBy = model.atomic("decidedBy");
  std::vector<Location> rejoins, successors, blocks;
  for (int r = 0; r < ranks; ++r) {
    rejoins.push_back(model.atomic(fmt::format("rejoins{}", r)));
    successors.push_back(model.atomic(fmt::format("successor{}", r)));
    blocks.push_back(model.plain(fmt::format("block{}", r)));
  }
  for (int r = 0; r < ranks; ++r) {
    const size_t me = size_t(r);
    ThreadCode &t = model.thread(rankName(r));
    const Label decided = t.label(), end = t.label();
    t.store(rejoins[me], 1, Order::Release);
    // Whoever has not seen a decision may be late enough to make one: time has no model.
    t.load(decidedBy, 0, Order::Acquire);
    t.branchIf(0, differs(0), decided);
    if (r > 0) { // it decides if the one before it does not seem to come
      t.load(rejoins[me - 1], 1, Order::Acquire);
      t.branchIf(1, differs(0), decided);
    }
    t.write(blocks[me], 10 + r);
    t.store(successors[me], 1, Order::Release);
    if (rules.oneDecides)
      t.compareExchange(decidedBy, 0, r + 1, rules.decide);
    else
      t.store(decidedBy, r + 1, rules.decide);
    t.bind(decided);
    t.await(decidedBy, differs(0), rules.decide, 0);
    for (int other = 0; other < ranks; ++other) {
      const Label next = t.label();
      t.branchIf(0, differs(other + 1), next);
      t.load(successors[size_t(other)], 1, Order::Acquire);
      t.expect(1, equal(1), "who decided has made a block");
      t.read(blocks[size_t(other)], 2);
      t.branchIf(2, differs(0), end);
      t.bind(next);
    }
    t.bind(end);
  }
  model.judge = [](const Final &end) {
    for (const auto &registers : end.registers)
      if (registers[2] == 0 || registers[2] != end.registers[0][2])
        return std::string("survivors go on with different blocks");
    return std::string();
  };
  return model;
}

} // namespace ccl::litmus
