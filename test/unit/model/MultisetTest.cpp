#include "dialect/model/Multiset.h"

#include <doctest/doctest.h>

#include <map>
#include <random>

using namespace ccl::model;

TEST_CASE("equal multisets have one number, whatever the order") {
  Multisets sets(4, 2);
  Contents a = sets.atom({0, 1}), b = sets.atom({1, 1}), c = sets.atom({3, 1});
  CHECK(a == sets.atom({0, 1}));
  CHECK(sets.unite(sets.unite(a, b), c) == sets.unite(a, sets.unite(c, b)));
  Contents all = sets.unite(sets.unite(sets.unite(a, b), sets.atom({2, 1})), c);
  CHECK(all == sets.ofEveryRank(1));
  CHECK(sets.size(all) == 4);
  CHECK(sets.mostTimes(all) == 1);
  CHECK(sets.lengthClass(all) == 1);
  CHECK(sets.lengthClass(sets.unite(a, sets.atom({0, 3}))) == 1);
  CHECK(sets.lengthClass(sets.unite(a, sets.atom({0, 0}))) == Multisets::mixed);
  CHECK(sets.minus(all, b) == sets.unite(a, sets.unite(sets.atom({2, 1}), c)));
  CHECK(sets.minus(a, all) == Multisets::nothing);
  CHECK(sets.unite(a, Multisets::poison) == Multisets::poison);
  CHECK(sets.unite(a, Multisets::nothing) == a);
}

TEST_CASE("what contributions have in common") {
  Multisets sets(3, 2);
  Contents a = sets.atom({1, 3}), b = sets.atom({1, 5}), c = sets.atom({2, 3});
  CHECK(sets.rank(a) == 1);
  CHECK(sets.shard(a) == 1);
  CHECK(sets.rank(sets.unite(a, b)) == 1);
  CHECK(sets.shard(sets.unite(a, b)) == Multisets::mixed);
  CHECK(sets.rank(sets.unite(a, c)) == Multisets::mixed); // one run
  CHECK(sets.shard(sets.unite(a, c)) == 1);
  CHECK(sets.rank(sets.unite(sets.atom({0, 3}), c)) == Multisets::mixed); // two runs
  CHECK(sets.shard(sets.ofEveryRank(4)) == 2);
  CHECK(sets.rank(sets.ofEveryRank(4)) == Multisets::mixed);
  Multisets one(1, 1);
  CHECK(one.rank(one.unite(one.atom({0, 0}), one.atom({0, 1}))) == 0);
  CHECK(one.shard(one.unite(one.atom({0, 0}), one.atom({0, 1}))) == Multisets::mixed);
}

TEST_CASE("multisets as text") {
  Multisets sets(32, 4);
  Contents a = sets.atom({0, 3}), b = sets.atom({1, 3});
  CHECK(sets.str(Multisets::nothing) == "nothing");
  CHECK(sets.str(sets.unite(a, b)) == "{0.3, 1.3}");
  CHECK(sets.str(sets.unite(sets.unite(a, b), b)) == "{0.3, 1.3 x2}");
  CHECK(sets.str(sets.ofEveryRank(3)) == "{0.3, 1.3, ... 31.3} (32)");
  CHECK(sets.front(b) == Atom{1, 3});
}

TEST_CASE("fuzz: unions and differences are those of a plain map") {
  constexpr uint32_t seed = 20241;
  INFO("seed " << seed);
  std::mt19937 random(seed);
  Multisets sets(5, 3);
  using Plain = std::map<int64_t, int64_t>; // chunk * 5 + rank: times
  std::vector<std::pair<Contents, Plain>> known;
  for (int64_t atom = 0; atom < 20; ++atom)
    known.push_back({sets.atom({atom % 5, atom / 5}), {{atom, 1}}});
  for (int round = 0; round < 3000; ++round) {
    auto [a, plainA] = known[random() % known.size()];
    auto [b, plainB] = known[random() % known.size()];
    bool unite = random() % 3 != 0;
    Contents result = unite ? sets.unite(a, b) : sets.minus(a, b);
    Plain plain = plainA;
    for (auto [atom, times] : plainB)
      plain[atom] += unite ? times : -times;
    std::erase_if(plain, [](const auto &entry) { return entry.second <= 0; });
    int64_t most = 0;
    for (auto [atom, times] : plain)
      most = std::max(most, times);
    REQUIRE(sets.size(result) == int64_t(plain.size()));
    REQUIRE(sets.mostTimes(result) == most);
    for (const auto &[id, other] : known)
      REQUIRE((id == result) == (other == plain));
    if (result != Multisets::nothing && most < 50)
      known.push_back({result, plain});
    if (known.size() > 400)
      known.erase(known.begin() + 20, known.begin() + 200);
  }
}
