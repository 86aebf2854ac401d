// A ring whose first half goes on for one step too many.
#include <ccl/builder.h>

#include <cstdio>

int main() {
  const int n = 4;
  ccl::Algorithm a("wrong", ccl::Contract::allReduce(ccl::Op::sum), n);
  ccl::Buffer x = a.inout(n);

  for (int s = 0; s < n; ++s) {
    ccl::Step step = a.step();
    for (int r = 0; r < n; ++r) {
      int chunk = (r - s + n) % n;
      a.reduce(x(r, chunk), x((r + 1) % n, chunk));
    }
  }

  ccl::Result<ccl::Program> program = ccl::Program::compile(a);
  if (program)
    return 0;
  std::fprintf(stderr, "%s\n", program.error().message.c_str());
  return 1;
}
