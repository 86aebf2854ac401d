//===- ccl.cuh - What generated kernels are made of ----------------------------===//
//
// What it includes makes one text with it, behind the ABI, compiled by NVRTC, or as C++ behind
// shim.h, where a block is one thread of the host. A generated source defines these before it:
//
//   CCL_BUFFERS   buffers of the program
//   CCL_CHUNKS    chunks of a shard
//   CCL_ELEMENT   type of an element, one of elements.cuh (F32, BF16, ...)
//   CCL_REDUCTION one of elements.cuh (Sum, Max, ...)
//   CCL_THREADS   threads of a block, a multiple of 32
//   CCL_ROLES     of each buffer a letter: "ios" for an input, an output, scratch
//   CCL_OPERANDS  most operands of a transfer
//   CCL_ROWS      whether operands of several transfers are moved at once
//   CCL_SLOTS     whether some transfer has a slot of a channel
//   CCL_PEERS     whether some transfer has memory of a peer
//   CCL_TURNS     whether some transfer is of several chunks, or more rows than there is room for
//   CCL_AGENTS    most agents of a rank, those of copy engines included
//   CCL_NAMED     most channels of a program that slots are of
//   CCL_BARRIERS  Barriers that the proof asks for
//   CCL_FLAGS     defined if some wire is not `simple`; so are CCL_TABLES and CCL_STEPS if
//                 instructions come from tables, and if there are agents of copy engines
//
// All threads of a block call everything here together, with equal arguments. After a failure
// (time-out, abort) every call returns at once, and the program runs to its end without effect.
//
// Code is small on purpose: a kernel compiles in a tenth of a second. What moves data is one
// function for every kind of transfer; what the operands of one need (waits, addresses) is done
// by one thread each, at once.
//===----------------------------------------------------------------------===//
#pragma once

#include "launch.cuh"
#include "steps.cuh"
#include "transfer.cuh"
