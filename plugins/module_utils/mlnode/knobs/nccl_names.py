# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The variables that NCCL reads, and what each of them takes.

The documented ones are those of NCCL's user guide (Environment Variables) as of NCCL 2.32, with the version
that brought them. The others are those that the library of 2.32.3 looks up as integers, or as texts.
"""

from __future__ import annotations

import difflib
from typing import Mapping, NamedTuple

from . import nccl_values as values
from .nccl_values import ANY, BYTES, COUNT, NATURAL, SWITCH, Type, matching, one_of, some_of, whole

SYSTEM, DEBUGGING, UNDOCUMENTED = "system", "debugging", "undocumented"

_LEVELS = ("VERSION", "WARN", "ATTN", "INFO", "ABORT", "TRACE")
_SUBSYSTEMS = (
    "INIT", "COLL", "P2P", "SHM", "NET", "GRAPH", "TUNING", "ENV", "ALLOC", "ALLOC_HOST", "CALL", "PROXY",
    "NVLS", "BOOTSTRAP", "REG", "PROFILE", "RAS", "DESTROY", "ALL",
)  # fmt: skip
_ALGORITHMS = ("Ring", "Tree", "Collnet", "CollnetChain", "CollnetDirect", "NVLS", "NVLSTree", "PAT")
#: An index is 8 bits in an address (struct ibv_global_route: sgid_index); -1 lets NCCL choose
_GID_INDEX = whole(-1, 255, "an index from 0 to 255, or -1 for NCCL's own choice")
#: 8 bits in the headers of IPv6 and InfiniBand (struct ibv_global_route: traffic_class)
_TRAFFIC_CLASS = whole(0, 255)

#: Needed to follow the system, and meant to stay: the first part of the guide
_SYSTEM: Mapping[str, tuple[Type, str]] = {
    "NCCL_SOCKET_IFNAME": (values.NICS, ""),
    "NCCL_SOCKET_FAMILY": (values.FAMILY, ""),
    "NCCL_SOCKET_MAGIC": (whole(0, values.UINT64_MAX), ""),
    "NCCL_SOCKET_RETRY_CNT": (COUNT, "2.24"),
    "NCCL_SOCKET_RETRY_SLEEP_MSEC": (COUNT, "2.24"),
    "NCCL_SOCKET_POLL_TIMEOUT_MSEC": (NATURAL, "2.28"),
    "NCCL_SOCKET_NTHREADS": (whole(1, 16), "2.4.8"),
    # 64 sockets at most, with one thread
    "NCCL_NSOCKS_PERTHREAD": (whole(1, 64), "2.4.8"),
    "NCCL_CROSS_NIC": (whole(0, 2), ""),
    "NCCL_IB_HCA": (values.HCAS, ""),
    "NCCL_IB_RAIL_POLICY": (one_of("NONE", "CX9", "CX9:FLIP", "CX9:ALT", "CX9:BLOCK"), "2.30.5"),
    "NCCL_IB_TIMEOUT": (whole(0, 31), ""),
    "NCCL_IB_RETRY_CNT": (whole(0, 7), "2.1.15"),
    "NCCL_IB_GID_INDEX": (_GID_INDEX, "2.1.4"),
    "NCCL_IB_ADDR_FAMILY": (values.FAMILY, "2.21"),
    "NCCL_IB_ADDR_RANGE": (values.NETWORK, "2.21"),
    "NCCL_IB_ROCE_VERSION_NUM": (whole(1, 2), "2.21"),
    # 16 bits (struct ibv_qp_attr: pkey_index), as the key itself
    "NCCL_IB_PKEY": (whole(0, 65535), "2.1.4"),
    "NCCL_IB_PKEY_VALUE": (whole(-1, 65535), "2.31"),
    # 4 bits in the header of InfiniBand
    "NCCL_IB_SL": (whole(0, 15), "2.1.4"),
    "NCCL_IB_TC": (_TRAFFIC_CLASS, "2.1.15"),
    "NCCL_IB_FIFO_TC": (_TRAFFIC_CLASS, "2.22.3"),
    "NCCL_IB_RETURN_ASYNC_EVENTS": (SWITCH, "2.23"),
    "NCCL_IB_EVENT_BASED_LB": (SWITCH, "2.31"),
    "NCCL_OOB_NET_ENABLE": (SWITCH, "2.23"),
    "NCCL_OOB_NET_IFNAME": (values.OUT_OF_BAND, "2.23"),
    "NCCL_UID_STAGGER_THRESHOLD": (COUNT, "2.23"),
    "NCCL_UID_STAGGER_RATE": (COUNT, "2.23"),
    "NCCL_NET": (values.WORD, "2.10"),
    "NCCL_NET_PLUGIN": (values.PLUGIN, "2.11"),
    "NCCL_GIN_PLUGIN": (values.PLUGINS, "2.29.3"),
    "NCCL_RMA_PLUGIN": (values.PLUGINS, "2.30.7"),
    "NCCL_TUNER_PLUGIN": (values.PLUGIN, ""),
    "NCCL_PROFILER_PLUGIN": (values.PLUGIN, ""),
    "NCCL_ENV_PLUGIN": (values.PLUGIN, "2.28"),
    "NCCL_IGNORE_CPU_AFFINITY": (SWITCH, "2.4.6"),
    "NCCL_DEBUG": (one_of(*_LEVELS), ""),
    "NCCL_DEBUG_LEVELS": (some_of(*_LEVELS, "ALL"), "2.32"),
    "NCCL_DEBUG_FILE": (values.PATH, "2.2.12"),
    "NCCL_DEBUG_SUBSYS": (some_of(*_SUBSYSTEMS), "2.3.4"),
    "NCCL_DEBUG_TIMESTAMP_FORMAT": (values.TEXT, "2.26"),
    "NCCL_DEBUG_TIMESTAMP_LEVELS": (some_of(*_LEVELS, "ALL"), "2.26"),
    "NCCL_COLLNET_ENABLE": (SWITCH, "2.6"),
    "NCCL_COLLNET_NODE_THRESHOLD": (NATURAL, "2.9.9"),
    "NCCL_CTA_POLICY": (values.flags("DEFAULT", "EFFICIENCY", "ZERO"), "2.29"),
    "NCCL_NETDEVS_POLICY": (matching(r"ALL|MAX:[1-9][0-9]{0,2}", "ALL, or MAX:N such as MAX:2"), "2.28"),
    "NCCL_MULTI_RANK_GPU_ENABLE": (SWITCH, "2.30"),
    "NCCL_TOPO_FILE": (values.PATH, "2.6"),
    "NCCL_TOPO_DUMP_FILE": (values.PATH, "2.6"),
    "NCCL_SET_THREAD_NAME": (SWITCH, "2.12"),
}

#: For experiments and as a workaround: the part of the guide that is called Debugging
_DEBUGGING: Mapping[str, tuple[Type, str]] = {
    "NCCL_P2P_DISABLE": (SWITCH, ""),
    "NCCL_P2P_LEVEL": (one_of("LOC", "NVL", "PIX", "PXB", "PHB", "SYS"), "2.3.4"),
    "NCCL_P2P_DIRECT_DISABLE": (SWITCH, ""),
    "NCCL_SHM_DISABLE": (SWITCH, ""),
    "NCCL_BUFFSIZE": (BYTES, ""),
    "NCCL_NTHREADS": (one_of("64", "128", "256", "512"), ""),
    "NCCL_MAX_NCHANNELS": (COUNT, "2.5"),
    "NCCL_MIN_NCHANNELS": (COUNT, "2.5"),
    "NCCL_CHECK_POINTERS": (SWITCH, "2.2.12"),
    "NCCL_CHECK_MODE": (one_of("DEFAULT", "DEBUG_LOCAL", "DEBUG_GLOBAL"), "2.29.7"),
    "NCCL_LAUNCH_MODE": (one_of("PARALLEL", "GROUP"), "2.1"),
    "NCCL_IB_DISABLE": (SWITCH, ""),
    "NCCL_IB_AR_THRESHOLD": (BYTES, "2.6"),
    "NCCL_IB_OOO_RQ": (SWITCH, "2.30"),
    "NCCL_IB_QPS_PER_CONNECTION": (whole(1, 128), "2.10"),
    "NCCL_IB_SPLIT_DATA_ON_QPS": (SWITCH, "2.18"),
    "NCCL_IB_PCI_RELAXED_ORDERING": (whole(0, 2), "2.12"),
    "NCCL_IB_ADAPTIVE_ROUTING": (SWITCH, "2.16"),
    "NCCL_IB_ECE_ENABLE": (SWITCH, "2.19"),
    "NCCL_MEM_SYNC_DOMAIN": (SWITCH, "2.16"),
    "NCCL_CUMEM_ENABLE": (SWITCH, "2.18"),
    "NCCL_CUMEM_HOST_ENABLE": (SWITCH, "2.23"),
    "NCCL_NET_GDR_LEVEL": (one_of("LOC", "PIX", "PXB", "PHB", "SYS"), "2.4"),
    "NCCL_NET_GDR_C2C": (SWITCH, "2.26"),
    "NCCL_NET_GDR_READ": (SWITCH, ""),
    "NCCL_GDRCOPY_ENABLE": (SWITCH, ""),
    "NCCL_GDRCOPY_FIFO_ENABLE": (SWITCH, ""),
    "NCCL_GDRCOPY_SYNC_ENABLE": (SWITCH, ""),
    "NCCL_GDRCOPY_FLUSH_ENABLE": (SWITCH, ""),
    "NCCL_NET_SHARED_BUFFERS": (SWITCH, "2.8"),
    "NCCL_NET_SHARED_COMMS": (SWITCH, "2.12"),
    "NCCL_IGNORE_NET_MISMATCH": (SWITCH, "2.30"),
    "NCCL_IGNORE_COLLNET_MISMATCH": (SWITCH, "2.30"),
    "NCCL_ALGO": (values.per_function(*_ALGORITHMS), "2.5"),
    "NCCL_PROTO": (values.per_function("LL", "LL128", "Simple"), "2.5"),
    "NCCL_NVB_DISABLE": (SWITCH, "2.11"),
    "NCCL_PXN_DISABLE": (SWITCH, "2.12"),
    "NCCL_P2P_PXN_LEVEL": (whole(0, 2), "2.12"),
    "NCCL_PXN_C2C": (SWITCH, "2.27"),
    "NCCL_RUNTIME_CONNECT": (SWITCH, "2.22"),
    "NCCL_GRAPH_REGISTER": (SWITCH, "2.11"),
    "NCCL_LOCAL_REGISTER": (SWITCH, "2.19"),
    "NCCL_LEGACY_CUDA_REGISTER": (SWITCH, "2.24"),
    "NCCL_WIN_ENABLE": (SWITCH, "2.27"),
    "NCCL_SET_STACK_SIZE": (SWITCH, "2.9"),
    "NCCL_GRAPH_MIXING_SUPPORT": (SWITCH, "2.13"),
    "NCCL_GRAPH_STREAM_ORDERING": (SWITCH, "2.30"),
    "NCCL_RMA_EAGER_INIT": (SWITCH, "2.31"),
    "NCCL_DMABUF_ENABLE": (SWITCH, "2.13"),
    "NCCL_P2P_NET_CHUNKSIZE": (BYTES, "2.14"),
    "NCCL_P2P_LL_THRESHOLD": (BYTES, "2.14"),
    "NCCL_ALLOC_P2P_NET_LL_BUFFERS": (SWITCH, "2.14"),
    "NCCL_COMM_BLOCKING": (SWITCH, "2.14"),
    "NCCL_CGA_CLUSTER_SIZE": (whole(0, 8), "2.16"),
    "NCCL_MAX_CTAS": (whole(1, 64), "2.17"),
    "NCCL_MIN_CTAS": (whole(1, 64), "2.17"),
    "NCCL_NVLS_ENABLE": (whole(0, 2), "2.17"),
    "NCCL_IB_MERGE_NICS": (SWITCH, "2.20"),
    "NCCL_NET_MERGE_POLICY": (one_of("ALL", "RAIL"), "2.30.5"),
    "NCCL_MNNVL_ENABLE": (whole(0, 2), "2.21"),
    "NCCL_MNNVL_UUID": (ANY, "2.25"),
    # 32 bits (nvmlGpuFabricInfo_t: cliqueId)
    "NCCL_MNNVL_CLIQUE_ID": (whole(0, 2**32 - 1), "2.25"),
    "NCCL_RAS_ENABLE": (SWITCH, "2.24"),
    "NCCL_RAS_ADDR": (values.ADDRESS, "2.24"),
    "NCCL_RAS_TIMEOUT_FACTOR": (values.FACTOR, "2.24"),
    "NCCL_LAUNCH_ORDER_IMPLICIT": (SWITCH, "2.26"),
    "NCCL_LAUNCH_RACE_FATAL": (SWITCH, "2.26"),
    "NCCL_IPC_USE_ABSTRACT_SOCKET": (SWITCH, "2.29"),
    "NCCL_SYM_GIN_KERNELS_ENABLE": (SWITCH, "2.29"),
}

#: Behind NCCL_: what the library of 2.32.3 looks up as integers, and no document of NCCL tells about
_INTEGERS = """
ALLGATHERV_ENABLE CE_CHUNK_SIZE CHUNK_SIZE COMM_SHRINK_SHARE_RESOURCES COMM_SPLIT_SHARE_RESOURCES
CONNECT_ROUND_MAX_PEERS DEV_API_JIT DIAGNOSTICS_ECC_THRESHOLD DIAGNOSTICS_IB_BW_TIMEOUT DISABLE_MEM_MANAGER
ENABLE_VERSION_CHECK ENQUEUE_REARCH_ENABLE GDRCOPY_USE_INTERNAL_DMABUF GDR_FLUSH_DISABLE GIN_ENABLE
GIN_ERROR_QUERY_SEC GIN_GDAKI_MAX_DEST_RD_ATOMIC GIN_GDAKI_MAX_QP_RD_ATOMIC GIN_IB_OOO_OPT GIN_IB_TC
GIN_NCONNECTIONS GIN_PROXY_NTHREADS GIN_PROXY_POLL_BATCH GIN_PROXY_QUEUE_SIZE GIN_TYPE GRAPH_DUMP_FILE_RANK
GRAPH_HELPER_DISABLE HIER_CE_COLL_AG_RAIL_RING_ENABLE HIER_CE_COLL_NUM_CTX IB_DATA_DIRECT IB_DEVICE_PCI_ORDER
IB_MERGE_VFS IB_MQP_RETRY_ALL IB_MQP_RETRY_CNT IB_MQP_RETRY_SLEEP_MSEC IB_PREPOST_RECEIVE_WORK_REQUESTS
IB_QUERY_PORT_SPEED IB_RESILIENCY_PORT_FAILOVER IB_RESILIENCY_PORT_FAILOVER_MAX_ATTEMPTS
IB_RESILIENCY_PORT_FAILOVER_PROBE_DELAY IB_RESILIENCY_PORT_RECOVERY IB_RESILIENCY_PORT_RECOVERY_ACK_TIMEOUT
IB_RESILIENCY_PORT_RECOVERY_ALIVE_MSG_BATCH_INTERVAL IB_RESILIENCY_PORT_RECOVERY_ALIVE_MSG_BATCH_SIZE
IB_RESILIENCY_PORT_RECOVERY_ALIVE_MSG_SEQUENCE_SIZE IB_RESILIENCY_PORT_RECOVERY_ALIVE_MSG_TIMEOUT
IB_RESILIENCY_PORT_RECOVERY_ATTEMPTS_MAX IB_RESILIENCY_PORT_RECOVERY_START_DELAY IB_ROUTABLE_FLID_GID_INDEX
IB_SORT_MERGE_NICS IB_SUBNET_AWARE_ROUTING IB_SUBNET_PREFIX_LEN IB_USE_INLINE IB_WARN_RAIL_LOCAL
IB_WQE_LATENCY_REPORT IB_WQE_LATENCY_THRESHOLD_NS IGNORE_DISABLED_P2P L1_SHARED_MEMORY_CARVEOUT LL128_BUFFSIZE
LL128_C2C LL128_NTHREADS LL_BUFFSIZE LSA_TEAM_SIZE MAX_NRINGS MAX_P2P_NCHANNELS MIN_NRINGS MIN_P2P_NCHANNELS
MNNVL_CROSS_CLIQUE MNNVL_RAIL_PER_HOST MNNVL_SCATTER_NETS_ENABLE NCHANNELS_PER_NET_PEER NET_DISABLE_INTRA
NET_FORCE_FLUSH NET_OPTIONAL_RECV_COMPLETION NET_OVERHEAD NUM_RMA_CTX NVB_PRECONNECT
NVLINK_UTIL_CENTRIC_SCHED_ENABLE NVLSTREE_MAX_CHUNKSIZE NVLS_CHUNKSIZE NVLS_NCHANNELS NVLS_UB_SIZE
NVTX_DISABLE P2P_EPOCH_ENABLE P2P_MAX_PEERS P2P_NVL_CHUNKSIZE P2P_PCI_CHUNKSIZE P2P_PER_CHANNEL_NET_BW
P2P_PER_CHANNEL_REG_NET_BW P2P_READ_ENABLE P2P_SCHEDULE_GROUP_SIZE P2P_USE_CUDA_MEMCPY PAT_ENABLE
PROGRESS_APPENDOP_FREQ PROGRESS_COUNTER_MONITOR_POLL_MS PROGRESS_COUNTER_MONITOR_STALE_MS
PROGRESS_COUNTER_MONITOR_STALE_WARN_SEC PROXY_APPEND_BATCH_SIZE PROXY_DUMP_SIGNAL REPORT_CONNECT_PROGRESS
RMA_DISABLE RMA_IB_WR_BATCHSIZE RMA_MULTI_CTX_THRESHOLD RMA_PROXY_DUMP_SIGNAL RMA_PROXY_QUEUE_SIZE
SET_CPU_STACK_SIZE SHADOW_MEMPOOL_MAX_SIZE SHM_LOCALITY SINGLE_PROC_MEM_REG_ENABLE SOCKET_INLINE
SOCKET_MIN_TASKSIZE SOCKET_RCVBUF SOCKET_SNDBUF SYM_CE_THRESHOLD SYM_CTAS SYM_NOWIN_ENABLE
SYM_REUSE_SYSMEM_HANDLES SYM_RS_GIN_CHUNK_SIZE SYM_TMA_ENABLE TOPO_DUMP_FILE_RANK TOPO_SPLIT_MLOPART
UNPACK_DOUBLE_NCHANNELS WIN_STRIDE WORK_ARGS_BYTES WORK_FIFO_BYTES
"""

#: As those, for texts
_TEXTS: Mapping[str, Type] = {
    "NCCL_GRAPH_FILE": values.PATH,
    "NCCL_GRAPH_DUMP_FILE": values.PATH,
    "NCCL_IBVERBS_LIB": values.PLUGIN,
    "NCCL_NET_FORCE_MERGE": values.TEXT,
    "NCCL_NET_MERGE_LEVEL": values.WORD,
    "NCCL_NO_CACHE": values.TEXT,
    "NCCL_PROXY_CPUSET": values.TEXT,
    "NCCL_SYM_KERNEL": values.WORD,
    "NCCL_THREAD_THRESHOLDS": values.TEXT,
    # libsharp's own, which it reads in the process of NCCL: 0 fatal to 5 trace
    "SHARP_COLL_LOG_LEVEL": whole(0, 5),
}

#: What must not be in a file that all jobs of a node read, or does nothing there → why, and what to do
UNFIT: Mapping[str, str] = {
    "NCCL_CONF_FILE": "NCCL asks for it before it reads this file",
    "NCCL_PARAM_DUMP_ALL": "it is for a program that prints NCCL's parameters",
    "NCCL_COMM_ID": "it is one job's meeting point; all jobs of this node would share it",
    "NCCL_HOSTID": "NCCL tells hosts apart by it; jobs set it where they need it",
    "NCCL_PSK": "it is a secret, and everybody can read this file",
    "NCCL_IB_GDR_LEVEL": "it has been called NCCL_NET_GDR_LEVEL since 2.4",
    "NCCL_IB_CUDA_SUPPORT": "NCCL has not read it since 2.4; use NCCL_NET_GDR_LEVEL",
    "NCCL_SINGLE_RING_THRESHOLD": "NCCL has not read it since 2.3",
    "NCCL_LL_THRESHOLD": "NCCL has not read it since 2.5; use NCCL_PROTO",
    "NCCL_TREE_THRESHOLD": "NCCL has not read it since 2.5; use NCCL_ALGO",
    "NCCL_CHECKS_DISABLE": "NCCL no longer reads it; use NCCL_CHECK_MODE",
    "NCCL_SHARP_ENABLE": "NCCL has no such variable; NCCL_COLLNET_ENABLE switches SHARP on",
}


class Variable(NamedTuple):
    """since: the version of NCCL that brought it; "" where it is older than the guide, or nobody says."""

    type: Type
    group: str
    since: str = ""


KNOWN: Mapping[str, Variable] = {
    **{name: Variable(type_, SYSTEM, since) for name, (type_, since) in _SYSTEM.items()},
    **{name: Variable(type_, DEBUGGING, since) for name, (type_, since) in _DEBUGGING.items()},
    **{f"NCCL_{name}": Variable(ANY, UNDOCUMENTED) for name in _INTEGERS.split()},
    **{name: Variable(type_, UNDOCUMENTED) for name, type_ in _TEXTS.items()},
}


def nearest(name: str) -> str:
    """The known name that is most like it; empty where none is."""
    close = difflib.get_close_matches(name.upper(), [*KNOWN, *UNFIT], n=1)
    return close[0] if close else ""
