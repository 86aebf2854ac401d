// Which format a file has, and how its text is shown.
#include "frontend/interchange/Formats.h"

#include <doctest/doctest.h>

using namespace ccl::interchange;

TEST_CASE("the suffix of a name decides, whatever its case") {
  CHECK(formatOf("a.xml", "{}") == Format::MscclXml);
  CHECK(formatOf("dir.xml/plan.JSON", "<algo/>") == Format::MscclppJson);
  CHECK(formatOf("ring.mlir", "<algo/>") == Format::Mlir);
  CHECK(!formatOfName("ring"));
  CHECK(!formatOfName("dir.xml/ring.txt"));
}

TEST_CASE("where the name does not tell, the text does") {
  CHECK(formatOf("-", "\n  <algo name=\"a\"/>") == Format::MscclXml);
  CHECK(formatOf("-", "\xef\xbb\xbf<algo/>") == Format::MscclXml);
  CHECK(formatOf("plan", " {\"name\": \"a\"}") == Format::MscclppJson);
  CHECK(formatOf("plan", "[1]") == Format::MscclppJson);
  CHECK(formatOf("-", "{-# dialect_resources: {} #-}") == Format::Mlir);
  CHECK(formatOf("-", "ccl.algorithm @a") == Format::Mlir);
  CHECK(formatOf("-", "") == Format::Mlir);
}

TEST_CASE("every runtime and format has a name") {
  for (std::string_view word : {"mlir", "xml", "json"})
    CHECK(name(*parseFormat(word)) == word);
  for (std::string_view word : {"msccl", "rccl", "azure", "mscclpp"})
    CHECK(name(*parseRuntime(word)) == word);
  CHECK(formatFor(*parseRuntime("rccl")) == Format::MscclXml);
  CHECK(formatFor(*parseRuntime("mscclpp")) == Format::MscclppJson);
  CHECK(!parseFormat("yaml"));
  CHECK(!parseRuntime("nccl"));
}

TEST_CASE("long lines are shown in part, and keep their number") {
  const std::string text = std::string(10000, 'x') + "\nshort\n" + std::string(10000, 'y');
  const std::string shown = forDisplay(text);
  CHECK(shown.size() < 1000);
  CHECK(shown.find("\nshort\n") != std::string::npos);
  CHECK(std::count(shown.begin(), shown.end(), '\n') == 2);
  CHECK(forDisplay("a\n\nb\n") == "a\n\nb\n");
  CHECK(forDisplay("") == "");
  CHECK(forDisplay("a\tb\x1b[2J\r\n") == "a\tb [2J \n");
  // What is no UTF-8, and controls that are, too; of binary data only what is before it.
  CHECK(forDisplay("a\x80\xff\xc3(\xc2\x9b[2J\xe2\x82\xac") == "a   (  [2J\xe2\x82\xac");
  CHECK(forDisplay(llvm::StringRef("ab\0cd\nef", 8)) == "ab\nef");
  // Not in the middle of a character.
  std::string accents;
  for (int i = 0; i < 200; ++i)
    accents += "\xc3\xa9";
  const std::string cut = forDisplay("z" + accents);
  CHECK(cut.size() % 2 == 1);
  CHECK(uint8_t(cut.back()) == 0xa9);
}
