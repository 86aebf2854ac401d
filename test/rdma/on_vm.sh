#!/bin/bash
# on_vm.sh COMMAND...: for the ranks of this one of several virtual machines, see `rdma-vm --vms`.
exec "$@" --here "$RDMA_VM_RANK" --address 10.77.0.1:14791
