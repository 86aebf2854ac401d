//===- ByteSize.cpp -------------------------------------------------------===//
#include "passes/ByteSize.h"

#include "dialect/model/Sizes.h"

#include "llvm/Support/raw_ostream.h"

namespace llvm::cl {

bool parser<ccl::ByteSize>::parse(Option &option, StringRef, StringRef text, ccl::ByteSize &size) {
  constexpr int64_t most = ccl::model::mostPlannedBytes;
  int64_t bytes = 0;
  if (std::string wrong = ccl::model::parseSize(text, bytes); !wrong.empty())
    return option.error(wrong);
  if (bytes < 1 || bytes > most)
    return option.error("'" + text + "': a size is 1 to " + Twine(most) + " bytes");
  size = bytes;
  return false;
}

void parser<ccl::ByteSize>::printOptionDiff(const Option &option, const ccl::ByteSize &size,
                                            const OptVal &, size_t) const {
  outs() << "  " << option.ArgStr << " = " << int64_t(size) << '\n';
}

void parser<ccl::ByteSize>::anchor() {}

} // namespace llvm::cl
