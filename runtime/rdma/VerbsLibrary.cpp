//===- VerbsLibrary.cpp -----------------------------------------------------===//
#include "runtime/rdma/VerbsLibrary.h"

#include <dlfcn.h>

#include <map>
#include <mutex>

namespace ccl::rdma {

static constexpr const char *advice =
    "install libibverbs1 and ibverbs-providers of rdma-core 33 or later, or set CCL_VERBS_LIBRARY "
    "to the path of another libibverbs";

llvm::Expected<const VerbsLibrary *> VerbsLibrary::get(const std::string &path) {
  struct Loaded {
    std::mutex mutex;
    std::map<std::string, std::unique_ptr<VerbsLibrary>> libraries;
  };
  // Lives until the process ends: other objects' destructors still give back what they own.
  static auto *all = new Loaded;
  const std::lock_guard lock(all->mutex);
  std::unique_ptr<VerbsLibrary> &library = all->libraries[path];
  if (!library) {
    llvm::Expected<std::unique_ptr<VerbsLibrary>> loaded = load(path);
    if (!loaded)
      return loaded.takeError();
    library = std::move(*loaded);
  }
  return library.get();
}

llvm::Expected<std::unique_ptr<VerbsLibrary>> VerbsLibrary::load(const std::string &path) {
  auto library = std::make_unique<VerbsLibrary>();
  library->name = path.empty() ? "libibverbs.so.1" : path;
  void *handle = dlopen(library->name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    const char *reason = dlerror();
    return makeFailure(Failure::Machine, "cannot load libibverbs: {}; {}",
                       reason ? reason : library->name, advice);
  }
  const char *missing = nullptr;
  // Some have a second, older version with structures of another layout.
#define CCL_VERBS_RESOLVE(member, symbol, version, result, parameters)                             \
  library->member = reinterpret_cast<result(*) parameters>(dlvsym(handle, symbol, version));       \
  if (!library->member && !missing)                                                                \
    missing = symbol " of version " version;
  CCL_VERBS_FUNCTIONS(CCL_VERBS_RESOLVE)
#undef CCL_VERBS_RESOLVE
  if (!missing)
    return library;
  dlclose(handle);
  return makeFailure(Failure::Machine, "{} has no function {}; {}", library->name, missing, advice);
}

int VerbsLibrary::queryPort(ibv_context *context, int port, ibv_port_attr &attributes) const {
  attributes = {};
  if (verbs_context *extended = verbs_get_ctx_op(context, query_port))
    return extended->query_port(&extended->context, uint8_t(port), &attributes, sizeof attributes);
  return queryPortOld(context, uint8_t(port), &attributes);
}

} // namespace ccl::rdma
