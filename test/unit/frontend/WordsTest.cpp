#include "test/unit/frontend/Ranks.h"

using namespace ccl;

TEST_CASE("words: every type, op and collective has a name that is read back") {
  for (int i = 0; i <= int(DataType::f8e5m2); ++i)
    CHECK(parseDataType(name(DataType(i))) == DataType(i));
  for (int i = 0; i <= int(Op::bxor); ++i)
    CHECK(parseOp(name(Op(i))) == Op(i));
  for (int i = 0; i <= int(Collective::custom); ++i)
    CHECK(parseCollective(name(Collective(i))) == Collective(i));
  CHECK(parseDataType("float") == DataType::f32);
  CHECK(!parseDataType("pigeon"));
  CHECK(!parseOp("none"));
  CHECK(!parseCollective(""));
  CHECK(name(DataType(99)) == "?");
}

TEST_CASE("words: sizes of elements") {
  const size_t bytes[] = {1, 1, 4, 4, 8, 8, 2, 2, 4, 8, 1, 1};
  for (int i = 0; i <= int(DataType::f8e5m2); ++i)
    CHECK(sizeOf(DataType(i)) == bytes[i]);
  CHECK(sizeOf(DataType(99)) == 0);
}

TEST_CASE("words: a result is a value or an error") {
  Result<int> good = 3, bad = Error{Error::Kind::timeout, "late", 2};
  CHECK(*good == 3);
  CHECK(bool(good.status()));
  REQUIRE(!bad);
  CHECK(bad.error().culprit == 2);
  CHECK(bad.status().error().message == "late");
  CHECK(name(bad.error().kind) == "timeout");
}
