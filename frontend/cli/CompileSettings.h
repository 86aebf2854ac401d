//===- CompileSettings.h - What the settings say about compiling ------------===//
#pragma once

#include "codegen/Compile.h"
#include "runtime/Settings.h"

#include <algorithm>

namespace ccl::cli {

/// Where code is cached, stages are dumped to and replaced from, and what compiles for GPUs. What
/// to compile is left to the caller.
inline CompileOptions compileOptions(const Settings &settings) {
  CompileOptions options;
  if (!settings.flag(Setting::AlwaysCompile))
    options.cacheDir = settings.text(Setting::CacheDir);
  options.dumpDir = settings.text(Setting::DumpDir);
  options.overrideDir = settings.text(Setting::OverrideDir);
  options.nvrtcLibrary = settings.text(Setting::NvrtcLibrary);
  options.shimCompiler = settings.text(Setting::ShimCxx);
  options.shimThreads = std::max<int64_t>(settings.number(Setting::ShimThreads), 1);
  return options;
}

} // namespace ccl::cli
