//===- VerbsLibrary.h - libibverbs, loaded when it is wanted ----------------------===//
#pragma once

#include "runtime/Failure.h"

#include <infiniband/verbs.h>

#include <memory>
#include <string>

/// Every function that is used: X(member, symbol, its version, result, parameters). Posting,
/// polling and arming go through tables of the device and need none.
// clang-format off
#define CCL_VERBS_FUNCTIONS(X)                                                                     \
  X(getDeviceList, "ibv_get_device_list", "IBVERBS_1.1", ibv_device **, (int *number))             \
  X(freeDeviceList, "ibv_free_device_list", "IBVERBS_1.1", void, (ibv_device **list))              \
  X(getDeviceName, "ibv_get_device_name", "IBVERBS_1.1", const char *, (ibv_device *device))       \
  X(openDevice, "ibv_open_device", "IBVERBS_1.1", ibv_context *, (ibv_device *device))             \
  X(closeDevice, "ibv_close_device", "IBVERBS_1.1", int, (ibv_context *context))                   \
  X(queryDevice, "ibv_query_device", "IBVERBS_1.1", int,                                           \
    (ibv_context *context, ibv_device_attr *attributes))                                           \
  X(queryPortOld, "ibv_query_port", "IBVERBS_1.1", int,                                            \
    (ibv_context *context, uint8_t port, ibv_port_attr *attributes))                               \
  X(queryGid, "_ibv_query_gid_ex", "IBVERBS_1.11", int,                                            \
    (ibv_context *context, uint32_t port, uint32_t index, ibv_gid_entry *entry, uint32_t flags,    \
     size_t bytes))                                                                                \
  X(getAsyncEvent, "ibv_get_async_event", "IBVERBS_1.1", int,                                      \
    (ibv_context *context, ibv_async_event *event))                                                \
  X(ackAsyncEvent, "ibv_ack_async_event", "IBVERBS_1.1", void, (ibv_async_event *event))           \
  X(eventText, "ibv_event_type_str", "IBVERBS_1.1", const char *, (ibv_event_type event))          \
  X(allocateDomain, "ibv_alloc_pd", "IBVERBS_1.1", ibv_pd *, (ibv_context *context))               \
  X(freeDomain, "ibv_dealloc_pd", "IBVERBS_1.1", int, (ibv_pd *domain))                            \
  X(registerMemory, "ibv_reg_mr", "IBVERBS_1.1", ibv_mr *,                                         \
    (ibv_pd *domain, void *address, size_t bytes, int access))                                     \
  X(deregisterMemory, "ibv_dereg_mr", "IBVERBS_1.1", int, (ibv_mr *memory))                        \
  X(createChannel, "ibv_create_comp_channel", "IBVERBS_1.0", ibv_comp_channel *,                   \
    (ibv_context *context))                                                                        \
  X(destroyChannel, "ibv_destroy_comp_channel", "IBVERBS_1.0", int, (ibv_comp_channel *channel))   \
  X(createCompletions, "ibv_create_cq", "IBVERBS_1.1", ibv_cq *,                                   \
    (ibv_context *context, int entries, void *user, ibv_comp_channel *channel, int vector))        \
  X(resizeCompletions, "ibv_resize_cq", "IBVERBS_1.1", int, (ibv_cq *completions, int entries))    \
  X(destroyCompletions, "ibv_destroy_cq", "IBVERBS_1.1", int, (ibv_cq *completions))               \
  X(getEvent, "ibv_get_cq_event", "IBVERBS_1.1", int,                                              \
    (ibv_comp_channel *channel, ibv_cq **completions, void **user))                                \
  X(ackEvents, "ibv_ack_cq_events", "IBVERBS_1.1", void, (ibv_cq *completions, unsigned number))   \
  X(createQueuePair, "ibv_create_qp", "IBVERBS_1.1", ibv_qp *,                                     \
    (ibv_pd *domain, ibv_qp_init_attr *attributes))                                                \
  X(modifyQueuePair, "ibv_modify_qp", "IBVERBS_1.1", int,                                          \
    (ibv_qp *queue, ibv_qp_attr *attributes, int mask))                                            \
  X(destroyQueuePair, "ibv_destroy_qp", "IBVERBS_1.1", int, (ibv_qp *queue))
// clang-format on

namespace ccl::rdma {

class VerbsLibrary {
public:
  /// Loaded once in a process, and never unloaded. "": libibverbs.so.1. Any thread.
  static llvm::Expected<const VerbsLibrary *> get(const std::string &path);

#define CCL_VERBS_DECLARE(member, symbol, version, result, parameters)                             \
  result(*member) parameters = nullptr;
  CCL_VERBS_FUNCTIONS(CCL_VERBS_DECLARE)
#undef CCL_VERBS_DECLARE

  /// 0 or an errno. What the library is too old to know is 0.
  int queryPort(ibv_context *context, int port, ibv_port_attr &attributes) const;
  const std::string &path() const { return name; }

private:
  static llvm::Expected<std::unique_ptr<VerbsLibrary>> load(const std::string &path);
  std::string name;
};

} // namespace ccl::rdma
