//===- VerbsQueue.cpp -------------------------------------------------------===//
#include "runtime/rdma/VerbsNic.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <random>

namespace ccl::rdma {
namespace {

constexpr uint8_t receiverNotReadyTimer = 12; ///< 0.64 ms until the next try
constexpr uint8_t triesForEver = 7;
constexpr uint8_t hops = 64;

class VerbsQueue final : public QueuePair {
public:
  VerbsQueue(VerbsNic &nic, VerbsHandle<ibv_qp> queue, const QueueLimits &limits)
      : nic(nic), queue(std::move(queue)), most(limits) {
    // What of an earlier connection of this number is still under way is none of ours.
    firstPacket = std::random_device()() & 0xffffff;
  }
  ~VerbsQueue() override {
    queue.reset();
    nic.release(int64_t(most.sends) + most.receives);
  }

  QueueAddress address() const override;
  llvm::Error initialize();
  llvm::Error connect(const QueueAddress &peer) override;

  int post(ibv_send_wr *first, ibv_send_wr **bad) override {
    ibv_send_wr *none = nullptr;
    // Some devices return it as a negative number.
    return std::abs(ibv_post_send(queue.get(), first, bad ? bad : &none));
  }
  int postReceives(int number, uint64_t id) override;
  uint32_t number() const override { return queue->qp_num; }
  QueueLimits limits() const override { return most; }
  void breakOff() override {
    ibv_qp_attr attributes{};
    attributes.qp_state = IBV_QPS_ERR;
    // That it fails tells a device that is lost, and then everything has ended.
    nic.port.verbs->modifyQueuePair(queue.get(), &attributes, IBV_QP_STATE);
  }

private:
  llvm::Error toReceive(const QueueAddress &peer);
  llvm::Error toSend();
  llvm::Error routeError(const QueueAddress &peer, int reason) const;
  std::string name() const {
    const NicFacts &facts = nic.port.facts;
    return fmt::format("{} port {}, GID index {} ({})", facts.device, facts.port, facts.gidIndex,
                       facts.gid);
  }

  VerbsNic &nic;
  VerbsHandle<ibv_qp> queue;
  QueueLimits most;
  uint32_t firstPacket = 0;
};

} // namespace

llvm::Expected<std::unique_ptr<QueuePair>> makeVerbsQueue(VerbsNic &nic, ibv_cq &completions,
                                                          const QueueLimits &limits) {
  const VerbsLibrary &verbs = *nic.port.verbs;
  ibv_qp_init_attr attributes{};
  ibv_qp *made = nullptr;
  // How much goes inline is found out by trying.
  for (int inlined = limits.inlineBytes; !made; inlined /= 2) {
    attributes = {};
    attributes.send_cq = attributes.recv_cq = &completions;
    attributes.qp_type = IBV_QPT_RC;
    attributes.cap = {uint32_t(limits.sends), uint32_t(limits.receives), uint32_t(limits.pieces), 1,
                      uint32_t(inlined)};
    made = verbs.createQueuePair(nic.domain.get(), &attributes);
    if (!made && inlined == 0)
      break;
  }
  const NicFacts &facts = nic.port.facts;
  if (!made) {
    const int reason = errno;
    return makeFailure(Failure::Machine,
                       "{} port {}: cannot make a queue pair of {} sends with {} pieces and {} "
                       "receives: {}; the device has at most {} of each{}",
                       facts.device, facts.port, limits.sends, limits.pieces, limits.receives,
                       strerror(reason), facts.mostWorkRequests,
                       reason == ENOMEM ? ", and its queues count as locked memory (`ulimit -l`)"
                                        : "");
  }
  VerbsHandle<ibv_qp> owned(made, {&verbs});
  const ibv_qp_cap &cap = attributes.cap;
  const QueueLimits most{int(cap.max_send_wr), int(cap.max_recv_wr), int(cap.max_inline_data),
                         int(cap.max_send_sge)};
  if (llvm::Error e = nic.reserve(int64_t(most.sends) + most.receives))
    return e;
  auto queue = std::make_unique<VerbsQueue>(nic, std::move(owned), most);
  if (llvm::Error e = queue->initialize())
    return e;
  return queue;
}

QueueAddress VerbsQueue::address() const {
  QueueAddress address;
  std::copy_n(nic.port.gid.raw, address.gid.size(), address.gid.begin());
  address.queuePair = queue->qp_num;
  address.firstPacket = firstPacket;
  address.lid = nic.port.lid;
  address.mtu = uint8_t(nic.port.mtu);
  address.linkLayer = nic.port.facts.ethernet ? IBV_LINK_LAYER_ETHERNET : IBV_LINK_LAYER_INFINIBAND;
  return address;
}

llvm::Error VerbsQueue::initialize() {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_INIT;
  attributes.pkey_index = uint16_t(nic.options.pkeyIndex);
  attributes.port_num = uint8_t(nic.port.facts.port);
  attributes.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
  const int error = nic.port.verbs->modifyQueuePair(queue.get(), &attributes,
                                                    IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
                                                        IBV_QP_ACCESS_FLAGS);
  if (!error)
    return llvm::Error::success();
  return makeFailure(Failure::Machine,
                     "{}: cannot set up a queue pair with partition key index {}: {} "
                     "(CCL_PKEY_INDEX)",
                     name(), nic.options.pkeyIndex, strerror(std::abs(error)));
}

llvm::Error VerbsQueue::connect(const QueueAddress &peer) {
  const bool isEthernet = peer.linkLayer == IBV_LINK_LAYER_ETHERNET;
  if (isEthernet != nic.port.facts.ethernet)
    return makeFailure(Failure::Machine,
                       "{}: its link layer is {}, that of the peer's GID {} is {}: choose NICs of "
                       "one network on both sides (CCL_NICS)",
                       name(), isEthernet ? "InfiniBand" : "Ethernet", gidText(peer.gid),
                       isEthernet ? "Ethernet" : "InfiniBand");
  if (peer.mtu < IBV_MTU_256 || peer.mtu > IBV_MTU_4096)
    return makeFailure(Failure::Mismatch, "{}: the peer's MTU of code {} does not exist", name(),
                       int(peer.mtu));
  if (llvm::Error e = toReceive(peer))
    return e;
  return toSend();
}

llvm::Error VerbsQueue::toReceive(const QueueAddress &peer) {
  const NicOptions &options = nic.options;
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_RTR;
  attributes.path_mtu = std::min(nic.port.mtu, ibv_mtu(peer.mtu));
  attributes.dest_qp_num = peer.queuePair;
  attributes.rq_psn = peer.firstPacket;
  attributes.max_dest_rd_atomic = 1;
  attributes.min_rnr_timer = receiverNotReadyTimer;
  ibv_ah_attr &route = attributes.ah_attr;
  route.port_num = uint8_t(nic.port.facts.port);
  route.dlid = peer.lid;
  route.sl = uint8_t(options.serviceLevel);
  // In one subnet of InfiniBand the LID is enough.
  constexpr size_t prefix = 8;
  if (nic.port.facts.ethernet || peer.lid == 0 ||
      std::memcmp(peer.gid.data(), nic.port.gid.raw, prefix) != 0) {
    route.is_global = 1;
    std::copy(peer.gid.begin(), peer.gid.end(), route.grh.dgid.raw);
    route.grh.sgid_index = uint8_t(nic.port.facts.gidIndex);
    route.grh.hop_limit = hops;
    route.grh.traffic_class = uint8_t(options.trafficClass);
  }
  const int error = nic.port.verbs->modifyQueuePair(
      queue.get(), &attributes,
      IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
          IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
  return error ? routeError(peer, std::abs(error)) : llvm::Error::success();
}

llvm::Error VerbsQueue::routeError(const QueueAddress &peer, int reason) const {
  const NicFacts &facts = nic.port.facts;
  const std::string to = gidText(peer.gid);
  const bool isMapped = to.starts_with("::ffff:");
  const std::string what =
      fmt::format("{}: cannot connect to GID {} with packets of {} bytes: {}", name(), to,
                  mtuBytes(std::min(nic.port.mtu, ibv_mtu(peer.mtu))), strerror(reason));
  if (!facts.ethernet)
    return makeFailure(Failure::Machine,
                       "{}; see whether both ports are in one subnet with one subnet manager, and "
                       "CCL_GID_INDEX, CCL_SERVICE_LEVEL and CCL_RDMA_MTU",
                       what);
  const bool isOtherFamily = isMapped != facts.gid.starts_with("::ffff:");
  if (isOtherFamily)
    return makeFailure(Failure::Machine,
                       "{}; one side has chosen an IPv4 address, the other one of IPv6: give both "
                       "of one kind, or set CCL_GID_INDEX on both",
                       what);
  return makeFailure(Failure::Machine,
                     "{}; there is no route from {} to that address, or nobody answers there: see "
                     "`ip route get {}` and `ping`, or choose another address with CCL_GID_INDEX "
                     "or another NIC with CCL_NICS",
                     what, facts.netdev.empty() ? facts.device : facts.netdev,
                     isMapped ? to.substr(7) : to);
}

llvm::Error VerbsQueue::toSend() {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_RTS;
  attributes.timeout = uint8_t(nic.options.timeout);
  attributes.retry_cnt = uint8_t(nic.options.retries);
  attributes.rnr_retry = triesForEver;
  attributes.sq_psn = firstPacket;
  attributes.max_rd_atomic = 1;
  const int error = nic.port.verbs->modifyQueuePair(queue.get(), &attributes,
                                                    IBV_QP_STATE | IBV_QP_TIMEOUT |
                                                        IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                                                        IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
  if (!error)
    return llvm::Error::success();
  return makeFailure(Failure::Machine,
                     "{}: a queue pair does not get ready to send with a timeout of {} and {} "
                     "retries: {} (CCL_IB_TIMEOUT, CCL_IB_RETRIES)",
                     name(), nic.options.timeout, nic.options.retries, strerror(std::abs(error)));
}

int VerbsQueue::postReceives(int number, uint64_t id) {
  if (number < 0)
    return EINVAL;
  constexpr int batch = 64;
  ibv_recv_wr requests[batch] = {};
  for (int done = 0; done < number; done += batch) {
    const int now = std::min(batch, number - done);
    for (int i = 0; i < now; ++i) {
      requests[i].wr_id = id;
      requests[i].next = i + 1 < now ? &requests[i + 1] : nullptr;
    }
    ibv_recv_wr *bad = nullptr;
    if (const int error = ibv_post_recv(queue.get(), requests, &bad))
      return std::abs(error);
  }
  return 0;
}

//===----------------------------------------------------------------------===//
// Completions in words
//===----------------------------------------------------------------------===//

std::string describeStatus(ibv_wc_status status) {
  switch (status) {
  case IBV_WC_SUCCESS: return "success";
  case IBV_WC_LOC_LEN_ERR: return "local length error (a message is longer than the port allows)";
  case IBV_WC_LOC_QP_OP_ERR:
    return "local queue pair operation error (the device cannot do the work request, or has no "
           "route to the peer)";
  case IBV_WC_LOC_PROT_ERR:
    return "local protection error (the memory to be sent is not registered with this NIC)";
  case IBV_WC_WR_FLUSH_ERR:
    return "flushed (the queue pair had ended before, by an error or by the peer)";
  case IBV_WC_MW_BIND_ERR: return "memory window bind error";
  case IBV_WC_BAD_RESP_ERR:
    return "bad response (the peer's device has answered what this one does not understand)";
  case IBV_WC_LOC_ACCESS_ERR:
    return "local access error (a message did not fit the memory here that it is for)";
  case IBV_WC_REM_INV_REQ_ERR:
    return "remote invalid request (the peer's device does not take such messages)";
  case IBV_WC_REM_ACCESS_ERR:
    return "remote access error (the peer's memory is not registered any more, or does not reach "
           "so far)";
  case IBV_WC_REM_OP_ERR: return "remote operation error (the peer's device has failed)";
  case IBV_WC_RETRY_EXC_ERR:
    return "transport retry counter exceeded (the peer does not answer: it has ended, its link or "
           "this one is down, or packets of this size do not get through: CCL_RDMA_MTU, "
           "CCL_IB_TIMEOUT, CCL_IB_RETRIES)";
  case IBV_WC_RNR_RETRY_EXC_ERR:
    return "receiver not ready (the peer had no receive posted for too long)";
  case IBV_WC_REM_ABORT_ERR: return "aborted by the peer";
  case IBV_WC_FATAL_ERR: return "fatal error of the device (see dmesg)";
  case IBV_WC_RESP_TIMEOUT_ERR: return "response timeout (the peer's device is stuck)";
  case IBV_WC_GENERAL_ERR: return "general error of the device (see dmesg)";
  default: return fmt::format("status {}", int(status));
  }
}

} // namespace ccl::rdma
