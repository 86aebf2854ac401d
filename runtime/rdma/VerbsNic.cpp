//===- VerbsNic.cpp ---------------------------------------------------------===//
#include "runtime/rdma/VerbsNic.h"

#include <fcntl.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace ccl::rdma {
namespace {

/// Room for completions to begin with; it grows.
constexpr int64_t firstCapacity = 4096;

class VerbsRegion final : public Region {
public:
  VerbsRegion(VerbsNic &nic, VerbsHandle<ibv_mr> owned) : nic(nic), memory(std::move(owned)) {
    localKey = memory->lkey;
    remoteKey = memory->rkey;
    nic.registered += int64_t(memory->length);
  }
  ~VerbsRegion() override { nic.registered -= int64_t(memory->length); }

private:
  VerbsNic &nic;
  VerbsHandle<ibv_mr> memory;
};

/// So that taking what is not there returns.
bool makeNonBlocking(int descriptor) {
  const int flags = fcntl(descriptor, F_GETFL);
  return flags >= 0 && fcntl(descriptor, F_SETFL, flags | O_NONBLOCK) == 0;
}

} // namespace

llvm::Expected<std::unique_ptr<Nic>> openVerbs(const std::string &library,
                                               const NicOptions &options) {
  llvm::Expected<VerbsPort> port = openVerbsPort(library, options);
  if (!port)
    return port.takeError();
  return VerbsNic::open(std::move(*port), options);
}

llvm::Expected<std::unique_ptr<Nic>> VerbsNic::open(VerbsPort opened, const NicOptions &options) {
  std::unique_ptr<VerbsNic> nic(new VerbsNic(std::move(opened), options));
  const VerbsLibrary &verbs = *nic->port.verbs;
  const NicFacts &facts = nic->port.facts;
  ibv_context *context = nic->port.context.get();
  auto refuse = [&](const char *what) {
    const int reason = errno;
    return makeFailure(Failure::Machine, "{} port {}: cannot make {}: {}{}", facts.device,
                       facts.port, what, strerror(reason),
                       reason == ENOMEM ? "; raise the limit of locked memory (`ulimit -l`)" : "");
  };
  if (ibv_pd *domain = verbs.allocateDomain(context))
    nic->domain = {domain, {&verbs}};
  else
    return refuse("a protection domain");
  if (ibv_comp_channel *channel = verbs.createChannel(context))
    nic->channel = {channel, {&verbs}};
  else
    return refuse("a channel for events");
  nic->capacity = std::min<int64_t>(facts.mostCompletions, firstCapacity);
  if (ibv_cq *queue =
          verbs.createCompletions(context, int(nic->capacity), nullptr, nic->channel.get(), 0))
    nic->completions = {queue, {&verbs}};
  else
    return refuse("a queue of completions");
  nic->capacity = nic->completions->cqe;
  if (!makeNonBlocking(nic->channel->fd) || !makeNonBlocking(context->async_fd))
    return refuse("its descriptors non-blocking");
  return nic;
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

llvm::Expected<std::unique_ptr<Region>> VerbsNic::registerMemory(void *address, size_t bytes) {
  ibv_mr *memory = port.verbs->registerMemory(domain.get(), address, bytes,
                                              IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
  if (!memory)
    return registrationError(bytes, errno);
  return std::make_unique<VerbsRegion>(*this, VerbsHandle<ibv_mr>(memory, {port.verbs}));
}

llvm::Error VerbsNic::registrationError(size_t bytes, int reason) const {
  const std::string what = fmt::format("{} port {}: cannot register {} bytes of memory: {}",
                                       port.facts.device, port.facts.port, bytes, strerror(reason));
  rlimit limit{};
  const bool isLimited = getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
  const int64_t before = registered;
  if (reason == ENOMEM && isLimited && uint64_t(before) + bytes > limit.rlim_cur)
    return makeFailure(Failure::Machine,
                       "{}; the limit of locked memory (RLIMIT_MEMLOCK) is {} bytes, {} are in use "
                       "here: raise it with `ulimit -l unlimited`, a memlock line in "
                       "/etc/security/limits.conf, LimitMEMLOCK=infinity of a systemd unit, or "
                       "--ulimit memlock=-1 of a container",
                       what, uint64_t(limit.rlim_cur), before);
  if (reason == ENOMEM || bytes > port.mostMemory)
    return makeFailure(Failure::Machine,
                       "{}; {} bytes are registered here already, and the limit of locked memory "
                       "is {}: the device takes no region of this size (it names {} bytes, rxe "
                       "takes up to 1 GiB), or the machine has no memory left: take smaller "
                       "slots (CCL_SLOT_BYTES) or fewer ranks on this host",
                       what, before,
                       isLimited ? fmt::format("{} bytes", uint64_t(limit.rlim_cur)) : "not set",
                       port.mostMemory);
  return makeFailure(Failure::Machine, "{}{}", what,
                     reason == EFAULT || reason == EACCES
                         ? "; it has to be memory that this process may read and write"
                         : "");
}

//===----------------------------------------------------------------------===//
// Completions
//===----------------------------------------------------------------------===//

llvm::Error VerbsNic::reserve(int64_t entries) {
  const std::lock_guard lock(sizes);
  const int64_t needed = reserved + entries;
  if (needed > capacity) {
    const int64_t wanted =
        std::min<int64_t>(std::max(needed, capacity * 2), port.facts.mostCompletions);
    const int error =
        wanted < needed ? EINVAL : port.verbs->resizeCompletions(completions.get(), int(wanted));
    if (error)
      return makeFailure(Failure::Machine,
                         "{} port {}: no room for one more queue pair: its queue of completions "
                         "has {} entries, {} are needed, the device allows {}: {}",
                         port.facts.device, port.facts.port, capacity, needed,
                         port.facts.mostCompletions, strerror(std::abs(error)));
    capacity = completions->cqe;
  }
  reserved = needed;
  return llvm::Error::success();
}

void VerbsNic::release(int64_t entries) {
  const std::lock_guard lock(sizes);
  reserved -= entries;
}

llvm::Expected<std::unique_ptr<QueuePair>> VerbsNic::createQueuePair(const QueueLimits &limits) {
  return makeVerbsQueue(*this, *completions, limits);
}

int VerbsNic::poll(ibv_wc *entries, int n) {
  const int got = ibv_poll_cq(completions.get(), n, entries);
  // Else the descriptor would stay readable, and a sleeper awake.
  if (got > 0 && isArmed)
    takeEvents();
  if (got < 0)
    isLost = true;
  return isLost && got <= 0 ? -1 : got;
}

bool VerbsNic::arm() {
  takeEvents();
  isArmed = true;
  return ibv_req_notify_cq(completions.get(), 0) == 0 && !isLost;
}

void VerbsNic::takeEvents() {
  ibv_cq *of = nullptr;
  void *user = nullptr;
  unsigned taken = 0;
  while (port.verbs->getEvent(channel.get(), &of, &user) == 0)
    ++taken;
  if (taken) {
    port.verbs->ackEvents(completions.get(), taken);
    isArmed = false;
  }
}

//===----------------------------------------------------------------------===//
// Events of the device
//===----------------------------------------------------------------------===//

std::string VerbsNic::events() {
  const std::lock_guard lock(asynchronous);
  std::string all;
  ibv_async_event event{};
  while (port.verbs->getAsyncEvent(port.context.get(), &event) == 0) {
    const std::string text = eventText(event);
    port.verbs->ackAsyncEvent(&event);
    if (!text.empty())
      all += (all.empty() ? "" : "; ") + text;
  }
  if (all.empty() && isDown())
    all = fmt::format("port {} of {} is down", port.facts.port, port.facts.device);
  return all;
}

/// "": nothing that anybody has to know.
std::string VerbsNic::eventText(const ibv_async_event &event) {
  const NicFacts &facts = port.facts;
  const char *name = port.verbs->eventText(event.event_type);
  switch (event.event_type) {
  case IBV_EVENT_COMM_EST:
  case IBV_EVENT_SQ_DRAINED:
  case IBV_EVENT_QP_LAST_WQE_REACHED:
  case IBV_EVENT_PATH_MIG:
  case IBV_EVENT_CLIENT_REREGISTER: return "";
  case IBV_EVENT_PORT_ACTIVE:
  case IBV_EVENT_PORT_ERR:
  case IBV_EVENT_LID_CHANGE:
  case IBV_EVENT_PKEY_CHANGE:
  case IBV_EVENT_SM_CHANGE:
  case IBV_EVENT_GID_CHANGE:
    if (event.element.port_num != facts.port)
      return "";
    if (event.event_type == IBV_EVENT_PORT_ERR || event.event_type == IBV_EVENT_PORT_ACTIVE)
      portIsDown = event.event_type == IBV_EVENT_PORT_ERR;
    if (event.event_type == IBV_EVENT_PORT_ERR)
      return fmt::format("port {} of {} went down", facts.port, facts.device);
    if (event.event_type == IBV_EVENT_PORT_ACTIVE)
      return fmt::format("port {} of {} is active again", facts.port, facts.device);
    return fmt::format("port {} of {}: {}", facts.port, facts.device, name);
  case IBV_EVENT_CQ_ERR:
  case IBV_EVENT_DEVICE_FATAL:
    isLost = true;
    return fmt::format("{} is lost: {}; see what the kernel says of it (dmesg)", facts.device,
                       name);
  case IBV_EVENT_QP_FATAL:
  case IBV_EVENT_QP_REQ_ERR:
  case IBV_EVENT_QP_ACCESS_ERR:
    return fmt::format("queue pair {} of {}: {}", event.element.qp->qp_num, facts.device, name);
  default: return fmt::format("{}: {}", facts.device, name);
  }
}

} // namespace ccl::rdma
