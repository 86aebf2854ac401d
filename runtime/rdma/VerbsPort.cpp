//===- VerbsPort.cpp --------------------------------------------------------===//
#include "runtime/rdma/VerbsPort.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringRef.h"

#include <arpa/inet.h>
#include <net/if.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <optional>

namespace ccl::rdma {

std::string gidText(const std::array<uint8_t, 16> &gid) {
  char text[INET6_ADDRSTRLEN] = {};
  return inet_ntop(AF_INET6, gid.data(), text, sizeof text) ? text : "";
}

int mtuBytes(ibv_mtu mtu) { return 128 << int(mtu); }

namespace {

/// All devices; also what they are called, for errors.
class DeviceList {
public:
  explicit DeviceList(const VerbsLibrary &verbs) : verbs(verbs) {
    list = verbs.getDeviceList(&number);
    error = list ? 0 : errno;
  }
  ~DeviceList() {
    if (list)
      verbs.freeDeviceList(list);
  }
  DeviceList(const DeviceList &) = delete;
  DeviceList &operator=(const DeviceList &) = delete;

  int size() const { return number; }
  std::string name(int index) const { return verbs.getDeviceName(list[index]); }
  std::string names() const {
    std::vector<std::string> all;
    all.reserve(size_t(number));
    for (int i = 0; i < number; ++i)
      all.push_back(name(i));
    return all.empty() ? "there is none" : "there are " + llvm::join(all, ", ");
  }
  llvm::Expected<VerbsContext> open(int index) const {
    if (ibv_context *context = verbs.openDevice(list[index]))
      return VerbsContext(context, {&verbs});
    const int reason = errno;
    return makeFailure(Failure::Machine,
                       "cannot open RDMA device {}: {}; this user has to be allowed to read and "
                       "write /dev/infiniband/uverbs*, in a container they have to be passed on",
                       name(index), strerror(reason));
  }

  int error = 0;

private:
  const VerbsLibrary &verbs;
  ibv_device **list = nullptr;
  int number = 0;
};

std::string readLine(const std::string &path) {
  std::string line;
  std::ifstream file(path);
  std::getline(file, line);
  return line;
}

/// In Gbit/s: lanes times what one carries.
double linkSpeed(const ibv_port_attr &port) {
  static constexpr std::pair<int, double> speeds[] = {
      {1, 2.5}, {2, 5}, {4, 10}, {8, 10}, {16, 14}, {32, 25}, {64, 50}, {128, 100}, {256, 200}};
  static constexpr std::pair<int, int> widths[] = {{1, 1}, {2, 4}, {4, 8}, {8, 12}, {16, 2}};
  double speed = 0;
  for (const auto &[code, gbits] : speeds)
    if (port.active_speed == code)
      speed = gbits;
  for (const auto &[code, lanes] : widths)
    if (port.active_width == code)
      return speed * lanes;
  return 0;
}

//===----------------------------------------------------------------------===//
// GIDs
//===----------------------------------------------------------------------===//

/// A queue pair names its GID by an index of 8 bits.
constexpr int mostGids = 256;

bool isIPv4(const ibv_gid &gid) {
  static constexpr uint8_t prefix[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  return std::memcmp(gid.raw, prefix, sizeof prefix) == 0;
}

/// The higher the better; 0: not one to connect with.
int rank(const ibv_gid_entry &entry) {
  const uint8_t *raw = entry.gid.raw;
  if (entry.gid_type == IBV_GID_TYPE_IB)
    return 1;
  if (entry.gid_type != IBV_GID_TYPE_ROCE_V2)
    return 0;
  if (isIPv4(entry.gid))
    return raw[12] == 169 && raw[13] == 254 ? 2 : 4;
  const bool isLinkLocal = raw[0] == 0xfe && (raw[1] & 0xc0) == 0x80;
  return isLinkLocal ? 1 : 3;
}

std::string_view typeName(uint32_t type) {
  switch (type) {
  case IBV_GID_TYPE_IB: return "InfiniBand";
  case IBV_GID_TYPE_ROCE_V1: return "RoCE v1";
  case IBV_GID_TYPE_ROCE_V2: return "RoCE v2";
  default: return "of a kind that is not known";
  }
}

std::optional<ibv_gid_entry> readGid(const VerbsPort &port, int index) {
  ibv_gid_entry entry{};
  if (port.verbs->queryGid(port.context.get(), uint32_t(port.facts.port), uint32_t(index), &entry,
                           0, sizeof entry))
    return std::nullopt;
  return entry;
}

/// "1 (RoCE v2 ::ffff:10.77.0.1), 3 (...)": what could be chosen.
std::string listGids(const VerbsPort &port, int size) {
  std::vector<std::string> usable;
  for (int index = 0; index < size; ++index)
    if (const auto entry = readGid(port, index); entry && rank(*entry) > 0)
      usable.push_back(fmt::format("{} ({} {})", index, typeName(entry->gid_type),
                                   gidText(std::to_array(entry->gid.raw))));
  return usable.empty() ? "none" : llvm::join(usable, ", ");
}

void takeGid(VerbsPort &port, const ibv_gid_entry &entry) {
  port.gid = entry.gid;
  port.facts.gidIndex = int(entry.gid_index);
  port.facts.gid = gidText(std::to_array(entry.gid.raw));
  char name[IF_NAMESIZE] = {};
  if (entry.ndev_ifindex && if_indextoname(entry.ndev_ifindex, name))
    port.facts.netdev = name;
}

llvm::Error chooseGid(VerbsPort &port, int wanted, int size) {
  NicFacts &facts = port.facts;
  if (wanted < 0) {
    std::optional<ibv_gid_entry> best;
    for (int index = 0; index < size; ++index) {
      const std::optional<ibv_gid_entry> entry = readGid(port, index);
      if (entry && rank(*entry) > (best ? rank(*best) : 0))
        best = entry;
    }
    if (!best)
      return makeFailure(Failure::Machine,
                         "{} port {} has no GID to connect with (looked at {}): RoCE v2 needs an "
                         "IP address on its network device{}",
                         facts.device, facts.port, size,
                         facts.netdev.empty() ? "" : " " + facts.netdev);
    takeGid(port, *best);
    return llvm::Error::success();
  }
  if (wanted >= size)
    return makeFailure(Failure::Machine,
                       "{} port {}: GID index {} is out of range: there are 0 to {}, of which can "
                       "be used: {}; set CCL_GID_INDEX, or unset it to have one chosen",
                       facts.device, facts.port, wanted, size - 1, listGids(port, size));
  const std::optional<ibv_gid_entry> entry = readGid(port, wanted);
  if (entry && rank(*entry) > 0) {
    takeGid(port, *entry);
    return llvm::Error::success();
  }
  return makeFailure(Failure::Machine,
                     "{} port {}: the GID at index {} is {}; those that can be used: {}; set "
                     "CCL_GID_INDEX, or unset it to have one chosen",
                     facts.device, facts.port, wanted, entry ? typeName(entry->gid_type) : "empty",
                     listGids(port, size));
}

//===----------------------------------------------------------------------===//
// Ports
//===----------------------------------------------------------------------===//

/// Why a port cannot be used, with what to do; "" if it can.
std::string stateProblem(const VerbsPort &port, ibv_port_state state) {
  const std::string &netdev = port.facts.netdev;
  switch (state) {
  case IBV_PORT_ACTIVE: return "";
  case IBV_PORT_DOWN:
    return "it is down: " + (!port.facts.ethernet ? "see whether its cable is plugged in"
                             : netdev.empty()
                                 ? "bring its network device up"
                                 : fmt::format("`ip link set {} up`, and see whether its cable is "
                                               "plugged in",
                                               netdev));
  case IBV_PORT_INIT:
  case IBV_PORT_ARMED: return "it waits for a subnet manager: start one in this network (opensm)";
  default: return fmt::format("its state is {}", int(state));
  }
}

/// What one port is, whether it can be used or not.
llvm::Error readPort(VerbsPort &port, const std::string &device, int number,
                     const NicOptions &options) {
  NicFacts &facts = port.facts;
  facts.device = device;
  facts.port = number;
  ibv_device_attr whole{};
  ibv_port_attr attributes{};
  int error = port.verbs->queryDevice(port.context.get(), &whole);
  if (!error)
    error = port.verbs->queryPort(port.context.get(), number, attributes);
  if (error)
    return makeFailure(Failure::Machine, "{} port {} does not say what it is: {}", device, number,
                       strerror(std::abs(error)));
  facts.ethernet = attributes.link_layer == IBV_LINK_LAYER_ETHERNET;
  facts.mtu = mtuBytes(attributes.active_mtu);
  facts.gbits = linkSpeed(attributes);
  facts.mostBytes = attributes.max_msg_sz;
  facts.mostWorkRequests = whole.max_qp_wr;
  facts.mostCompletions = whole.max_cqe;
  port.mtu = attributes.active_mtu;
  port.lid = attributes.lid;
  port.mostMemory = whole.max_mr_size;
  const std::string folder = "/sys/class/infiniband/" + device;
  if (llvm::StringRef(readLine(folder + "/device/numa_node")).getAsInteger(10, facts.numaNode))
    facts.numaNode = -1;
  facts.netdev = readLine(folder + "/parent"); // of rxe and siw; of others a GID tells
  facts.problem = stateProblem(port, attributes.state);
  if (!facts.problem.empty())
    return llvm::Error::success();
  if (attributes.link_layer != IBV_LINK_LAYER_ETHERNET &&
      attributes.link_layer != IBV_LINK_LAYER_INFINIBAND &&
      attributes.link_layer != IBV_LINK_LAYER_UNSPECIFIED)
    facts.problem = fmt::format("its link layer {} is neither Ethernet nor InfiniBand",
                                int(attributes.link_layer));
  else if (llvm::Error e =
               chooseGid(port, options.gidIndex, std::min(attributes.gid_tbl_len, mostGids)))
    return e;
  else if (options.pkeyIndex < 0 || options.pkeyIndex >= attributes.pkey_tbl_len)
    return makeFailure(Failure::Machine,
                       "{} port {}: partition key index {} is out of range: there are 0 to {}; set "
                       "CCL_PKEY_INDEX",
                       device, number, options.pkeyIndex, int(attributes.pkey_tbl_len) - 1);
  return llvm::Error::success();
}

int countPorts(const VerbsLibrary &verbs, ibv_context *context) {
  ibv_device_attr whole{};
  return verbs.queryDevice(context, &whole) ? 1 : whole.phys_port_cnt;
}

llvm::Error checkOptions(const NicOptions &options) {
  if (options.mtu != 0 && options.mtu != 256 && options.mtu != 512 && options.mtu != 1024 &&
      options.mtu != 2048 && options.mtu != 4096)
    return makeFailure(Failure::BadArgument,
                       "an MTU of {} bytes does not exist: 256, 512, 1024, 2048 or 4096 "
                       "(CCL_RDMA_MTU)",
                       options.mtu);
  return llvm::Error::success();
}

/// The port of `device` that is meant: the first that can be used if none is named.
llvm::Expected<VerbsPort> openDevicePort(const VerbsLibrary &verbs, const DeviceList &devices,
                                         int index, int wanted, const NicOptions &options) {
  std::string problems;
  llvm::Expected<VerbsContext> first = devices.open(index);
  if (!first)
    return first.takeError();
  const int ports = countPorts(verbs, first->get());
  const std::string name = devices.name(index);
  if (wanted > ports)
    return makeFailure(Failure::Machine, "{} has no port {}: it has 1 to {} (CCL_NICS)", name,
                       wanted, ports);
  VerbsPort port;
  port.verbs = &verbs;
  port.context = std::move(*first);
  for (int number = std::max(wanted, 1); number <= (wanted ? wanted : ports); ++number) {
    port.facts = {};
    if (llvm::Error e = readPort(port, name, number, options))
      return e;
    if (port.facts.problem.empty())
      return port;
    problems += fmt::format("{}port {} of {} cannot be used: {}", problems.empty() ? "" : "; ",
                            number, name, port.facts.problem);
  }
  return makeFailure(Failure::Machine, "{}", problems);
}

} // namespace

llvm::Expected<VerbsPort> openVerbsPort(const std::string &library, const NicOptions &options) {
  if (llvm::Error e = checkOptions(options))
    return e;
  llvm::Expected<const VerbsLibrary *> verbs = VerbsLibrary::get(library);
  if (!verbs)
    return verbs.takeError();
  auto [name, portText] = llvm::StringRef(options.device).split(':');
  int wanted = 0;
  if (!portText.empty() && (portText.getAsInteger(10, wanted) || wanted < 1))
    return makeFailure(Failure::BadArgument,
                       "'{}': expected a device, or a device and a port, as in mlx5_0:1 (CCL_NICS)",
                       options.device);
  const DeviceList devices(**verbs);
  std::string problems;
  for (int index = 0; index < devices.size(); ++index) {
    if (!name.empty() && devices.name(index) != name)
      continue;
    llvm::Expected<VerbsPort> port = openDevicePort(**verbs, devices, index, wanted, options);
    if (!port && name.empty()) { // another one may do
      problems += (problems.empty() ? "" : "; ") + llvm::toString(port.takeError());
      continue;
    }
    if (!port)
      return port.takeError();
    if (options.mtu && options.mtu < mtuBytes(port->mtu))
      while (mtuBytes(port->mtu) > options.mtu)
        port->mtu = ibv_mtu(port->mtu - 1);
    return port;
  }
  if (!problems.empty())
    return makeFailure(Failure::Machine, "no RDMA device can be used: {}", problems);
  return makeFailure(Failure::Machine, "there is no RDMA device{}: {} (`ccl info -d`; CCL_NICS)",
                     name.empty() ? "" : fmt::format(" {}", std::string_view(name)),
                     devices.names());
}

llvm::Expected<std::vector<NicFacts>> listVerbs(const std::string &library) {
  llvm::Expected<const VerbsLibrary *> verbs = VerbsLibrary::get(library);
  if (!verbs)
    return verbs.takeError();
  const DeviceList devices(**verbs);
  // Of a kernel without RDMA.
  if (devices.error && devices.error != ENOSYS && devices.error != ENOENT)
    return makeFailure(Failure::Machine, "libibverbs cannot list the RDMA devices: {}",
                       strerror(devices.error));
  std::vector<NicFacts> all, unusable;
  for (int index = 0; index < devices.size(); ++index) {
    llvm::Expected<VerbsContext> context = devices.open(index);
    if (!context) {
      unusable.emplace_back();
      unusable.back().device = devices.name(index);
      unusable.back().problem = llvm::toString(context.takeError());
      continue;
    }
    VerbsPort port;
    port.verbs = *verbs;
    port.context = std::move(*context);
    const int ports = countPorts(**verbs, port.context.get());
    for (int number = 1; number <= ports; ++number) {
      port.facts = {};
      if (llvm::Error e = readPort(port, devices.name(index), number, {}))
        port.facts.problem = llvm::toString(std::move(e));
      (port.facts.problem.empty() ? all : unusable).push_back(port.facts);
    }
  }
  all.insert(all.end(), unusable.begin(), unusable.end());
  return all;
}

} // namespace ccl::rdma
