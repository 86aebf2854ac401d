//===- Plain.h - Programs executed with numbers ------------------------------------===//
//
// What the checker says is compared with this: a plain interpreter that shares no code
// with it. Every input chunk is a random 64-bit number, sums wrap around. It takes
// parallel things in a random order, so it finds some of the races, and refuses nothing
// that merely might go wrong.
//===----------------------------------------------------------------------===//
#pragma once

#include "dialect/model/Program.h"
#include "test/random/Algorithms.h"

#include <string>

namespace ccl::random {

/// "" if every place ends with the number that the contract promises, else what happened.
std::string execute(const Algorithm &algorithm, Dice &dice);
/// The same of programs, with another order of the agents for every state of the dice; the
/// parts of a transfer, reading and writing, are apart.
std::string execute(const model::Program &program, const model::Contract &contract, Dice &dice);

} // namespace ccl::random
