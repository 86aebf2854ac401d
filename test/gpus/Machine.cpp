//===- Machine.cpp ----------------------------------------------------------===//
#include "test/gpus/Machine.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <thread>

namespace ccl::test {
namespace {

/// A test whose description is wrong must not pass.
[[noreturn]] void refuse(const std::string &line) {
  std::fprintf(stderr, "TEST_GPUS: cannot read `%s`\n", line.c_str());
  std::abort();
}

template <typename T>
void readAddress(const std::string &text, T &to, const std::string &line) {
  if (std::sscanf(text.c_str(), "%x:%x:%x", &to.domain, &to.bus, &to.device) != 3)
    refuse(line);
}

void readGpu(std::istringstream &words, FakeMachine &machine, const std::string &line) {
  FakeGpu gpu;
  std::string word;
  words >> word;
  readAddress(word, gpu, line);
  while (words >> word) {
    const size_t equals = word.find('=');
    std::string value = equals == word.npos ? "1" : word.substr(equals + 1);
    for (char &c : value)
      c = c == '_' ? ' ' : c;
    gpu.facts[word.substr(0, equals)] = value;
  }
  machine.gpus.push_back(gpu);
}

void readLinks(std::istringstream &words, FakeGpu &gpu, const std::string &line) {
  std::string numbers, kind, address;
  words >> numbers >> kind >> address;
  unsigned from = 0, to = 0;
  if (std::sscanf(numbers.c_str(), "%u-%u", &from, &to) != 2)
    to = from;
  FakeLink link;
  link.isActive = kind != "inactive";
  link.type = kind == "gpu" ? 0 : kind == "npu" ? 1 : kind == "switch" ? 2 : 255;
  link.hasAddress = !address.empty();
  if (link.hasAddress)
    readAddress(address, link, line);
  if (link.type == 255 && kind != "unknown" && kind != "inactive")
    refuse(line);
  for (unsigned number = from; number <= to; ++number)
    gpu.links[number] = link;
}

void readLine(const std::string &line, FakeMachine &machine) {
  std::istringstream words(line);
  std::string what, name;
  if (!(words >> what) || what[0] == '#')
    return;
  unsigned value = 0;
  std::pair<int, int> pair;
  if (what == "driver" && words >> machine.driver)
    return;
  if (what == "gpu")
    return readGpu(words, machine, line);
  if (what == "link" && !machine.gpus.empty())
    return readLinks(words, machine.gpus.back(), line);
  if (what == "fail" && words >> name >> value) {
    (machine.gpus.empty() ? machine.failures : machine.gpus.back().failures)[name] = value;
    return;
  }
  if (what == "hang" && words >> name) {
    (machine.gpus.empty() ? machine.hangs : machine.gpus.back().hangs).insert(name);
    return;
  }
  if (what == "apart" && words >> pair.first >> pair.second) {
    machine.apart.insert(pair);
    return;
  }
  refuse(line);
}

FakeMachine read() {
  FakeMachine machine;
  const char *path = std::getenv("TEST_GPUS");
  std::ifstream file(path ? path : "");
  if (!file)
    refuse(path ? path : "");
  std::string line;
  while (std::getline(file, line))
    readLine(line, machine);
  const char *visible = std::getenv("CUDA_VISIBLE_DEVICES");
  if (!visible) {
    for (size_t i = 0; i < machine.gpus.size(); ++i)
      machine.visible.push_back(i);
    return machine;
  }
  std::istringstream numbers(visible);
  while (std::getline(numbers, line, ','))
    if (const size_t i = std::strtoul(line.c_str(), nullptr, 10); i < machine.gpus.size())
      machine.visible.push_back(i);
  return machine;
}

} // namespace

unsigned FakeGpu::number(const std::string &key, unsigned otherwise) const {
  auto found = facts.find(key);
  return found == facts.end() ? otherwise
                              : unsigned(std::strtoul(found->second.c_str(), nullptr, 0));
}

const FakeMachine &fakeMachine(bool again) {
  static FakeMachine machine = read();
  if (again)
    machine = read();
  return machine;
}

void hangUntilFileIsGone() {
  const char *path = std::getenv("TEST_GPUS");
  const std::string file = path ? path : "";
  while (std::ifstream(file))
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
}

} // namespace ccl::test
