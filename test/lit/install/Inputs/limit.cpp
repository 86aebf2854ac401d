#include <ccl/topology.h>

#include <cstdio>

int main() {
  ccl::Result<ccl::Topology> star = ccl::Topology::open("star:4");
  if (!star)
    return 1;
  ccl::Result<ccl::Bound> limit = star->bound(ccl::Collective::allGather);
  if (!limit)
    return 1;
  std::printf("all_gather %g GB/s: %s\n", limit->algbw(), limit->certificate().c_str());
}
