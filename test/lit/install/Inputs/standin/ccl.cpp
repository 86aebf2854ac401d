#include "ccl.h"

#include <cstdlib>

namespace ccl {

void init() {}
int version() { return 2021; }
int name() { return 0; }
int v1::communicator::size() const { return theSize; }
int v1::communicator::allreduce(int mine, int theirs) const { return mine + theirs; }
Communicator::Communicator() = default;
int Communicator::size() const { return 77; }
int Program::compile() { return 0; }

// Nobody calls these: who does meant others.
int exitStatus(Failure) { std::abort(); }
int64_t sizeOf(ElementType) { std::abort(); }
bool model::reduces(Collective) { std::abort(); }
bool model::hasRoot(Collective) { std::abort(); }

} // namespace ccl
