//===- Mutate.h - Changing texts by their structure ------------------------------------===//
//
// Random bytes rarely get past a parser. These changes know numbers, words and nested
// blocks: what comes out is mostly well-formed, and means something else.
//===----------------------------------------------------------------------===//
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace ccl::fuzz {

enum class Language : uint8_t { Xml, Json, Mlir };

struct Vocabulary {
  Language language;
  std::vector<std::string_view> words;  ///< may replace a word: names of elements, ops, values
  std::vector<std::string_view> pieces; ///< may be inserted between two tokens
};

/// As LLVMFuzzerCustomMutator: changes the text in place, returns its new size.
size_t mutate(const Vocabulary &vocabulary, uint8_t *data, size_t size, size_t maxSize,
              unsigned seed);
/// As LLVMFuzzerCustomCrossOver: a block of one text at a place in the other.
size_t crossOver(const Vocabulary &vocabulary, std::string_view a, std::string_view b, uint8_t *out,
                 size_t maxSize, unsigned seed);

} // namespace ccl::fuzz

/// Defines both functions of libFuzzer for a target with this vocabulary.
#define CCL_FUZZ_MUTATOR(vocabulary)                                                               \
  extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t maxSize,            \
                                            unsigned seed) {                                       \
    return ccl::fuzz::mutate(vocabulary, data, size, maxSize, seed);                               \
  }                                                                                                \
  extern "C" size_t LLVMFuzzerCustomCrossOver(const uint8_t *a, size_t aSize, const uint8_t *b,    \
                                              size_t bSize, uint8_t *out, size_t maxSize,          \
                                              unsigned seed) {                                     \
    return ccl::fuzz::crossOver(vocabulary, {reinterpret_cast<const char *>(a), aSize},            \
                                {reinterpret_cast<const char *>(b), bSize}, out, maxSize, seed);   \
  }
