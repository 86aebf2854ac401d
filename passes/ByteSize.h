//===- ByteSize.h - Pass options that are sizes -------------------------------===//
#pragma once

#include "llvm/Support/CommandLine.h"

#include <cstdint>

namespace ccl {

/// From 1 to 2^50 bytes, written as on the command line: 64M.
struct ByteSize {
  int64_t value = 0;
  ByteSize(int64_t value = 0) : value(value) {}
  operator int64_t() const { return value; }
};

} // namespace ccl

template <>
class llvm::cl::parser<ccl::ByteSize> : public llvm::cl::basic_parser<ccl::ByteSize> {
public:
  using basic_parser::basic_parser;
  /// True on an error, which it reports.
  bool parse(Option &option, StringRef name, StringRef text, ccl::ByteSize &size);
  StringRef getValueName() const override { return "size"; }
  void printOptionDiff(const Option &option, const ccl::ByteSize &size, const OptVal &initial,
                       size_t width) const;
  void anchor() override;
};
