# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Results that look like a measurement and are none. The fixtures are of iperf3 3.12."""

from __future__ import annotations

import copy
import json
import pathlib
from collections.abc import Callable
from typing import Any

import pytest
from mlnode.host.system import Finished
from mlnode.linux import iperf3
from mlnode.linux.iperf3 import Flow
from mlnode.linux.timeout import limited
from mlnode.model.errors import UnfitError

FILES = pathlib.Path(__file__).parents[5] / "fixtures/iperf3"

FORWARD = Flow("10.9.0.1", "10.9.0.2", 5299, seconds=3, omit=1)
BACKWARD = FORWARD._replace(backward=True)


def text(name: str) -> str:
    return (FILES / f"{name}.json").read_text(encoding="utf-8")


def changed(name: str, change: Callable[[Any], object]) -> Finished:
    document = copy.deepcopy(json.loads(text(name)))
    change(document)
    return Finished(0, json.dumps(document), "")


def problem(done: Finished, flow: Flow = FORWARD) -> str:
    with pytest.raises(UnfitError) as error:
        iperf3.parse(done, flow)
    return str(error.value)


@pytest.mark.parametrize(("name", "flow"), [("forward", FORWARD), ("backward", BACKWARD)])
def test_a_whole_result(name: str, flow: Flow) -> None:
    found = iperf3.parse(Finished(0, text(name), ""), flow)

    assert found.bits / found.seconds == pytest.approx(50e6, rel=0.02)
    assert len(found.rates) == 3
    assert min(found.rates) == pytest.approx(50e6, rel=0.05)
    assert found.retransmits == 0
    assert found.peer_cpu > 0


def test_the_end_of_a_text_that_was_cut_at_any_place() -> None:
    whole = text("forward").rstrip()
    for length in range(1, len(whole), 97):
        assert "damaged" in problem(Finished(0, whole[:length], ""))


def test_no_server_with_an_exit_status_of_0() -> None:
    assert (
        problem(Finished(0, text("refused"), "")) == "iperf3: unable to connect to server: Connection refused"
    )


@pytest.mark.parametrize("rc", [0, 1, 124, -9])
def test_no_result_whatever_the_exit_status(rc: int) -> None:
    assert problem(Finished(rc, " \n", "")) == f"iperf3 ended with {rc} and no result; it said: nothing else"


def test_a_whole_result_with_a_bad_exit_status() -> None:
    assert problem(Finished(1, text("forward"), "oh")) == "iperf3 ended with 1: oh"


def test_a_warning_before_the_result_as_of_3_12() -> None:
    # Where the other side's part of the result came in two packets, and the first one was taken for all of it
    warning = "WARNING:  Size of data read does not correspond to offered length\n"
    assert "it begins with 'WARNING:  Size" in problem(Finished(0, warning + text("forward"), ""))


def of(*path: str | int) -> Callable[[Any], Any]:
    def at(document: Any) -> Any:
        for name in path:
            document = document[name]
        return document

    return at


def put(value: object, *path: str | int) -> Callable[[Any], object]:
    *above, last = path
    return lambda document: of(*above)(document).__setitem__(last, value)


def bits_for_bytes(document: Any) -> None:
    total = document["end"]["sum_received"]
    total["bytes"] *= 8


def rate_in_kilobits(document: Any) -> None:
    document["end"]["sum_received"]["bits_per_second"] /= 1000


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (bits_for_bytes, "bits_per_second is "),
        (rate_in_kilobits, "bits_per_second is "),
        (put(0, "end", "sum_received", "bytes"), "nothing was received"),
        (put("12", "end", "sum_received", "bytes"), "bytes: expected a number from 0 on, got '12'"),
        (put(True, "end", "sum_received", "bytes"), "bytes: expected a number from 0 on, got True"),
        (put(0.5, "end", "sum_received", "end"), "expected a measurement of 3 s, got 0.50 s"),
        (lambda d: d["end"].pop("sum_received"), "its result has no sum_received"),
        (lambda d: d.pop("end"), "its result has no end"),
        (put([], "intervals"), "expected rates for 3 seconds, got 0"),
        (lambda d: d["intervals"].__delitem__(slice(2, None)), "expected rates for 3 seconds, got 1"),
        (put("10.9.0.1", "start", "connected", 0, "remote_host"), "10.9.0.1 was measured to itself"),
        (
            put("10.9.0.3", "start", "connected", 0, "remote_host"),
            "expected 10.9.0.1 -> 10.9.0.2, got 10.9.0.1 -> 10.9.0.3",
        ),
        (
            put("10.8.0.1", "start", "connected", 0, "local_host"),
            "expected 10.9.0.1 -> 10.9.0.2, got 10.8.0.1 -> 10.9.0.2",
        ),
        (put([], "start", "connected"), "expected one connection, got 0"),
        (put("UDP", "start", "test_start", "protocol"), "protocol: expected TCP, got 'UDP'"),
        (put(1, "start", "test_start", "reverse"), "reverse: expected 0, got 1"),
        (put(2, "start", "test_start", "num_streams"), "num_streams: expected 1, got 2"),
        (put(1, "start", "test_start", "duration"), "duration: expected 3, got 1"),
        (put("x", "error"), "iperf3: x"),
    ],
)
def test_what_is_not_this_flow_whole_and_consistent(change: Callable[[Any], object], said: str) -> None:
    assert said in problem(changed("forward", change))


@pytest.mark.parametrize("text", ["[]", "3", "null", '"x"', '{"a": 1, "a": 2}', "[" * 99, "NaN"])
def test_json_that_is_no_result(text: str) -> None:
    assert problem(Finished(0, text, ""))


def test_a_server_names_its_client_and_one_without_says_so() -> None:
    assert iperf3.served(Finished(0, text("served"), "")) == "10.9.0.1"
    assert iperf3.served(Finished(124, text("no_client"), "")) == ""
    with pytest.raises(UnfitError):
        iperf3.served(Finished(127, "", "timeout: failed to run command"))


def test_commands() -> None:
    assert " ".join(BACKWARD.client) == (
        "iperf3 -J -c 10.9.0.2 -B 10.9.0.1 -p 5299 -t 3 -O 1 --connect-timeout 1000 -R"
    )
    assert " ".join(FORWARD.server) == "iperf3 -J -s -1 -B 10.9.0.1 -p 5299"
    assert limited(["x"], 7.25) == ["timeout", "--kill-after=2", "7.2", "x"]
