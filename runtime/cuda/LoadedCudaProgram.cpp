//===- LoadedCudaProgram.cpp ------------------------------------------------===//
#include "runtime/cuda/LoadedCudaProgram.h"

namespace ccl::cuda {

llvm::Expected<std::shared_ptr<LoadedCudaProgram>> LoadedCudaProgram::load(const Driver &driver,
                                                                           Plan plan) {
  const CudaCode &code = plan.cuda;
  if (code.image.empty())
    return makeFailure(Failure::BadArgument, "{} (hash {}) has no code for GPUs", plan.program,
                       plan.hash);
  if ((code.arch == "shim") != driver.isShim())
    return makeFailure(Failure::BadArgument, "{} (hash {}) is compiled for {}, but {} runs {}",
                       plan.program, plan.hash, code.arch, driver.library(),
                       driver.isShim() ? "code of this machine's processor (shim)" : "GPUs");
  if (code.multimem)
    return makeFailure(Failure::BadArgument,
                       "{} (hash {}) is compiled for the switch (multimem), but buffers have no "
                       "multicast address here: compile it without",
                       plan.program, plan.hash);
  if (code.threads < 1 || code.threads > 1024 || code.agents.size() != plan.kernels.size() ||
      code.kernel.empty())
    return makeFailure(Failure::BadArgument,
                       "malformed plan: {} has {} kinds of ranks, but agents of {}, {} threads in "
                       "a block, and the kernel '{}'",
                       plan.program, plan.kernels.size(), code.agents.size(), code.threads,
                       code.kernel);
  if (!code.engines.empty() && (code.engines.size() != plan.kernels.size() || code.step.empty()))
    return makeFailure(Failure::BadArgument,
                       "malformed plan: {} has {} kinds of ranks, but copy engines of {}, and the "
                       "kernel '{}' for their steps",
                       plan.program, plan.kernels.size(), code.engines.size(), code.step);
  return std::shared_ptr<LoadedCudaProgram>(new LoadedCudaProgram(std::move(plan)));
}

llvm::Error LoadedCudaProgram::find(const Driver &driver, const Loaded &loaded,
                                    const std::string &name, int threads, Kernel &kernel) const {
  if (name.empty())
    return llvm::Error::success();
  llvm::Expected<CUfunction> function = findFunction(driver, loaded.module, name);
  if (!function)
    return function.takeError();
  kernel.function = *function;
  if (llvm::Error e = driver.check(
          driver.cuFuncGetAttribute(&kernel.registers, CU_FUNC_ATTRIBUTE_NUM_REGS, *function),
          "ask for the registers of {}", name))
    return e;
  return driver.check(driver.cuOccupancyMaxActiveBlocksPerMultiprocessor(
                          &kernel.blocksPerMultiprocessor, *function, threads, 0),
                      "find how many blocks of {} run at once", name);
}

llvm::Error LoadedCudaProgram::loadOn(const Device &device, Loaded &loaded) const {
  const Driver &driver = device.api();
  llvm::Expected<PrimaryContext> context =
      PrimaryContext::retain(driver, device.context().device());
  if (!context)
    return context.takeError();
  loaded.context = std::move(*context);
  llvm::Expected<ContextScope> scope = loaded.context.enter();
  if (!scope)
    return scope.takeError();
  llvm::Expected<Module> module = loadModule(driver, thePlan.cuda.image);
  if (!module)
    return makeFailure(Failure::Machine, "cannot use {} (hash {}, compiled for {}) on GPU {}: {}",
                       thePlan.program, thePlan.hash, thePlan.cuda.arch, device.ordinal(),
                       llvm::toString(module.takeError()));
  loaded.module = std::move(*module);
  const CudaCode &code = thePlan.cuda;
  if (llvm::Error e = find(driver, loaded, code.kernel, code.threads, loaded.code.kernel))
    return e;
  if (llvm::Error e = find(driver, loaded, code.step, CudaCode::stepThreads, loaded.code.step))
    return e;
  return find(driver, loaded, code.finish, code.threads, loaded.code.finish);
}

llvm::Expected<const LoadedCudaProgram::Code *> LoadedCudaProgram::on(const Device &device) {
  std::lock_guard lock(mutex);
  const int key = device.context().device();
  auto found = byDevice.find(key);
  if (found == byDevice.end()) {
    Loaded loaded;
    if (llvm::Error e = loadOn(device, loaded))
      return e;
    found = byDevice.emplace(key, std::move(loaded)).first;
  }
  return &found->second.code;
}

} // namespace ccl::cuda
