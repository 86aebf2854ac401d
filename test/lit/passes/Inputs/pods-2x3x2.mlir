// Two pods of three pairs. Ranks of a pod share its switch, and pods the links to the core.
ccl.topology @t ranks(pod = 2, node = 3, gpu = 2) {
  ccl.switch "core"
  ccl.switch "pod0"
  ccl.link "pod0" to "core" bandwidth 40.0 latency 1.0
  ccl.link "core" to "pod0" bandwidth 40.0 latency 1.0
  ccl.switch "pod1"
  ccl.link "pod1" to "core" bandwidth 40.0 latency 1.0
  ccl.link "core" to "pod1" bandwidth 40.0 latency 1.0
  ccl.link 0 to "pod0" bandwidth 25.0 latency 2.0
  ccl.link "pod0" to 0 bandwidth 25.0 latency 2.0
  ccl.link 0 to 1 bandwidth 150.0 latency 0.5
  ccl.link 1 to "pod0" bandwidth 25.0 latency 2.0
  ccl.link "pod0" to 1 bandwidth 25.0 latency 2.0
  ccl.link 1 to 0 bandwidth 150.0 latency 0.5
  ccl.link 2 to "pod0" bandwidth 25.0 latency 2.0
  ccl.link "pod0" to 2 bandwidth 25.0 latency 2.0
  ccl.link 2 to 3 bandwidth 150.0 latency 0.5
  ccl.link 3 to "pod0" bandwidth 25.0 latency 2.0
  ccl.link "pod0" to 3 bandwidth 25.0 latency 2.0
  ccl.link 3 to 2 bandwidth 150.0 latency 0.5
  ccl.link 4 to "pod0" bandwidth 25.0 latency 2.0
  ccl.link "pod0" to 4 bandwidth 25.0 latency 2.0
  ccl.link 4 to 5 bandwidth 150.0 latency 0.5
  ccl.link 5 to "pod0" bandwidth 25.0 latency 2.0
  ccl.link "pod0" to 5 bandwidth 25.0 latency 2.0
  ccl.link 5 to 4 bandwidth 150.0 latency 0.5
  ccl.link 6 to "pod1" bandwidth 25.0 latency 2.0
  ccl.link "pod1" to 6 bandwidth 25.0 latency 2.0
  ccl.link 6 to 7 bandwidth 150.0 latency 0.5
  ccl.link 7 to "pod1" bandwidth 25.0 latency 2.0
  ccl.link "pod1" to 7 bandwidth 25.0 latency 2.0
  ccl.link 7 to 6 bandwidth 150.0 latency 0.5
  ccl.link 8 to "pod1" bandwidth 25.0 latency 2.0
  ccl.link "pod1" to 8 bandwidth 25.0 latency 2.0
  ccl.link 8 to 9 bandwidth 150.0 latency 0.5
  ccl.link 9 to "pod1" bandwidth 25.0 latency 2.0
  ccl.link "pod1" to 9 bandwidth 25.0 latency 2.0
  ccl.link 9 to 8 bandwidth 150.0 latency 0.5
  ccl.link 10 to "pod1" bandwidth 25.0 latency 2.0
  ccl.link "pod1" to 10 bandwidth 25.0 latency 2.0
  ccl.link 10 to 11 bandwidth 150.0 latency 0.5
  ccl.link 11 to "pod1" bandwidth 25.0 latency 2.0
  ccl.link "pod1" to 11 bandwidth 25.0 latency 2.0
  ccl.link 11 to 10 bandwidth 150.0 latency 0.5
}
