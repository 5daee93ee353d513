# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import os
import pathlib
import shutil
import time
from collections.abc import Sequence

import pytest
from ansible_collections.mlnode.tuning.tests.fixtures import perftest as says
from ansible_collections.mlnode.tuning.tests.unit.strategies import quick, values
from hypothesis import given
from hypothesis import strategies as st
from mlnode.host.host import Host
from mlnode.host.system import Finished
from mlnode.linux import perftest
from mlnode.linux.perftest import Latency, Outcome, Request
from mlnode.model.errors import HostError
from mlnode.model.record import replace

CLIENT = Request(
    device="mlx5_0", port=1, peer="10.0.0.2", gid=3, size=65536, seconds=5, tcp_port=18515, wait=60
)
SERVER = replace(CLIENT, peer="")


class Scripted(Host):
    """A host on which each command ends with the next of these answers, a second after it was called."""

    def __init__(self, *answers: Finished | HostError) -> None:
        super().__init__("/nowhere")
        self.answers = list(answers)
        self.commands: list[list[str]] = []
        self.limits: list[float] = []
        self.cpus: list[set[int]] = []
        self.time = 0.0

    def run(self, command: Sequence[str], seconds: float = 60) -> Finished:
        self.commands.append(list(command))
        self.limits.append(seconds)
        self.cpus.append(os.sched_getaffinity(0))
        self.time += 1
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, HostError):
            raise answer
        return answer

    def now(self) -> float:
        return self.time

    def sleep(self, seconds: float) -> None:
        self.time += seconds


def measured(host: Scripted, request: Request = CLIENT, cpus: Sequence[int] = ()) -> Outcome:
    return perftest.measure(host, request, cpus, host.now, host.sleep)


GOOD = Finished(0, says.output(), "")
NOBODY = Finished(1, "", says.NOBODY)


def test_the_average_is_what_counts() -> None:
    host = Scripted(GOOD)
    assert measured(host) == Outcome(391.87)
    assert " ".join(host.commands[0]) == (
        "timeout --kill-after=5 35.0 ib_write_bw -d mlx5_0 -i 1 -s 65536 -F -D 5 -p 18515 --report_gbits "
        "-x 3 10.0.0.2"
    )


def test_a_server_waits_longer_and_names_nobody() -> None:
    host = Scripted(GOOD)
    assert measured(host, replace(SERVER, gid=None)) == Outcome(391.87)
    assert " ".join(host.commands[0]).endswith(" --report_gbits")
    assert host.commands[0][2] == "95.0"
    # Python's own limit would kill timeout(1) alone, and leave the server.
    assert host.limits[0] > 95 + 5


def test_a_server_that_does_not_listen_yet_is_tried_again() -> None:
    host = Scripted(NOBODY, NOBODY, GOOD)
    assert measured(host) == Outcome(391.87)
    assert len(host.commands) == 3


def test_a_server_that_never_listens_is_given_up() -> None:
    host = Scripted(NOBODY)
    found = measured(host)
    assert found.gbits is None
    assert found.words == "ib_write_bw: Couldn't connect to 10.0.0.2:18515"
    assert "start the other side first" in found.advice
    assert 60 <= host.time <= 63


def test_a_server_that_failed_is_not_tried_again() -> None:
    host = Scripted(Finished(1, "", says.ERRORS["busy port"]), GOOD)
    found = measured(host, SERVER)
    assert found.words == "ib_write_bw: Couldn't listen to port 18515"
    assert "tcp_port" in found.advice


@pytest.mark.parametrize(
    ("error", "advice"),
    [
        ("nobody", "start the other side first"),
        ("busy port", "another tcp_port"),
        ("gids", "GID index"),
        ("queues", "GID index"),
        ("path", "path_mtu"),
        ("memory", "memlock"),
        ("provider", "ibverbs-providers"),
        ("peer", "the other side has ended"),
        ("program", "install perftest"),
    ],
)
def test_errors_are_explained(error: str, advice: str) -> None:
    found = perftest.outcome(Finished(1, says.TABLE, says.ERRORS[error]), CLIENT)
    assert found.gbits is None
    assert advice in found.advice
    assert found.words.partition(": ")[2] in " ".join(says.ERRORS[error].split())


def test_a_number_of_a_program_that_failed_is_none() -> None:
    found = perftest.outcome(Finished(1, says.output(), "something new\n"), CLIENT)
    assert found == Outcome(None, "ib_write_bw ended with 1: something new", "run it by hand on both sides")


def test_success_without_a_number_is_none() -> None:
    found = perftest.outcome(Finished(0, says.TABLE, ""), CLIENT)
    assert (found.gbits, found.words) == (None, "ib_write_bw ended with 0: it printed no result")


def test_nobody_came() -> None:
    found = perftest.outcome(Finished(124, "", ""), SERVER)
    assert found.words == "no client connected and was done within 95 s"
    found = perftest.outcome(Finished(124, says.TABLE, ""), CLIENT)
    assert found.words == "ib_write_bw did not end within 35 s"
    assert "path_mtu" in found.advice


def test_a_host_that_cannot_run_it_measures_nothing() -> None:
    found = measured(Scripted(HostError("run", "timeout", 2)))
    assert found.gbits is None
    assert "ENOENT" in found.words


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
def test_a_table_that_is_another_one_has_no_average(text: str) -> None:
    assert perftest.average(text) is None


@quick
@given(st.one_of(values, st.text()))
def test_odd_words_are_no_average(text: str) -> None:
    assert perftest.average(text) is None
    assert perftest.outcome(Finished(0, text, text), CLIENT).gbits is None


# -- where it runs ------------------------------------------------------------------------------


def test_it_runs_on_the_cpus_of_the_node_and_comes_back() -> None:
    before = os.sched_getaffinity(0)
    one = max(before)
    host = Scripted(GOOD)
    measured(host, cpus=[one, 4095])
    assert host.cpus == [{one}]
    assert os.sched_getaffinity(0) == before


def test_cpus_that_it_may_not_use_change_nothing() -> None:
    before = os.sched_getaffinity(0)
    host = Scripted(HostError("run", "timeout", 2))
    measured(host, cpus=[4095])
    assert host.cpus == [before]
    assert os.sched_getaffinity(0) == before


def test_they_come_back_after_an_error() -> None:
    before = os.sched_getaffinity(0)
    measured(Scripted(HostError("run", "timeout", 2)), cpus=[min(before)])
    assert os.sched_getaffinity(0) == before


# -- a program that never ends -----------------------------------------------------------------


def runs(pid: int) -> bool:
    """A dead one may stay as a zombie, where process 1 of a container reaps nobody."""
    try:
        return ") Z " not in pathlib.Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False


@pytest.mark.skipif(not shutil.which("timeout"), reason="there is no timeout(1)")
def test_a_server_that_never_ends_is_ended(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A real process: it takes no notice of SIGTERM, and its whole group has to go."""
    program = tmp_path / "stubborn"
    program.write_text(f"#!/bin/sh\ntrap '' TERM\necho $$ >{tmp_path}/pid\nwhile :; do sleep 0.1; done\n")
    program.chmod(0o755)
    monkeypatch.setattr(perftest, "PROGRAM", str(program))
    monkeypatch.setattr(perftest, "_AROUND", 0)
    # timeout(1) ends after 4 s, and is given 7: on a busy machine a second was not enough.
    monkeypatch.setattr(perftest, "_GRACE", 3)
    found = perftest.measure(Host(), replace(SERVER, seconds=1, wait=0), ())
    assert found.words == "no client connected and was done within 1 s"
    pid = int((tmp_path / "pid").read_text())
    # Killed with it, and maybe not gone in the same moment.
    end = time.monotonic() + 60
    while runs(pid):
        assert time.monotonic() < end
        time.sleep(0.05)


def test_what_ib_write_lat_has_printed_between_soft_roce_devices() -> None:
    found, header = perftest.latency(says.SEEN_LATENCY), perftest.header(says.SEEN_LATENCY)

    assert found == Latency(2, 2000, 549.43, 91961.12, 7673.72, 9804.11, 5933.66, 50178.58, 89221.45)
    assert header is not None
    assert (header.device, header.mtu, [*map(str, header.gids)]) == ("rxe0", 1024, ["10.9.0.2", "10.9.0.1"])
