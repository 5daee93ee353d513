# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import contextlib
import os

import pytest
from ansible_collections.mlnode.tuning.tests.fixtures import perftest as says
from ansible_collections.mlnode.tuning.tests.unit import cases
from ansible_collections.mlnode.tuning.tests.unit.strategies import quick, values
from hypothesis import given
from hypothesis import strategies as st
from mlnode.host.system import Finished
from mlnode.linux import perftest
from mlnode.linux.perftest import Failure, Latency, Request
from mlnode.model.errors import HostError
from mlnode.model.record import replace

CLIENT = Request(device="mlx5_0", port=1, peer="10.0.0.2", gid=3, size=65536, seconds=5, tcp_port=18515)
SERVER = replace(CLIENT, peer="")


@cases.table
def test_errors_are_explained(error: str, advice: str) -> None:
    found = perftest.failure(Finished(1, says.TABLE, says.ERRORS[error]), CLIENT)
    assert advice in found.advice
    assert found.words.partition(": ")[2] in " ".join(says.ERRORS[error].split())


def test_an_unknown_error_is_shown() -> None:
    found = perftest.failure(Finished(1, says.output(), "something new\n"), CLIENT)
    assert found == Failure("ib_write_bw ended with 1: something new", "run it by hand on both sides")


def test_success_without_a_number_is_none() -> None:
    found = perftest.failure(Finished(0, says.TABLE, ""), CLIENT)
    assert found.words == "ib_write_bw ended with 0: it printed no result"


def test_nobody_came() -> None:
    found = perftest.failure(Finished(124, "", ""), SERVER)
    assert found.words == "no client connected and was done within 35 s"
    found = perftest.failure(Finished(124, says.TABLE, ""), CLIENT)
    assert found.words == "ib_write_bw did not end within 35 s"
    assert "path_mtu" in found.advice


@pytest.mark.parametrize(
    "text",
    [
        "",
        says.TABLE,
        says.output("0.00"),
        says.output("nan"),
        says.output("-1.00"),
        says.output("391,87"),
        says.output().replace("Gb/sec", "MiB/sec"),
        says.output() + says.output().splitlines()[-2] + "\n",
        says.output().replace(" 747433 ", " "),
        says.output("9" * 5000 + ".00"),
    ],
    ids=[
        "nothing",
        "no row",
        "0",
        "nan",
        "negative",
        "comma",
        "other unit",
        "two rows",
        "a column less",
        "long",
    ],
)
def test_a_table_that_is_another_one_has_no_bandwidth(text: str) -> None:
    assert perftest.bandwidth(text) is None


@quick
@given(st.one_of(values, st.text()))
def test_odd_words_are_no_bandwidth(text: str) -> None:
    assert perftest.bandwidth(text) is None
    assert perftest.failure(Finished(0, text, text), CLIENT).words


# -- where it runs ------------------------------------------------------------------------------


def test_it_runs_on_the_cpus_of_the_node_and_comes_back() -> None:
    before = os.sched_getaffinity(0)
    one = max(before)
    with perftest.running_on([one, 4095]):
        assert os.sched_getaffinity(0) == {one}
    with contextlib.suppress(HostError), perftest.running_on([one]):
        raise HostError("run", "timeout", 2)
    assert os.sched_getaffinity(0) == before


def test_cpus_that_it_may_not_use_change_nothing() -> None:
    before = os.sched_getaffinity(0)
    with perftest.running_on([4095]):
        assert os.sched_getaffinity(0) == before
    assert os.sched_getaffinity(0) == before


def test_what_ib_write_lat_has_printed_between_soft_roce_devices() -> None:
    found, header = perftest.latency(says.SEEN_LATENCY), perftest.header(says.SEEN_LATENCY)

    assert found == Latency(2, 2000, 549.43, 91961.12, 7673.72, 9804.11, 5933.66, 50178.58, 89221.45)
    assert header is not None
    assert (header.device, header.mtu, [*map(str, header.gids)]) == ("rxe0", 1024, ["10.9.0.2", "10.9.0.1"])


#: enum ibv_wc_status and ibv_wc_status_str() of rdma-core, and a word of the advice
STATUSES = {
    1: ("local length error", "size"), 2: ("local QP operation error", "dmesg"),
    3: ("local EE context operation error", "update driver"), 4: ("local protection error", "nvidia_peermem"),
    5: ("Work Request Flushed Error", "first error"), 6: ("memory management operation error", "acs"),
    7: ("bad response error", "firmware"), 8: ("local access error", "acs"),
    9: ("remote invalid request error", "MTU of both"), 10: ("remote access error", "gpudirect"),
    11: ("remote operation error", "its own words"), 12: ("transport retry counter exceeded", "UDP port"),
    13: ("RNR retry counter exceeded", "out_of_buffer"), 14: ("local RDD violation error", "update driver"),
    15: ("remote invalid RD request", "versions"), 16: ("aborted error", "its own words"),
    17: ("invalid EE context number", "update driver"), 18: ("invalid EE context state", "update driver"),
    19: ("fatal error", "reset the device"), 20: ("response timeout error", "UDP port 4791"),
    21: ("general error", "dmesg"), 22: ("TM error", "update driver"),
    23: ("TM software rendezvous", "update driver"), 99: ("unknown", "update driver"),
}  # fmt: skip


@pytest.mark.parametrize("number", STATUSES)
@pytest.mark.parametrize("side", ["client", "server"])
def test_each_completion_has_its_own_advice(number: int, side: str) -> None:
    words, advice = STATUSES[number]
    for status in (f"status {number}", f"status-{words} ({number})"):
        text = (
            f" Completion with error at {side}\n Failed {status}: wr_id 0 vendor_err 0x51\nscnt=128, ccnt=0\n"
        )
        for request in (CLIENT, replace(CLIENT, gpu=0, vendor="NVIDIA")):
            why = perftest.failure(Finished(1, says.TABLE, text), request)
            assert why.words == f"ib_write_bw: Failed {status}"
            assert advice in why.advice
            assert perftest.is_path(why) is (number in (12, 20))


#: As cuda_memory.c and rocm_memory.c print them
@pytest.mark.parametrize(
    ("vendor", "line", "advice"),
    [
        ("NVIDIA", "cuMemAlloc error=2", "no memory left"),
        ("NVIDIA", "cuCtxCreate() error=2", "no memory left"),
        ("NVIDIA", "cuMemAlloc error=201", "CUDA does not start"),
        ("NVIDIA", "cuMemAllocManaged error=999", "CUDA does not start"),
        ("AMD", "hipMalloc error=2", "no memory left"),
        ("AMD", "hipMalloc error=100", "ROCm does not start"),
        ("NVIDIA", "DMA-BUF is not supported on this GPU", "neither peer memory nor DMA-BUF"),
        (
            "AMD",
            "could not open kernel conf file /boot/config-6.8 error: No",
            "neither peer memory nor DMA-BUF",
        ),
        ("AMD", "could not verify dmabuf support from kernel config", "neither peer memory nor DMA-BUF"),
        ("NVIDIA", "cuMemGetHandleForAddressRange error=801", "neither peer memory nor DMA-BUF"),
        ("AMD", "failed to export dmabuf handle for addr 0x7f / 65536", "neither peer memory nor DMA-BUF"),
        ("AMD", "Failed to init memory", "neither peer memory nor DMA-BUF"),
    ],
)
def test_memory_that_a_gpu_does_not_give_is_explained(vendor: str, line: str, advice: str) -> None:
    done = Finished(1, f"{line}\n", "Couldn't create IB resources\n")
    why = perftest.failure(done, replace(CLIENT, gpu=0, vendor=vendor))
    assert line in why.words
    assert advice in why.advice


def test_the_first_error_counts_and_not_the_queue_that_it_flushed() -> None:
    text = " Failed status-Work Request Flushed Error (5): wr_id 1\n Failed status 10: wr_id 0\n"
    assert perftest.failure(Finished(1, "", text), CLIENT).words == "ib_write_bw: Failed status 10"


def test_a_completion_without_a_status_says_nothing_of_the_path() -> None:
    assert not perftest.is_path(
        perftest.failure(Finished(1, "", " Completion with error at client\n"), CLIENT)
    )
