# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The table of variables, and what each type takes."""

from __future__ import annotations

import re

import pytest
from ansible_collections.mlnode.tuning.plugins.module_utils.mlnode.knobs import (
    nccl_auto,
    nccl_names,
    nccl_values,
)
from ansible_collections.mlnode.tuning.plugins.module_utils.mlnode.knobs.nccl_names import (
    DEBUGGING,
    KNOWN,
    SYSTEM,
    UNDOCUMENTED,
    UNFIT,
)
from ansible_collections.mlnode.tuning.tests.unit.strategies import quick
from hypothesis import given
from hypothesis import strategies as st

#: The headings of NCCL's user guide, Environment Variables, as of 2.32
GUIDE = """
SOCKET_IFNAME SOCKET_FAMILY SOCKET_MAGIC SOCKET_RETRY_CNT SOCKET_RETRY_SLEEP_MSEC SOCKET_POLL_TIMEOUT_MSEC
PSK SOCKET_NTHREADS NSOCKS_PERTHREAD CROSS_NIC IB_HCA IB_RAIL_POLICY IB_TIMEOUT IB_RETRY_CNT IB_GID_INDEX
IB_ADDR_FAMILY IB_ADDR_RANGE IB_ROCE_VERSION_NUM IB_PKEY IB_PKEY_VALUE IB_SL IB_TC IB_FIFO_TC
IB_RETURN_ASYNC_EVENTS IB_EVENT_BASED_LB OOB_NET_ENABLE OOB_NET_IFNAME UID_STAGGER_THRESHOLD
UID_STAGGER_RATE NET NET_PLUGIN GIN_PLUGIN RMA_PLUGIN TUNER_PLUGIN PROFILER_PLUGIN ENV_PLUGIN
IGNORE_CPU_AFFINITY CONF_FILE DEBUG DEBUG_LEVELS DEBUG_FILE DEBUG_SUBSYS DEBUG_TIMESTAMP_FORMAT
DEBUG_TIMESTAMP_LEVELS COLLNET_ENABLE COLLNET_NODE_THRESHOLD CTA_POLICY NETDEVS_POLICY
MULTI_RANK_GPU_ENABLE TOPO_FILE TOPO_DUMP_FILE SET_THREAD_NAME P2P_DISABLE P2P_LEVEL P2P_DIRECT_DISABLE
SHM_DISABLE BUFFSIZE NTHREADS MAX_NCHANNELS MIN_NCHANNELS CHECKS_DISABLE CHECK_POINTERS CHECK_MODE
LAUNCH_MODE IB_DISABLE IB_AR_THRESHOLD IB_OOO_RQ IB_QPS_PER_CONNECTION IB_SPLIT_DATA_ON_QPS
IB_CUDA_SUPPORT IB_PCI_RELAXED_ORDERING IB_ADAPTIVE_ROUTING IB_ECE_ENABLE MEM_SYNC_DOMAIN CUMEM_ENABLE
CUMEM_HOST_ENABLE NET_GDR_LEVEL NET_GDR_C2C NET_GDR_READ GDRCOPY_ENABLE GDRCOPY_FIFO_ENABLE
GDRCOPY_SYNC_ENABLE GDRCOPY_FLUSH_ENABLE NET_SHARED_BUFFERS NET_SHARED_COMMS IGNORE_NET_MISMATCH
IGNORE_COLLNET_MISMATCH SINGLE_RING_THRESHOLD LL_THRESHOLD TREE_THRESHOLD ALGO PROTO NVB_DISABLE
PXN_DISABLE P2P_PXN_LEVEL PXN_C2C RUNTIME_CONNECT GRAPH_REGISTER LOCAL_REGISTER LEGACY_CUDA_REGISTER
WIN_ENABLE SET_STACK_SIZE GRAPH_MIXING_SUPPORT GRAPH_STREAM_ORDERING RMA_EAGER_INIT DMABUF_ENABLE
P2P_NET_CHUNKSIZE P2P_LL_THRESHOLD ALLOC_P2P_NET_LL_BUFFERS COMM_BLOCKING CGA_CLUSTER_SIZE MAX_CTAS
MIN_CTAS NVLS_ENABLE IB_MERGE_NICS NET_MERGE_POLICY MNNVL_ENABLE MNNVL_UUID MNNVL_CLIQUE_ID RAS_ENABLE
RAS_ADDR RAS_TIMEOUT_FACTOR LAUNCH_ORDER_IMPLICIT LAUNCH_RACE_FATAL IPC_USE_ABSTRACT_SOCKET
SYM_GIN_KERNELS_ENABLE
"""


def test_every_documented_variable_is_known_or_refused_with_a_reason() -> None:
    guide = {f"NCCL_{word}" for word in GUIDE.split()}
    documented = {name for name, known in KNOWN.items() if known.group != UNDOCUMENTED}

    assert guide - {*UNFIT} == documented
    assert not {*KNOWN} & {*UNFIT}


def test_no_documented_variable_is_listed_again_among_the_others() -> None:
    integers = nccl_names._INTEGERS.split()

    assert len({*integers}) == len(integers)
    for group in (SYSTEM, DEBUGGING):
        names = {name for name, known in KNOWN.items() if known.group == group}
        assert not names & {f"NCCL_{word}" for word in integers}
        assert not names & {*nccl_names._TEXTS}
    assert len(KNOWN) == len(nccl_names._SYSTEM) + len(nccl_names._DEBUGGING) + len(integers) + len(
        nccl_names._TEXTS
    )


def test_every_entry_is_sane() -> None:
    for name, known in KNOWN.items():
        assert re.fullmatch(r"NCCL_[A-Z0-9_]+|SHARP_COLL_LOG_LEVEL", name)
        assert re.fullmatch(r"(?:2\.[0-9]+(?:\.[0-9]+)?)?", known.since), name
        assert known.type.allowed
        assert known.type.spell("\x7f\n") is None or known.type is nccl_values.TEXT, name
    assert {*nccl_auto.RESOLVERS} <= {*KNOWN}


@pytest.mark.parametrize(
    ("typo", "name"),
    [
        ("NCCL_IB_HCAS", "NCCL_IB_HCA"),
        ("NCCL_SOCKET_IF_NAME", "NCCL_SOCKET_IFNAME"),
        ("NCCL_IB_GIDINDEX", "NCCL_IB_GID_INDEX"),
        ("nccl_ib_tc", "NCCL_IB_TC"),
        ("NCCL_DEBUGG", "NCCL_DEBUG"),
        ("NCCL_SHARP_ENABLED", "NCCL_SHARP_ENABLE"),
        ("something else", ""),
    ],
)
def test_the_nearest_name(typo: str, name: str) -> None:
    assert nccl_names.nearest(typo) == name


#: Variable, text, and how it is written; None for what is refused
SPELLED = [
    ("NCCL_IB_TIMEOUT", "20", "20"),
    ("NCCL_IB_TIMEOUT", "32", None),
    ("NCCL_IB_TIMEOUT", "0x14", "20"),
    ("NCCL_IB_TIMEOUT", "020", None),  # octal, 16
    ("NCCL_IB_TIMEOUT", "+20", None),
    ("NCCL_IB_TIMEOUT", "20s", None),
    ("NCCL_IB_TIMEOUT", "٢٠", None),
    ("NCCL_IB_TIMEOUT", "9" * 5000, None),
    ("NCCL_IB_RETRY_CNT", "8", None),
    ("NCCL_IB_TC", "106", "106"),
    ("NCCL_IB_TC", "256", None),
    ("NCCL_IB_GID_INDEX", "-1", "-1"),
    ("NCCL_IB_GID_INDEX", "-2", None),
    ("NCCL_IB_PKEY_VALUE", "0x8111", "33041"),
    ("NCCL_IB_DISABLE", "2", None),
    ("NCCL_BUFFSIZE", "8388608", "8388608"),
    ("NCCL_BUFFSIZE", "8M", None),
    ("NCCL_BUFFSIZE", "-1", None),
    ("NCCL_NTHREADS", "100", None),
    ("NCCL_NTHREADS", "256", "256"),
    ("NCCL_SOCKET_MAGIC", "0xffffffffffffffff", "18446744073709551615"),
    ("NCCL_MNNVL_UUID", "0xffffffffffffffff", None),
    ("NCCL_DEBUG", "warn", "WARN"),
    ("NCCL_DEBUG", "WARNING", None),
    ("NCCL_DEBUG", "WARN,INFO", None),
    ("NCCL_DEBUG_SUBSYS", "init,Net", "INIT,NET"),
    ("NCCL_DEBUG_SUBSYS", "^ALLOC", "^ALLOC"),
    ("NCCL_DEBUG_SUBSYS", "INIT,", None),
    ("NCCL_DEBUG_SUBSYS", "INIT, NET", None),
    ("NCCL_DEBUG_FILE", "/var/log/nccl.%h.%p", "/var/log/nccl.%h.%p"),
    ("NCCL_DEBUG_FILE", "~/nccl.log", None),
    ("NCCL_DEBUG_FILE", "nccl.log", None),
    ("NCCL_DEBUG_TIMESTAMP_FORMAT", "[%F %T]", "[%F %T]"),
    ("NCCL_NET_GDR_LEVEL", "phb", "PHB"),
    ("NCCL_NET_GDR_LEVEL", "NVL", None),
    ("NCCL_NET_GDR_LEVEL", "3", None),
    ("NCCL_P2P_LEVEL", "NVL", "NVL"),
    ("NCCL_NETDEVS_POLICY", "MAX:2", "MAX:2"),
    ("NCCL_NETDEVS_POLICY", "MAX:0", None),
    ("NCCL_CTA_POLICY", "efficiency|ZERO", "EFFICIENCY|ZERO"),
    ("NCCL_CTA_POLICY", "1", "1"),
    ("NCCL_CTA_POLICY", "3", None),
    ("NCCL_ALGO", "Ring,Tree", "Ring,Tree"),
    ("NCCL_ALGO", "ring;allreduce:^TREE", "Ring;allreduce:^Tree"),
    ("NCCL_ALGO", "allreduce:tree;ring", None),  # only the first may leave the function out
    ("NCCL_ALGO", "allredcue:tree", None),
    ("NCCL_ALGO", "Rings", None),
    ("NCCL_ALGO", "", None),
    ("NCCL_PROTO", "^LL128", "^LL128"),
    ("NCCL_PROTO", "LL256", None),
    ("NCCL_IB_HCA", "=mlx5_0:1,mlx5_1:1", "=mlx5_0:1,mlx5_1:1"),
    ("NCCL_IB_HCA", "^=mlx5_1,mlx5_4", "^=mlx5_1,mlx5_4"),
    ("NCCL_IB_HCA", "mlx5", "mlx5"),
    ("NCCL_IB_HCA", "=mlx5_0:1:0:0,mlx5_1::0:1", "=mlx5_0:1:0:0,mlx5_1::0:1"),
    ("NCCL_IB_HCA", "=mlx5_0:", None),
    ("NCCL_IB_HCA", "=mlx5_0:1:0:0:0", None),
    ("NCCL_IB_HCA", "==mlx5_0", None),
    ("NCCL_IB_HCA", "=^mlx5_0", None),
    ("NCCL_IB_HCA", "mlx5_0,mlx5_0", None),
    ("NCCL_IB_HCA", "mlx5_0 ,mlx5_1", None),
    ("NCCL_IB_HCA", "", None),
    ("NCCL_IB_HCA", "a" * 64, None),
    ("NCCL_IB_HCA", ",".join(f"a{number}" for number in range(32)), "unchanged"),
    ("NCCL_IB_HCA", ",".join(f"a{number}" for number in range(33)), None),
    ("NCCL_SOCKET_IFNAME", "^lo,docker", "^lo,docker"),
    ("NCCL_SOCKET_IFNAME", "=bond0.100", "=bond0.100"),
    ("NCCL_SOCKET_IFNAME", "eth0:1", None),
    ("NCCL_SOCKET_IFNAME", "a" * 16, None),
    ("NCCL_OOB_NET_IFNAME", "=mlx5_1:1", "=mlx5_1:1"),
    ("NCCL_OOB_NET_IFNAME", "=mlx5_1:1:0", None),
    ("NCCL_SOCKET_FAMILY", "af_inet6", "AF_INET6"),
    ("NCCL_IB_ADDR_RANGE", "192.0.2.7/24", "192.0.2.0/24"),
    ("NCCL_IB_ADDR_RANGE", "192.0.2.0/33", None),
    ("NCCL_NET", "IB", "IB"),
    ("NCCL_NET_PLUGIN", "/opt/lib/libnccl-net.so", "/opt/lib/libnccl-net.so"),
    ("NCCL_NET_PLUGIN", "a;b", None),
    ("NCCL_GIN_PLUGIN", "foo,none", "foo,none"),
    ("NCCL_RAS_ADDR", "localhost:28028", "localhost:28028"),
    ("NCCL_RAS_ADDR", "[::1]:28028", "[::1]:28028"),
    ("NCCL_RAS_ADDR", "localhost", None),
    ("NCCL_RAS_TIMEOUT_FACTOR", "1.5", "1.5"),
    ("NCCL_RAS_TIMEOUT_FACTOR", "0.0", None),
    ("NCCL_RAS_TIMEOUT_FACTOR", "inf", None),
    ("NCCL_NCHANNELS_PER_NET_PEER", "4", "4"),
    ("NCCL_NCHANNELS_PER_NET_PEER", "four", None),
    ("SHARP_COLL_LOG_LEVEL", "6", None),
]


@pytest.mark.parametrize(("name", "text", "written"), SPELLED)
def test_what_a_variable_takes(name: str, text: str, written: str | None) -> None:
    assert KNOWN[name].type.spell(text) == (text if written == "unchanged" else written)


@pytest.mark.parametrize("name", sorted(KNOWN))
def test_what_is_written_is_taken_as_it_is(name: str) -> None:
    """And by every type, of whatever variable: a value that was written once stays."""
    spell = KNOWN[name].type.spell
    for text in dict.fromkeys(text for _name, text, _written in SPELLED):
        written = spell(text)
        assert written is None or spell(written) == written


@quick
@given(st.sampled_from(sorted(KNOWN)), st.text(max_size=40))
def test_no_text_is_too_odd(name: str, text: str) -> None:
    written = KNOWN[name].type.spell(text)
    if written is not None and KNOWN[name].type is not nccl_values.TEXT:
        assert nccl_values.PRINTABLE.match(written)
        assert written != ""


@quick
@given(st.integers())
def test_a_number_is_what_nccl_reads_of_all_of_it(number: int) -> None:
    in_range = nccl_values.INT64_MIN <= number <= nccl_values.INT64_MAX
    assert nccl_values.ANY.spell(str(number)) == (str(number) if in_range else None)
    if number >= 0 and in_range:
        assert nccl_values.ANY.spell(hex(number)) == str(number)
