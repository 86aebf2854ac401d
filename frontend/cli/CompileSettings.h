//===- CompileSettings.h - What the settings say about compiling ------------===//
#pragma once

#include "codegen/Compile.h"
#include "runtime/Settings.h"

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
  if (const int64_t warps = settings.number(Setting::ShimWarps); warps > 0)
    options.shimThreads = 32 * warps;
  return options;
}

} // namespace ccl::cli
