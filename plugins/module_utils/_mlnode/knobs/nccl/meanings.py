# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Meaning of each variable in NVIDIA's documentation (NCCL user guide 2.32, Environment Variables), and of
its plugins' variables: one line each with NAME without NCCL_, a blank, and the meaning.
"""

from __future__ import annotations

from typing import Mapping

SOURCE = "NCCL user guide, Environment Variables"

#: The variables that are set most often and affect jobs most
_COMMON = """
DEBUG how much NCCL logs: VERSION, WARN, INFO; INFO and TRACE cost time
DEBUG_SUBSYS which parts log at INFO; INIT, ENV and NET show what a job got, TUNING the algorithm of each size
SOCKET_IFNAME interfaces on which ranks meet, and for sockets; beginnings of names, = whole names, ^ not these
IB_HCA RDMA devices for data, with :port; beginnings of names, = whole names, ^ not these
IB_DISABLE 1 takes RDMA away: IP sockets are used
IB_GID_INDEX index of the RoCE address; -1 has NCCL find it (2.21 and later)
IB_TC traffic class of RoCE, which decides its queue: DSCP times 4, and 2 for ECT; 106 is DSCP 26
IB_SL service level of InfiniBand
IB_TIMEOUT how long a lost packet is waited for: 4.096 us times 2 to the power of it; 20 is 4.3 s
IB_QPS_PER_CONNECTION queue pairs for each connection: more of them spread over more paths (ECMP)
NET_GDR_LEVEL largest distance from GPU to NIC for GPUDirect RDMA: LOC never, PIX, PXB, PHB, SYS always
P2P_DISABLE 1 takes NVLink and PCIe between GPUs away
P2P_LEVEL largest distance of GPUs for P2P: LOC never, NVL, PIX, PXB, PHB, SYS always
SHM_DISABLE 1 takes shared memory away, which GPUs without P2P use
COLLNET_ENABLE 1 allows in-network reduction by a plugin, as SHARP
ALGO which algorithms may be used: RING, TREE, COLLNETDIRECT, COLLNETCHAIN, NVLS, NVLSTREE, PAT
PROTO which protocols may be used: LL, LL128, SIMPLE; LL128 corrupts data if it is not supported
BUFFSIZE bytes of the buffer between two GPUs, 4194304 if not set
"""

_SYSTEM = """
SOCKET_FAMILY AF_INET or AF_INET6: addresses of one family only
SOCKET_MAGIC number that the two ends of a socket greet each other with
SOCKET_RETRY_CNT how often a refused or lost connection is tried again
SOCKET_RETRY_SLEEP_MSEC ms before the first new try; it grows with each
SOCKET_POLL_TIMEOUT_MSEC ms to wait in a poll at the start of a job, in place of spinning
SOCKET_NTHREADS threads for each connection over IP sockets
NSOCKS_PERTHREAD sockets of each of these threads
CROSS_NIC whether a ring or tree may use other NICs on other nodes: 0 no, 1 yes, 2 if it is as good
IB_RAIL_POLICY how NCCL finds out which ports are one rail
IB_RETRY_CNT how often the NIC sends a packet again before the connection ends
IB_ADDR_FAMILY family of the RoCE address that NCCL looks for
IB_ADDR_RANGE network in which NCCL looks for the RoCE address
IB_ROCE_VERSION_NUM version of RoCE of the address that NCCL looks for
IB_PKEY index of the partition key
IB_PKEY_VALUE the partition key itself
IB_FIFO_TC traffic class of NCCL's own control messages
IB_RETURN_ASYNC_EVENTS whether a fatal event of a NIC ends the job
IB_EVENT_BASED_LB whether load is spread by events of the NIC
OOB_NET_ENABLE whether ranks meet over the network of data, and not over IP sockets
OOB_NET_IFNAME devices for that
UID_STAGGER_THRESHOLD ranks from which on they do not all begin at once
UID_STAGGER_RATE ranks a second that begin then
NET the network by its name: IB, Socket, or a plugin's name
NET_PLUGIN library of the network plugin; none for NCCL's own
GIN_PLUGIN library of the plugin for communication that GPUs begin
RMA_PLUGIN library of the plugin for one-sided communication
TUNER_PLUGIN library of the plugin that chooses algorithms
PROFILER_PLUGIN library of the plugin that records what NCCL does
ENV_PLUGIN library of the plugin that gives variables
IGNORE_CPU_AFFINITY 1 takes the CPUs near the GPU, whatever the job's are
DEBUG_LEVELS which levels are logged, as a list
DEBUG_FILE file for the log; %h is the host and %p the process
DEBUG_TIMESTAMP_FORMAT form of the time in the log, as of strftime
DEBUG_TIMESTAMP_LEVELS which levels are logged with the time
COLLNET_NODE_THRESHOLD nodes from which on in-network reduction is tried
CTA_POLICY whether NCCL saves GPU blocks or time
NETDEVS_POLICY which of the near NICs a GPU uses
MULTI_RANK_GPU_ENABLE 1 allows several ranks on one GPU
TOPO_FILE topology in XML that NCCL believes in place of the hardware, as in virtual machines
TOPO_DUMP_FILE file to which NCCL writes the topology
SET_THREAD_NAME 1 names the threads of NCCL
"""

_DEBUGGING = """
P2P_DIRECT_DISABLE 1 forbids direct access between GPUs of one process
NTHREADS threads of each CUDA block
MAX_NCHANNELS the most channels; each takes a CUDA block
MIN_NCHANNELS the fewest channels
CHECK_POINTERS 1 checks pointers at each call
CHECK_MODE how much arguments are checked
LAUNCH_MODE how kernels are started
IB_AR_THRESHOLD bytes from which on data is sent apart from its completion, for adaptive routing
IB_OOO_RQ 1 allows receives out of order
IB_SPLIT_DATA_ON_QPS 1 splits each message over all queue pairs, 0 takes them in turn
IB_PCI_RELAXED_ORDERING relaxed ordering on PCIe: 0 no, 1 yes, 2 if the NIC can
IB_ADAPTIVE_ROUTING whether data may be routed adaptively; the fabric must do so on the service level
IB_ECE_ENABLE whether both NICs agree on vendor features at the connection
MEM_SYNC_DOMAIN domain that separates NCCL's memory order from the job's
CUMEM_ENABLE whether GPU memory is allocated by cuMem
CUMEM_HOST_ENABLE the same for host memory
NET_GDR_C2C whether GPUDirect RDMA is used over NVLink-C2C of a CPU
NET_GDR_READ whether GPUDirect RDMA is used for sending, too
GDRCOPY_ENABLE 1 uses gdrcopy
GDRCOPY_FIFO_ENABLE gdrcopy for the queues of work
GDRCOPY_SYNC_ENABLE gdrcopy for synchronization
GDRCOPY_FLUSH_ENABLE gdrcopy for the flush after data was received
NET_SHARED_BUFFERS one pool of buffers for all peers of send and receive
NET_SHARED_COMMS one connection for what several GPUs send through one NIC (PXN)
IGNORE_NET_MISMATCH 0 ends a job in which some ranks see fewer NICs: a lost rail; 1 goes on with fewer
IGNORE_COLLNET_MISMATCH the same for devices of in-network reduction
NVB_DISABLE 1 forbids NVLink through another GPU
PXN_DISABLE 1 forbids the NIC of another GPU over NVLink
P2P_PXN_LEVEL when send and receive use PXN: 0 never, 1 if better, 2 always
PXN_C2C whether PXN is used over NVLink-C2C
RUNTIME_CONNECT 1 connects peers when they are first used, 0 at the start
GRAPH_REGISTER whether buffers in CUDA graphs are registered
LOCAL_REGISTER whether buffers may be registered by the user
LEGACY_CUDA_REGISTER whether buffers of cudaMalloc are registered, which may hang
WIN_ENABLE whether windows are registered
SET_STACK_SIZE 1 sets the stack of all kernels at once
GRAPH_MIXING_SUPPORT whether CUDA graphs and other calls may be under way at the same time
GRAPH_STREAM_ORDERING whether NCCL orders its kernels in CUDA graphs
RMA_EAGER_INIT 1 sets up one-sided communication at the start
DMABUF_ENABLE whether GPUDirect RDMA uses dma-buf of the kernel
P2P_NET_CHUNKSIZE bytes of one message of send and receive
P2P_LL_THRESHOLD bytes up to which send and receive use the protocol LL
ALLOC_P2P_NET_LL_BUFFERS 1 allocates buffers of LL for all peers
COMM_BLOCKING whether calls wait until they are done
CGA_CLUSTER_SIZE CUDA blocks of a cluster
MAX_CTAS the most CUDA blocks
MIN_CTAS the fewest CUDA blocks
NVLS_ENABLE NVLink SHARP: 0 no, 1 yes or fail, 2 if it is there
IB_MERGE_NICS 1 makes one device of the ports of a NIC
NET_MERGE_POLICY which NICs may be merged
MNNVL_ENABLE NVLink between nodes: 0 no, 1 yes or fail, 2 if it is there
MNNVL_UUID identity of the NVLink domain, in place of the fabric manager's
MNNVL_CLIQUE_ID part of the NVLink domain: ranks with the same number use NVLink
RAS_ENABLE whether jobs can be asked for their state (ncclras)
RAS_ADDR address and port for that
RAS_TIMEOUT_FACTOR factor of all its timeouts
LAUNCH_ORDER_IMPLICIT 1 orders operations of several communicators as the program does
LAUNCH_RACE_FATAL whether a race of threads in that is an error
IPC_USE_ABSTRACT_SOCKET 0 uses socket files, for containers with their own network namespaces
SYM_GIN_KERNELS_ENABLE whether symmetric kernels use the network
"""


def _read(table: str) -> dict[str, str]:
    rows = (line.partition(" ") for line in table.strip().splitlines())
    return {f"NCCL_{name}": meaning for name, _blank, meaning in rows}


COMMON = tuple(_read(_COMMON))
MEANINGS: Mapping[str, str] = {
    **_read(_COMMON),
    **_read(_SYSTEM),
    **_read(_DEBUGGING),
    "NCCL_CONF_FILE": "file of variables in place of ~/.nccl.conf (2.23 and later)",
    "SHARP_COLL_LOG_LEVEL": "how much libsharp logs: 0 fatal, 1 error, 2 warn, 3 info, 4 debug, 5 trace",
}
