//===- HostOptions.cpp --------------------------------------------------------===//
#include "runtime/hosts/HostOptions.h"

#include "runtime/bootstrap/HostLink.h"
#include "runtime/rdma/Nic.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringRef.h"

namespace ccl {
namespace {

using Nics = std::vector<std::unique_ptr<rdma::Nic>>;

/// What CCL_NICS names, or all ports that are active.
llvm::Expected<Nics> openNics(const Settings &settings) {
  const std::string library;
  llvm::SmallVector<llvm::StringRef> names;
  llvm::StringRef(getenv("CCL_NICS") ? getenv("CCL_NICS") : "")
      .split(names, ',', -1, /*KeepEmpty=*/false);
  std::vector<rdma::NicOptions> ports;
  for (llvm::StringRef name : names)
    ports.emplace_back().device = name.trim().str();
  if (ports.empty()) {
    llvm::Expected<std::vector<rdma::NicFacts>> found = rdma::listVerbs(library);
    if (!found)
      return found.takeError();
    for (const rdma::NicFacts &facts : *found)
      if (facts.problem.empty())
        ports.emplace_back().device = fmt::format("{}:{}", facts.device, facts.port);
    if (ports.empty())
      return makeFailure(Failure::Machine, "this host has no RDMA port that can be used{}",
                         found->empty() ? std::string()
                                        : fmt::format(": {} port {}: {}", found->front().device,
                                                      found->front().port, found->front().problem));
  }
  Nics nics;
  for (rdma::NicOptions &port : ports) {
    llvm::Expected<std::unique_ptr<rdma::Nic>> nic = rdma::openVerbs(library, port);
    if (!nic)
      return nic.takeError();
    nics.push_back(std::move(*nic));
  }
  return nics;
}

} // namespace

llvm::Error fillHostOptions(const Settings &settings, JoinOptions &options) {
  if (options.address.empty() && options.path.empty() && options.sockets.empty())
    options.address = settings.text(Setting::Address);
  if (options.address.empty())
    return llvm::Error::success();
  if (options.secret.empty()) {
    llvm::Expected<std::string> secret =
        bootstrap::readSecret(settings.text(Setting::Secret), settings.text(Setting::SecretFile));
    if (!secret)
      return secret.takeError();
    options.secret = std::move(*secret);
  }
  if (options.secret.empty())
    return makeFailure(
        Failure::BadArgument,
        "ranks that meet at {} have to know a secret of their job: set CCL_SECRET or "
        "CCL_SECRET_FILE, alike on all of them",
        options.address);
  if (options.host.empty())
    options.host = settings.text(Setting::HostId);
  options.nics = [settings] { return openNics(settings); };
  return llvm::Error::success();
}

} // namespace ccl
