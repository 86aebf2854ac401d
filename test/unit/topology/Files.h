//===- Files.h - Collections of real machines' files, where they are there -----------===//
#pragma once

#include "frontend/topology/Machine.h"

#include <algorithm>
#include <doctest/doctest.h>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace ccl::test {

inline std::string readWhole(const std::filesystem::path &path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

/// The files with this suffix in a folder of the collection, by name; none, with a message, if
/// the collection is not there.
inline std::vector<std::filesystem::path> corpusFiles(const std::string &folder,
                                                      const std::string &suffix) {
  std::filesystem::path path = std::filesystem::path(CCL_CORPUS) / folder;
  std::vector<std::filesystem::path> files;
  std::error_code code;
  for (const auto &entry : std::filesystem::directory_iterator(path, code))
    if (entry.path().extension() == suffix)
      files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  if (files.empty())
    MESSAGE("skipped: there is no " << path.string());
  return files;
}

inline double speed(const topology::Machine &machine, std::string_view from, std::string_view to,
                    topology::Rates rates) {
  double sum = 0;
  for (const topology::Cable &cable : machine.cables)
    if (machine.devices[size_t(cable.from)].name == from &&
        machine.devices[size_t(cable.to)].name == to)
      sum += cable.speed.at(rates);
  return sum;
}
inline double nominal(const topology::Machine &machine, std::string_view from,
                      std::string_view to) {
  return speed(machine, from, to, topology::Rates::Nominal);
}
inline double effective(const topology::Machine &machine, std::string_view from,
                        std::string_view to) {
  return speed(machine, from, to, topology::Rates::Effective);
}

inline bool mentions(const std::vector<std::string> &texts, std::string_view words) {
  return std::any_of(texts.begin(), texts.end(),
                     [&](const std::string &text) { return text.find(words) != text.npos; });
}

} // namespace ccl::test
