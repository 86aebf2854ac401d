//===- CompileSettings.h - What the settings say about compiling ------------===//
#pragma once

#include "codegen/Compile.h"
#include "runtime/Settings.h"

namespace ccl::cli {

/// Where code is cached, and stages are dumped to and replaced from. What to compile is left
/// to the caller.
inline CompileOptions compileOptions(const Settings &settings) {
  CompileOptions options;
  if (!settings.flag(Setting::AlwaysCompile))
    options.cacheDir = settings.text(Setting::CacheDir);
  options.dumpDir = settings.text(Setting::DumpDir);
  options.overrideDir = settings.text(Setting::OverrideDir);
  return options;
}

} // namespace ccl::cli
