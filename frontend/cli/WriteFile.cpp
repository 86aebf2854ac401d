//===- WriteFile.cpp ------------------------------------------------------------===//
#include "frontend/cli/WriteFile.h"

#include "frontend/cli/Output.h"

#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/raw_ostream.h"

using namespace llvm;

namespace ccl::cli {

static std::error_code writeAll(raw_fd_ostream &os, StringRef text) {
  os << text;
  os.close();
  std::error_code error = os.error();
  os.clear_error(); // else the destructor ends the process
  return error;
}

/// `mode`: of the file that is replaced, if there is one.
static std::error_code replaceFile(StringRef path, StringRef text,
                                   std::optional<sys::fs::perms> mode) {
  int descriptor = -1;
  SmallString<128> temporary;
  if (std::error_code error =
          sys::fs::createUniqueFile(path + ".%%%%%%.tmp", descriptor, temporary, sys::fs::OF_None,
                                    sys::fs::all_read | sys::fs::all_write))
    return error;
  // Before there is anything to be read.
  std::error_code denied;
  if (mode)
    denied = sys::fs::setPermissions(descriptor, *mode);
  raw_fd_ostream os(descriptor, /*shouldClose=*/true);
  std::error_code error = writeAll(os, text);
  if (!error)
    error = denied;
  if (!error)
    error = sys::fs::rename(temporary, path);
  if (error)
    (void)sys::fs::remove(temporary);
  return error;
}

std::string writeFile(const std::string &path, StringRef text) {
  if (path == "-") {
    writeText(stdout, std::string_view(text.data(), text.size()));
    return ""; // the end of the process tells whether that went well
  }
  // Of a link, the file that it leads to is replaced and not the link.
  SmallString<128> target;
  sys::fs::file_status status;
  std::error_code error = sys::fs::status(path, status);
  if (!error && sys::fs::real_path(path, target))
    target = path;
  const bool isNew = error == std::errc::no_such_file_or_directory;
  if (isNew || status.type() == sys::fs::file_type::regular_file) {
    error = replaceFile(target.empty() ? StringRef(path) : target.str(), text,
                        isNew ? std::nullopt : std::optional(status.permissions()));
  } else {
    std::error_code opening;
    raw_fd_ostream os(path, opening);
    error = opening ? opening : writeAll(os, text);
  }
  return error ? "cannot write '" + path + "': " + error.message() : "";
}

} // namespace ccl::cli
