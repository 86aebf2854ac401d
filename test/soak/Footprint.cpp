//===- Footprint.cpp -----------------------------------------------------------------===//
#include "test/soak/Footprint.h"

#include <fmt/format.h>

#include <dirent.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

namespace ccl::soak {
namespace {

std::vector<std::string> namesIn(const char *folder) {
  std::vector<std::string> names;
  DIR *open = opendir(folder);
  if (!open)
    return names;
  while (const dirent *entry = readdir(open))
    if (std::string_view name = entry->d_name; name != "." && name != "..")
      names.emplace_back(name);
  closedir(open);
  std::sort(names.begin(), names.end());
  return names;
}

} // namespace

std::vector<std::string> sharedMemoryNames() { return namesIn("/dev/shm"); }

std::vector<std::string> sharedMemoryLeftSince(const std::vector<std::string> &before) {
  std::vector<std::string> left = sharedMemoryNames();
  std::erase_if(left,
                [&](const std::string &name) { return std::ranges::binary_search(before, name); });
  for (int i = 0; i < 200 && !left.empty(); ++i) {
    usleep(50000);
    const std::vector<std::string> now = sharedMemoryNames();
    std::erase_if(left,
                  [&](const std::string &name) { return !std::ranges::binary_search(now, name); });
  }
  return left;
}

Footprint Footprint::now() {
  Footprint found;
  // Without the one that reads the folder.
  found.descriptors = int64_t(namesIn("/proc/self/fd").size()) - 1;
  found.threads = int64_t(namesIn("/proc/self/task").size());
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line); ++found.mappings)
    found.arenas += line.find("memfd:ccl") != std::string::npos;
  std::ifstream status("/proc/self/status");
  int64_t kilobytes = 0;
  for (std::string word; status >> word;)
    if (word == "RssAnon:" && status >> kilobytes)
      found.privateBytes = kilobytes << 10;
    else if (word == "RssShmem:" && status >> kilobytes)
      found.sharedBytes = kilobytes << 10;
  return found;
}

std::string Footprint::growthSince(const Footprint &before) const {
  std::string text;
  auto compare = [&](const char *what, int64_t was, int64_t is, int64_t allowed) {
    if (is > was + allowed)
      text += fmt::format("{}{} {} instead of {}", text.empty() ? "" : ", ", is, what, was);
  };
  compare("descriptors", before.descriptors, descriptors, 0);
  compare("threads", before.threads, threads, 0);
  compare("arenas", before.arenas, arenas, 0);
  // The stack and the heap of each thread that there was, each with a guard; malloc's own growth.
  // Over NICs there are up to five: two that watch, two that serve wires, one that keeps the link.
  compare("mappings", before.mappings, mappings, 24);
  compare("private bytes", before.privateBytes, privateBytes, 16 << 20);
  // What ranks report lies in such memory, too.
  compare("shared bytes", before.sharedBytes, sharedBytes, 128 << 10);
  return text;
}

} // namespace ccl::soak
