// Box 0 has a switch, box 1 a chain; the NIC of rank 3 is slow.
ccl.topology @t ranks(node = 2, gpu = 4) {
  ccl.switch "spine"
  ccl.switch "box0"
  ccl.link 0 to "box0" bandwidth 100.0 latency 0.5
  ccl.link "box0" to 0 bandwidth 100.0 latency 0.5
  ccl.link 1 to "box0" bandwidth 100.0 latency 0.5
  ccl.link "box0" to 1 bandwidth 100.0 latency 0.5
  ccl.link 2 to "box0" bandwidth 100.0 latency 0.5
  ccl.link "box0" to 2 bandwidth 100.0 latency 0.5
  ccl.link 3 to "box0" bandwidth 100.0 latency 0.5
  ccl.link "box0" to 3 bandwidth 100.0 latency 0.5
  ccl.link 4 to 5 bandwidth 50.0 latency 0.7
  ccl.link 5 to 4 bandwidth 50.0 latency 0.7
  ccl.link 5 to 6 bandwidth 50.0 latency 0.7
  ccl.link 6 to 5 bandwidth 50.0 latency 0.7
  ccl.link 6 to 7 bandwidth 50.0 latency 0.7
  ccl.link 7 to 6 bandwidth 50.0 latency 0.7
  ccl.link 0 to "spine" bandwidth 25.0 latency 2.5
  ccl.link "spine" to 0 bandwidth 25.0 latency 2.5
  ccl.link 1 to "spine" bandwidth 25.0 latency 2.5
  ccl.link "spine" to 1 bandwidth 25.0 latency 2.5
  ccl.link 2 to "spine" bandwidth 25.0 latency 2.5
  ccl.link "spine" to 2 bandwidth 25.0 latency 2.5
  ccl.link 3 to "spine" bandwidth 12.5 latency 2.5
  ccl.link "spine" to 3 bandwidth 12.5 latency 2.5
  ccl.link 4 to "spine" bandwidth 25.0 latency 2.5
  ccl.link "spine" to 4 bandwidth 25.0 latency 2.5
  ccl.link 5 to "spine" bandwidth 25.0 latency 2.5
  ccl.link "spine" to 5 bandwidth 25.0 latency 2.5
  ccl.link 6 to "spine" bandwidth 25.0 latency 2.5
  ccl.link "spine" to 6 bandwidth 25.0 latency 2.5
  ccl.link 7 to "spine" bandwidth 25.0 latency 2.5
  ccl.link "spine" to 7 bandwidth 25.0 latency 2.5
}
