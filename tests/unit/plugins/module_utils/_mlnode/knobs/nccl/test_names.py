# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The table of variables, and what each check takes."""

from __future__ import annotations

import pathlib
import re

import pytest
from ansible_collections.mlnode.tuning.tests.unit import cases
from ansible_collections.mlnode.tuning.tests.unit.strategies import quick
from hypothesis import given
from hypothesis import strategies as st
from mlnode.knobs.nccl import auto as nccl_auto
from mlnode.knobs.nccl import names as nccl_names
from mlnode.knobs.nccl import values as nccl_values
from mlnode.knobs.nccl.names import DEBUGGING, KNOWN, SYSTEM, UNFIT

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


def spelled(check: str, text: str) -> str | None:
    try:
        return nccl_values.check(check).spelled(text)
    except ValueError:
        return None


def test_every_documented_variable_is_known_or_refused_with_a_reason() -> None:
    guide = {f"NCCL_{word}" for word in GUIDE.split()}
    documented = {name for name, known in KNOWN.items() if known.group in (SYSTEM, DEBUGGING)}

    assert guide - {*UNFIT} == documented
    assert not {*KNOWN} & {*UNFIT}


def test_no_variable_is_listed_twice() -> None:
    tables = (nccl_names._SYSTEM, nccl_names._DEBUGGING, nccl_names._UNDOCUMENTED, nccl_names._GONE)
    names = [re.split("[@=]", entry)[0] for table in tables for entry in table.split()]
    names += [entry.partition("=")[0].replace("NCCL_", "") for entry in nccl_names._RCCL.split()]

    assert len({*names}) == len(names) == len(KNOWN) - 1


def test_every_entry_is_sane() -> None:
    for name, known in KNOWN.items():
        assert re.fullmatch(r"[NR]CCL_[A-Z0-9_]+|SHARP_COLL_LOG_LEVEL", name)
        assert re.fullmatch(r"(?:2\.[0-9]+(?:\.[0-9]+)?)?", known.since), name
        assert nccl_values.check(known.check).words
        assert spelled(known.check, "\x7f\n") is None or known.check == "text", name
        assert known.check in nccl_values.NAMED or re.search(r"\.\.|\|", known.check), name
    assert {*nccl_auto.RESOLVERS} <= {*KNOWN}


@cases.table
def test_the_version_that_introduced_a_variable(name: str, since: str, group: str) -> None:
    assert KNOWN[name].since == since
    assert KNOWN[name].group == group


def spell(name: str, text: str) -> str | None:
    return spelled(KNOWN[name].check, text)


#: Variable, text, and how it is written; None for what is refused
SPELLED = cases.load(pathlib.Path(__file__).with_name("spelled.yml"))


@pytest.mark.parametrize(("name", "text", "written"), SPELLED)
def test_what_a_variable_takes(name: str, text: str, written: str | None) -> None:
    assert spell(name, text) == (text if written == "unchanged" else written)


@pytest.mark.parametrize("name", sorted(KNOWN))
def test_what_is_written_is_taken_as_it_is(name: str) -> None:
    """And by every check, of whatever variable: a value that was written once stays."""
    for text in dict.fromkeys(text for _name, text, _written in SPELLED):
        written = spell(name, text)
        assert written is None or spell(name, written) == written


@quick
@given(st.sampled_from(sorted(KNOWN)), st.text(max_size=40))
def test_no_text_is_too_odd(name: str, text: str) -> None:
    written = spell(name, text)
    if written is not None and KNOWN[name].check != "text":
        assert nccl_values.PRINTABLE.match(written)
        assert written != ""


@quick
@given(st.integers())
def test_a_number_is_what_nccl_reads_of_all_of_it(number: int) -> None:
    in_range = -(2**63) <= number < 2**63
    assert spelled("..", str(number)) == (str(number) if in_range else None)
    if number >= 0 and in_range:
        assert spelled("..", hex(number)) == str(number)
