// Readers on texts with something cut, flipped, doubled or moved: they never crash, and say what is
// wrong with every text that they refuse.
#include "frontend/topology/Read.h"
#include "test/unit/topology/Files.h"

#include <doctest/doctest.h>

#include <random>

using namespace ccl;
using namespace ccl::topology;

namespace {

const std::string xml = R"(<system version="1">
  <cpu numaid="0" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="143">
    <pci busid="0000:10:00.0" class="0x060400" link_speed="32.0 GT/s PCIe" link_width="16">
      <pcilink target="0000:11:00.0"/>
      <pci busid="0000:1b:00.0" class="0x030200" link_speed="32.0 GT/s PCIe" link_width="16">
        <gpu dev="0" sm="90" rank="0"><nvlink target="0000:1c:00.0" count="6" tclass="0x030200"/></gpu>
      </pci></pci>
    <pci busid="0000:11:00.0" class="0x060400" link_speed="32.0 GT/s PCIe" link_width="16">
      <pci busid="0000:1c:00.0" class="0x030200" link_speed="32.0 GT/s PCIe" link_width="16">
        <gpu dev="1" sm="90" rank="1"><nvlink target="0000:1b:00.0" count="6" tclass="0x030200"/>
          <c2c bw="44712" count="10"/></gpu>
      </pci></pci>
    <nic><net name="mlx5_0" dev="0" speed="400000" latency="1.5"/></nic>
  </cpu>
</system>
)";
const std::string graphs = R"(<graphs version="1"><graph id="0" pattern="4" nchannels="1"
  speedintra="12" speedinter="6"><channel><net dev="0"/><gpu dev="0"/><gpu dev="1"/><net dev="0"/>
  </channel></graph></graphs>)";
const std::string topo = "\t\x1b[4mGPU0\tGPU1\tNIC0\tCPU Affinity\tNUMA Affinity\x1b[0m\n"
                         "GPU0\t X \tNV12\tPIX\t0-7\t0\nGPU1\tNV12\t X \tSYS\t8-15\t1\n"
                         "NIC0\tPIX\tSYS\t X \t\t\n\nLegend:\n\nNIC Legend:\n\n  NIC0: mlx5_0\n"
                         "GPU 0: NVIDIA A100-SXM4-80GB (UUID: GPU-0)\n\t Link 0: 25 GB/s\n"
                         "\t Link 1: <inactive>\n";
const std::string rocm =
    "=== Weight between two GPUs ===\n GPU0 GPU1\nGPU0 0 15\nGPU1 15 0\n"
    "=== Hops between two GPUs ===\n GPU0 GPU1\nGPU0 0 1\nGPU1 1 0\n"
    "=== Link Type between two GPUs ===\n GPU0 GPU1\nGPU0 0 XGMI\nGPU1 XGMI 0\n"
    "GPU[0] : (Topology) Numa Node: 0\nGPU[1] : (Topology) Numa Node: 1\n";
const std::string edges = "3 4 6\n0 3 25\n1 3 12.5\n2 3 0.1\n3 0 25\n3 1 12.5\n3 2 0.1\n";

std::string mutated(std::string text, std::mt19937 &dice) {
  auto below = [&](size_t n) { return n == 0 ? 0 : size_t(dice() % n); };
  int changes = 1 + int(below(3));
  for (int i = 0; i < changes && !text.empty(); ++i) {
    size_t at = below(text.size()), length = 1 + below(20);
    switch (dice() % 6) {
    case 0: text.resize(at); break;
    case 1: text[at] = char(dice()); break;
    case 2: text[at] = char(text[at] ^ (1 << dice() % 8)); break;
    case 3: text.erase(at, length); break;
    case 4: text.insert(below(text.size()), text.substr(at, length)); break;
    case 5: text.insert(at, std::to_string(int32_t(dice()))); break;
    }
  }
  return text;
}

/// Whatever the text: a topology that holds, or words about what is wrong or missing. Returns
/// whether it was refused.
bool checkResult(const std::string &text, const Options &options) {
  ReadResult result = readTopologyText(text, "mutated", options);
  int32_t lines = int32_t(std::count(text.begin(), text.end(), '\n')) + 1;
  for (const Diagnostic &diagnostic : result.diagnostics) {
    if (diagnostic.text.empty() || diagnostic.place.line < 1 || diagnostic.place.line > lines)
      FAIL("a diagnostic without words or with a line that does not exist: " << text);
  }
  if (result.topology) {
    if (std::string problem = result.topology->check(); !problem.empty() || result.failed())
      FAIL("a topology with an error (" << problem << "): " << text);
    return false;
  }
  if (!result.failed() ? result.missing.empty()
                       : result.diagnostics.empty() && result.refusal.empty())
    FAIL("neither a topology nor a reason: " << text);
  return true;
}

void run(const std::string &text, uint32_t seed, int count) {
  std::mt19937 dice(seed);
  int refused = 0;
  Options one, two;
  two.nodes = 2;
  two.rates = Rates::Effective;
  CHECK_FALSE(checkResult(text, one));
  for (int i = 0; i < count; ++i)
    refused += checkResult(mutated(text, dice), i % 4 == 0 ? two : one);
  // Both happen, else the changes are too weak or too strong to show anything.
  CHECK(refused > count / 20);
  CHECK(refused < count);
}

} // namespace

TEST_CASE("mutated texts") {
  run(xml, 1, 3000);
  run(graphs, 2, 1500);
  run(topo, 3, 3000);
  run(rocm, 4, 1500);
  run(edges, 5, 1500);
}

TEST_CASE("every prefix of a text") {
  for (const std::string &text : {xml, graphs, topo, rocm, edges})
    for (size_t length = 0; length < text.size(); ++length)
      checkResult(text.substr(0, length), {});
}

namespace {

std::vector<std::string> allOf(const std::string &folder, const std::string &suffix) {
  std::vector<std::string> texts;
  for (const std::filesystem::path &path : test::corpusFiles(folder, suffix))
    texts.push_back(test::readWhole(path));
  return texts;
}

/// The text that ends before each line, lacks it, has it twice, has it after the next.
void checkLines(const std::string &text) {
  for (size_t begin = 0; begin < text.size();) {
    size_t end = std::min(text.find('\n', begin), text.size() - 1) + 1;
    size_t next = end < text.size() ? std::min(text.find('\n', end), text.size() - 1) + 1 : end;
    std::string before = text.substr(0, begin), line = text.substr(begin, end - begin),
                after = text.substr(end);
    checkResult(before, {});
    checkResult(before + after, {});
    checkResult(before + line + line + after, {});
    checkResult(before + after.substr(0, next - end) + line + text.substr(next), {});
    begin = end;
  }
}

/// The text without each of its attributes.
void checkAttributes(const std::string &text) {
  for (size_t quote = text.find("=\""); quote != text.npos; quote = text.find("=\"", quote + 2)) {
    size_t begin = text.rfind(' ', quote), end = text.find('"', quote + 2);
    if (begin != text.npos && end != text.npos)
      checkResult(text.substr(0, begin) + text.substr(end + 1), {});
  }
}

} // namespace

TEST_CASE("mutated files of real machines") {
  std::mt19937 dice(6);
  for (const auto &[folder, suffix] : {std::pair{"nccl-topo", ".xml"}, {"smi-topo", ".txt"}})
    for (const std::string &text : allOf(folder, suffix))
      for (int i = 0; i < 20; ++i)
        checkResult(mutated(text, dice), {});
}

TEST_CASE("files of real machines with a line cut, left out, doubled or moved") {
  for (const auto &[folder, suffix] : {std::pair{"nccl-topo", ".xml"}, {"smi-topo", ".txt"}})
    for (const std::string &text : allOf(folder, suffix))
      checkLines(text);
}

TEST_CASE("files of real machines without an attribute") {
  for (const std::string &text : allOf("nccl-topo", ".xml"))
    checkAttributes(text);
}
