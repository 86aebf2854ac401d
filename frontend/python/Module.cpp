//===- Module.cpp - The extension module ccl._ccl ----------------------------------===//
//
// Everything that the package needs of libccljit, with arrays checked. Signatures, defaults
// and documentation for users are in ccl/*.py.
//===----------------------------------------------------------------------===//
#include "frontend/python/Handles.h"

#include <sys/prctl.h>

#include <csignal>

using namespace ccl::python;

PYBIND11_MODULE(_ccl, module) {
  module.attr("version") = std::string(ccl::version());
  module.def(
      "end_with_parent", [] { prctl(PR_SET_PDEATHSIG, SIGKILL); },
      "Kills this process when the thread that started it ends.");
  addPrograms(module);
  addBuilder(module);
  addTopologies(module);
  addCommunicators(module);
  addCuda(module);
  addStreams(module);
}
