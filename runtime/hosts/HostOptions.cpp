//===- HostOptions.cpp --------------------------------------------------------===//
#include "runtime/hosts/HostOptions.h"

#include "runtime/bootstrap/HostLink.h"
#include "runtime/rdma/NicSettings.h"

namespace ccl {

static llvm::Expected<std::vector<std::unique_ptr<rdma::Nic>>> openNics(const Settings &settings) {
  llvm::Expected<std::vector<rdma::NicOptions>> ports = rdma::chooseNics(settings);
  if (!ports)
    return ports.takeError();
  std::vector<std::unique_ptr<rdma::Nic>> nics;
  for (const rdma::NicOptions &port : *ports) {
    llvm::Expected<std::unique_ptr<rdma::Nic>> nic =
        rdma::openVerbs(settings.text(Setting::VerbsLibrary), port);
    if (!nic)
      return nic.takeError();
    nics.push_back(std::move(*nic));
  }
  return nics;
}

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
    return makeFailure(Failure::BadArgument,
                       "ranks that meet at {} have to know a secret of their job: set CCL_SECRET "
                       "or CCL_SECRET_FILE, alike on all of them",
                       options.address);
  if (options.host.empty())
    options.host = settings.text(Setting::HostId);
  options.nics = [settings] { return openNics(settings); };
  return llvm::Error::success();
}

} // namespace ccl
