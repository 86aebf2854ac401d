#include "frontend/topology/Rates.h"

#include <algorithm>
#include <array>
#include <cctype>

namespace ccl::topology {
namespace {

constexpr GpuFamily pascal = {"P100", "NVLink", 4, {20, 18}};
constexpr GpuFamily volta = {"V100", "NVLink", 6, {25, 20}};
// Two links of NVLink 2 at most; NCCL counts 7x alike.
constexpr GpuFamily turing = {"RTX 2080 Ti", "NVLink", 2, {25, 20}};
constexpr GpuFamily ampere = {"A100", "NVLink", 12, {25, 20}};
// 14.0625 is what `nvidia-smi nvlink -s` says.
constexpr GpuFamily ampereSmall = {"RTX 3090", "NVLink", 4, {14.0625, 12}};
constexpr GpuFamily ada = {"L40", "NVLink", 0, {25, 20}};
constexpr GpuFamily hopper = {"H100", "NVLink", 18, {25, 20.6}, true};
constexpr GpuFamily blackwell = {"B200", "NVLink", 18, {50, 40.1}, true};
constexpr GpuFamily mi50 = {"MI50", "xGMI", 2, {46, 24}};
constexpr GpuFamily mi100 = {"MI100", "xGMI", 3, {46, 24}};
constexpr GpuFamily mi200 = {"MI250", "xGMI", 8, {50, 36}};
constexpr GpuFamily mi300 = {"MI300X", "xGMI", 7, {64, 48}};
constexpr GpuFamily mi350 = {"MI350X", "xGMI", 7, {76.8, 48}};

struct Device {
  uint32_t vendor, device;
  const GpuFamily *family;
};
constexpr Device devices[] = {
    {0x10de, 0x15f9, &pascal},      // P100 SXM2
    {0x10de, 0x1db1, &volta},       // V100 SXM2 16GB
    {0x10de, 0x1db5, &volta},       // V100 SXM2 32GB
    {0x10de, 0x1db8, &volta},       // V100 SXM3 32GB
    {0x10de, 0x20b0, &ampere},      // A100 SXM4 40GB
    {0x10de, 0x20b2, &ampere},      // A100 SXM4 80GB
    {0x10de, 0x20b5, &ampere},      // A100 PCIe 80GB
    {0x10de, 0x20f1, &ampere},      // A100 PCIe 40GB
    {0x10de, 0x2204, &ampereSmall}, // RTX 3090
    {0x10de, 0x2230, &ampereSmall}, // RTX A6000
    {0x10de, 0x2235, &ampereSmall}, // A40
    {0x10de, 0x2237, &ampereSmall}, // A10G
    {0x10de, 0x2684, &ada},         // RTX 4090
    {0x10de, 0x26b5, &ada},         // L40
    {0x10de, 0x26b9, &ada},         // L40S
    {0x10de, 0x26ba, &ada},         // L20
    {0x10de, 0x2330, &hopper},      // H100 SXM5 80GB
    {0x10de, 0x2331, &hopper},      // H100 PCIe
    {0x10de, 0x2335, &hopper},      // H200 SXM
    {0x1002, 0x66a1, &mi50},        {0x1002, 0x738c, &mi100}, {0x1002, 0x7408, &mi200}, // MI250X
    {0x1002, 0x740c, &mi200},                                                           // MI250
    {0x1002, 0x740f, &mi200},                                                           // MI210
    {0x1002, 0x74a0, &mi300},                                                           // MI300A
    {0x1002, 0x74a1, &mi300},                                                           // MI300X
    {0x1002, 0x74b5, &mi300}, // MI300X, a virtual function
};

struct Product {
  std::string_view name; ///< a word: no letter or digit right before or behind it
  const GpuFamily *family;
};
constexpr Product products[] = {
    {"p100", &pascal},       {"sm60", &pascal},       {"v100", &volta},
    {"sm70", &volta},        {"titan v", &volta},     {"2080 ti", &turing},
    {"sm75", &turing},       {"a100", &ampere},       {"a800", &ampere},
    {"a30", &ampere},        {"sm80", &ampere},       {"3090", &ampereSmall},
    {"a40", &ampereSmall},   {"a6000", &ampereSmall}, {"sm86", &ampereSmall},
    {"4090", &ada},          {"l20", &ada},           {"l40", &ada},
    {"l40s", &ada},          {"sm89", &ada},          {"h100", &hopper},
    {"h200", &hopper},       {"h800", &hopper},       {"h20", &hopper},
    {"gh200", &hopper},      {"sm90", &hopper},       {"b100", &blackwell},
    {"b200", &blackwell},    {"gb200", &blackwell},   {"b300", &blackwell},
    {"gb300", &blackwell},   {"sm100", &blackwell},   {"mi50", &mi50},
    {"mi60", &mi50},         {"gfx906", &mi50},       {"mi100", &mi100},
    {"gfx908", &mi100},      {"mi210", &mi200},       {"mi250", &mi200},
    {"mi250x", &mi200},      {"gfx90a", &mi200},      {"mi300a", &mi300},
    {"mi300x", &mi300},      {"mi325x", &mi300},      {"gfx942", &mi300},
    {"gfx940", &mi300},      {"gfx941", &mi300},      {"mi350x", &mi350},
    {"mi355x", &mi350},      {"gfx950", &mi350},      {"gp100", &pascal},
    {"gv100", &volta},       {"titan rtx", &turing},  {"a4500", &ampereSmall},
    {"a5000", &ampereSmall}, {"a5500", &ampereSmall},
};

bool isWordAt(std::string_view text, size_t at, size_t length) {
  auto letter = [&](size_t i) { return std::isalnum(static_cast<unsigned char>(text[i])) != 0; };
  return (at == 0 || !letter(at - 1)) && (at + length == text.size() || !letter(at + length));
}

} // namespace

const Speed someNvlink = {25, 20}, someXgmi = {50, 36}, someSocket = {10, 10};

std::string_view name(Rates rates) { return rates == Rates::Nominal ? "nominal" : "effective"; }

std::optional<Rates> parseRates(std::string_view text) {
  for (Rates rates : {Rates::Nominal, Rates::Effective})
    if (text == name(rates))
      return rates;
  return std::nullopt;
}

const GpuFamily *cudaFamily(int64_t capability) {
  if (capability >= 100 && capability < 110)
    return &blackwell;
  switch (capability) {
  case 60: return &pascal;
  case 70: return &volta;
  case 75: return &turing;
  case 80: return &ampere;
  case 86: return &ampereSmall;
  case 89: return &ada;
  case 90: return &hopper;
  default: return nullptr;
  }
}

const GpuFamily *amdFamily(std::string_view gcn) {
  if (gcn.starts_with("gfx"))
    gcn.remove_prefix(3);
  gcn = gcn.substr(0, gcn.find(':')); // gfx90a:sramecc+:xnack-
  if (gcn == "906")
    return &mi50;
  if (gcn == "908")
    return &mi100;
  if (gcn == "910" || gcn == "90a")
    return &mi200;
  if (gcn == "940" || gcn == "941" || gcn == "942")
    return &mi300;
  return gcn == "950" ? &mi350 : nullptr;
}

bool isComputingGpu(uint32_t baseClass, uint32_t vendor) {
  constexpr uint32_t consoles[] = {0x1a03, 0x102b, 0x1234, 0x1b36, 0x1af4};
  return (baseClass == 0x03 || baseClass == 0x12) &&
         std::find(std::begin(consoles), std::end(consoles), vendor) == std::end(consoles);
}

const GpuFamily *pciFamily(uint32_t vendor, uint32_t device) {
  for (const Device &known : devices)
    if (known.vendor == vendor && known.device == device)
      return known.family;
  return nullptr;
}

const GpuFamily *namedFamily(std::string_view text) {
  std::string lower;
  for (char c : text)
    if (c != '_') // sm_90
      lower += char(std::tolower(static_cast<unsigned char>(c)));
  for (const Product &product : products)
    for (size_t at = lower.find(product.name); at != lower.npos;
         at = lower.find(product.name, at + 1))
      if (isWordAt(lower, at, product.name.size()))
        return product.family;
  return nullptr;
}

std::optional<Speed> pcieLane(double gigatransfers) {
  // Nominal: 8b/10b up to 5 GT/s; from 8 GT/s on the makers' round figure of 1 bit a transfer.
  // NCCL: in units of 1/80 GB/s.
  struct Row {
    double speed, nominal, units;
  };
  constexpr Row rows[] = {{2.5, 0.25, 15}, {5, 0.5, 30}, {8, 1, 60},
                          {16, 2, 120},    {32, 4, 240}, {64, 8, 480}};
  for (const Row &row : rows)
    if (gigatransfers == row.speed)
      return Speed{row.nominal, row.units / 80};
  return std::nullopt;
}

std::optional<Speed> pcieSlot(int32_t generation) {
  constexpr std::array<double, 6> speeds = {2.5, 5, 8, 16, 32, 64};
  if (generation < 1 || size_t(generation) > speeds.size())
    return std::nullopt;
  return *pcieLane(speeds[size_t(generation - 1)]) * 16;
}

std::optional<Speed> socketSpeed(std::string_view arch, std::string_view vendor, int64_t family,
                                 int64_t model) {
  auto both = [](double value) { return Speed{value, value}; };
  if (arch == "ppc64")
    return both(32);
  if (arch == "arm64")
    return both(6);
  if (vendor == "AuthenticAMD")
    return both(16);
  if (vendor == "CentaurHauls" || vendor == "  Shanghai  ") // Zhaoxin; a Yongfeng
    return both(family == 7 && model == 0x5b ? 9 : 6);
  if (vendor != "GenuineIntel")
    return std::nullopt;
  if (family != 6)
    return both(6);
  return both(model >= 0xcf ? 40 : model >= 0x8f ? 22 : model >= 0x55 ? 10 : 6);
}

} // namespace ccl::topology
