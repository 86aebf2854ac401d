// A parent must not look into ops that are not verified yet.
// RUN: not ccl-opt %s 2>&1 | FileCheck %s
// CHECK: error: 'ccl.buffer' op requires attribute 'chunks'
"ccl.algorithm"() <{contract = #ccl.contract<custom>, function_type = () -> (), sym_name = "a"}> ({
  %0 = "ccl.buffer"() : () -> !ccl.buffer
}) : () -> ()
