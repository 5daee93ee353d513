# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What ping prints, as captured from iputils 20221126 unless another one is named."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest
from ansible_collections.mlnode.tuning.tests.unit import cases
from ansible_collections.mlnode.tuning.tests.unit.path_machine import PathMachine
from mlnode.host.system import Finished
from mlnode.linux.ping import Echoes, Reply, Way, ask, count
from mlnode.model.errors import HostError

FOUR = Way("10.9.0.2", "", "", 3, 1.0)
SIX = Way("fd00:9::2", "", "", 3, 1.0)

ANSWER = """\
PING 10.9.0.2 (10.9.0.2) 8972(9000) bytes of data.
8980 bytes from 10.9.0.2: icmp_seq=1 ttl=64 time=0.092 ms

--- 10.9.0.2 ping statistics ---
1 packets transmitted, 1 received, 0% packet loss, time 0ms
rtt min/avg/max/mdev = 0.092/0.092/0.092/0.000 ms
"""
ANSWER6 = """\
PING fd00:9::2(fd00:9::2) 8952 data bytes
8960 bytes from fd00:9::2: icmp_seq=1 ttl=64 time=0.159 ms

--- fd00:9::2 ping statistics ---
1 packets transmitted, 1 received, 0% packet loss, time 0ms
rtt min/avg/max/mdev = 0.159/0.159/0.159/0.000 ms
"""
#: Printed where an answer is cut short (ping_common.c: gather_statistics)
CUT = ANSWER.replace("8980 bytes from 10.9.0.2:", "72 bytes from 10.9.0.2:").replace(" time=", " (truncated)")


def lost(line: str = "") -> str:
    return f"""\
PING 10.9.0.2 (10.9.0.2) 8972(9000) bytes of data.
{line}
--- 10.9.0.2 ping statistics ---
1 packets transmitted, 0 received, +1 errors, 100% packet loss, time 0ms

"""


@pytest.fixture
def machine(tmp_path: pathlib.Path) -> PathMachine:
    return PathMachine(str(tmp_path))


@pytest.mark.parametrize(
    ("way", "done", "reply"),
    [
        (FOUR, Finished(0, ANSWER, ""), Reply(True)),
        (SIX, Finished(0, ANSWER6, ""), Reply(True)),
        (FOUR, Finished(0, CUT, ""), Reply(False)),
        (FOUR, Finished(1, lost(), ""), Reply(False)),
        (FOUR, Finished(1, lost(), "ping: local error: message too long, mtu=1500\n"), Reply(False, 1500)),
        (  # 20180629
            FOUR,
            Finished(1, lost(), "ping: local error: Message too long, mtu=1500\n"),
            Reply(False, 1500),
        ),
        (SIX, Finished(1, lost(), "ping: local error: message too long, mtu: 1500\n"), Reply(False, 1500)),
        (
            FOUR,
            Finished(1, lost("From 10.8.0.1 icmp_seq=1 Frag needed and DF set (mtu = 1400)\n"), ""),
            Reply(False, 1400, "10.8.0.1", "Frag needed and DF set (mtu = 1400)"),
        ),
        (
            SIX,
            Finished(1, lost("From fd00:8::1 icmp_seq=1 Packet too big: mtu=1400\n"), ""),
            Reply(False, 1400, "fd00:8::1", "Packet too big: mtu=1400"),
        ),
        (
            FOUR,
            Finished(1, lost("From 10.9.0.1 icmp_seq=1 Destination Host Unreachable\n"), ""),
            Reply(False, 0, "10.9.0.1", "Destination Host Unreachable"),
        ),
        (  # of a router that is sent to through a raw socket (ping.c: ping4_parse_reply)
            FOUR,
            Finished(1, lost("From 10.8.0.1: icmp_seq=1 Packet filtered\n"), ""),
            Reply(False, 0, "10.8.0.1", "Packet filtered"),
        ),
        (  # ping_common.c: pinger
            FOUR,
            Finished(1, lost(), "ping: sendmsg: Operation not permitted\n"),
            Reply(False, 0, "this node", "Operation not permitted"),
        ),
    ],
)
def test_what_it_prints(machine: PathMachine, way: Way, done: Finished, reply: Reply) -> None:
    machine.says["ping"] = done

    assert ask(machine, way, 9000) == reply
    assert reply.is_local == ("local error" in done.err)


@cases.table
def test_what_is_no_verdict_is_an_error(
    machine: PathMachine, done: list[Any], words: str, absent: bool
) -> None:
    machine.says["ping"] = Finished(*done)

    with pytest.raises(HostError, match=words) as raised:
        ask(machine, FOUR, 9000)
    assert raised.value.absent is absent


def test_size_and_time_and_where_from(machine: PathMachine) -> None:
    way = Way("fe80::7", "rail0", "fe80::1", 3, 0.5)

    ask(machine, way, 9000)

    assert machine.commands == [
        [
            *("ping", "-n", "-M", "do", "-c", "1", "-i", "0.5", "-w", "2", "-s", "8952"),
            *("-I", "rail0", "-I", "fe80::1", "--", "fe80::7"),
        ]
    ]


# -- bursts ----------------------------------------------------------------------------------

#: Of ping -q -c 100 -i 0.01 -W 1 towards a namespace that drops 3 %
BURST = """\
PING 10.9.0.2 (10.9.0.2) 8972(9000) bytes of data.

--- 10.9.0.2 ping statistics ---
{sent} packets transmitted, {received} received, 3% packet loss, time 1003ms
rtt min/avg/max/mdev = 0.033/0.058/0.184/0.019 ms
"""


@cases.table
def test_what_a_burst_has_lost(
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
    sent: int,
    received: int,
    status: int,
    found: list[Any],
) -> None:
    machine = PathMachine(str(tmp_path))
    commands: list[list[str]] = []

    def run(command: list[str], seconds: float = 60) -> Finished:
        commands.append(command)
        return Finished(status, BURST.format(sent=sent, received=received), "")

    monkeypatch.setattr(machine, "run", run)

    assert count(machine, FOUR, 9000, 100, 0.01) == Echoes(*found)
    assert commands[0][:4] == ["timeout", "--signal=INT", "--kill-after=10", "3.00"]
    assert " ".join(commands[0][4:]) == "ping -n -M do -q -c 100 -i 0.01 -W 1 -s 8972 -- 10.9.0.2"


@pytest.mark.parametrize(("seconds", "most"), [(0.4, "3.00"), (5.0, "5.00")])
def test_a_burst_takes_the_time_that_is_left(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, seconds: float, most: str
) -> None:
    machine = PathMachine(str(tmp_path))
    ended: list[str] = []

    def run(command: list[str], _seconds: float) -> Finished:
        ended.append(command[3])
        return Finished(0, BURST.format(sent=100, received=100), "")

    monkeypatch.setattr(machine, "run", run)

    count(machine, FOUR, 9000, 100, 0.01, seconds)
    assert ended == [most]


def test_a_burst_that_cannot_be_sent(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = PathMachine(str(tmp_path))
    monkeypatch.setattr(
        machine, "run", lambda *_words: Finished(2, "", "ping: connect: Network is unreachable\n")
    )

    with pytest.raises(HostError, match="Network is unreachable"):
        count(machine, FOUR, 9000, 100, 0.01)
