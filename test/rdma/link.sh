#!/bin/bash
# link.sh up|down H: the link of host H's NIC in a machine that `rdma-vm run --nics N` made. The
# kernel forgets a device's routes and neighbours with its link, so that `up` makes them again.
set -e
ip link set "nic$2" "$1"
[ "$1" = up ] || exit 0
for other in /sys/class/net/nic*; do
  m=${other##*nic}
  [ "$m" != "$2" ] || continue
  ip route replace "10.77.0.$((m + 1))" dev "nic$2" table $((100 + $2))
  ip neigh replace "10.77.0.$((m + 1))" dev "nic$2" nud permanent lladdr "$(cat "$other/address")"
done
