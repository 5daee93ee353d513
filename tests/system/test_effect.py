# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Effects on four network namespaces between which iperf3 measures, on a machine that is kept busy. Both
states of a node are the same, and each effect that is found is false. No packet leaves the namespaces.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import pathlib
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jsonschema
import pytest
from ansible_collections.mlnode.tuning.plugins.plugin_utils.effect import interval
from ansible_collections.mlnode.tuning.plugins.plugin_utils.effect.interval import Effect
from ansible_collections.mlnode.tuning.tests.system import namespaces
from ansible_collections.mlnode.tuning.tests.system.namespaces import ROOT, run
from ansible_collections.mlnode.tuning.tests.unit import effect_site

pytestmark = [pytest.mark.system, pytest.mark.long, namespaces.needs_root]

#: Mbit/s of a node, so little that a busy machine with two cores carries it for all of them
RATE = 40

#: Effects that are measured, and how many of them at the same time. If 5 of 100 are false, more than 3 of 20
#: are with a chance of 1.6 %.
EFFECTS, AT_ONCE = 20, 4
FALSE = 3

PORT = "18600"

#: Takes a core for some seconds, and pauses for as long
BURNS = """
import time
while True:
    end = time.time() + {0}
    while time.time() < end:
        pass
    time.sleep({0})
"""


class Net(namespaces.Net):
    """node01 to node04 at 10.9.0.1 to 10.9.0.4."""

    def __init__(self, name: str) -> None:
        super().__init__(f"effect{name}")
        self.nodes = [f"node{number:02}" for number in range(1, 5)]

    def make(self) -> None:
        self.switch(1500, self.nodes)
        for name in self.nodes:
            shape = f"qdisc add dev eth0 root tbf rate {RATE}mbit burst 32k limit 100k"
            run("tc", "-n", self.prefix + name, *shape.split())

    @property
    def addresses(self) -> dict[str, str]:
        return {name: f"10.9.0.{number}" for number, name in enumerate(self.nodes, 1)}

    def measured(self, name: str, peer: str, *way: str) -> float | None:
        """Mbit/s that arrive, or None for the reason that iperf3 has printed."""
        words = ["iperf3", "-J", "-c", self.addresses[peer], "-p", PORT, "-t", "1", *way]
        inside = ["ip", "netns", "exec", self.prefix + name, *words]
        done = subprocess.run(inside, check=False, capture_output=True, text=True, timeout=60)
        with contextlib.suppress(ValueError, KeyError):
            return float(json.loads(done.stdout)["end"]["sum_received"]["bits_per_second"]) / 1e6
        return None

    @contextlib.contextmanager
    def serving(self, *names: str) -> Iterator[None]:
        with contextlib.ExitStack() as stack:
            for name in names:
                words = ["iperf3", "-s", "-p", PORT]
                command = ["ip", "netns", "exec", self.prefix + name, *words]
                server = stack.enter_context(subprocess.Popen(command, stdout=subprocess.DEVNULL))
                stack.callback(server.kill)
            time.sleep(1)
            yield


@contextlib.contextmanager
def busy() -> Iterator[None]:
    """As many processes as there are cores, which pause now and then, each in its own time."""
    with contextlib.ExitStack() as stack:
        for number in range(os.cpu_count() or 1):
            command = [sys.executable, "-c", BURNS.format(3 + 2.7 * number)]
            stack.callback(stack.enter_context(subprocess.Popen(command)).kill)
        yield


def unchanged(number: int) -> Effect | None:
    """A run as of effect.yml, over two pairs, in states that are the same."""
    net = Net(str(number))
    try:
        net.make()
        with net.serving("node02", "node04"), ThreadPoolExecutor(2) as threads:
            return _phases(net, threads)
    finally:
        net.remove()


def _phases(net: Net, threads: ThreadPoolExecutor) -> Effect | None:
    states = interval.order(6)
    series: dict[str, list[float | None]] = {"12": [], "34": []}
    found = None
    for number in range(len(states)):
        ways = [
            [*threads.map(net.measured, ("node01", "node03"), ("node02", "node04"), *more)]
            for more in ((), (("-R", "-R"),))
        ]
        for mine, forward, backward in zip(series.values(), *ways):
            mine.append(math.sqrt(forward * backward) if forward and backward else None)
        if number % interval.BLOCK == interval.BLOCK - 1:
            found = interval.estimate(series, states[: number + 1], 6)
            if found and found.is_decided(0.01):
                break
    return found


@pytest.fixture(scope="module", autouse=True)
def iperf3() -> None:
    namespaces.need("iperf3", "iperf3")


def test_of_20_effects_of_nothing_19_are_none(capsys: pytest.CaptureFixture[str]) -> None:
    with busy(), ThreadPoolExecutor(AT_ONCE) as threads:
        found = [*threads.map(unchanged, range(EFFECTS))]

    with capsys.disabled():
        for one in found:
            print(f"  {interval.words(one, 6, 0.01)}")
    assert None not in found
    assert sum(one.is_certain for one in found if one) <= FALSE


# -- the playbook ------------------------------------------------------------------------------------


@pytest.fixture
def net() -> Iterator[Net]:
    made = Net("")
    try:
        made.make()
        yield made
    finally:
        made.remove()


def play(net: Net, folder: pathlib.Path, **given: Any) -> tuple[int, str, Mapping[str, Any]]:
    """effect.yml with the namespaces as nodes, whose states are files."""
    hosts = {
        name: {
            "campaign_addresses": [address],
            "ansible_shell_executable": f"ip netns exec {net.prefix}{name} /bin/sh",
        }
        for name, address in net.addresses.items()
    }
    site = effect_site.bare(folder, hosts, "declared")
    usual = {
        "campaign_results": str(folder / "out"), "campaign_allow": ["busy"], "campaign_duration": 2,
        "campaign_streams": 1, "campaign_lead": 20, "effect_settle": 0,
    }  # fmt: skip
    status, said = site.play(playbook="playbooks/effect.yml", **usual, **given)
    [path] = (folder / "out").glob("effect-*.json")
    document = json.loads(path.read_text(encoding="utf-8"))
    schema = json.loads((ROOT / "docs/schema/effect.schema.json").read_text(encoding="utf-8"))
    jsonschema.validate(document, schema)
    return status, " ".join(said.split()), document


def test_nothing_changed_is_no_difference(net: Net, tmp_path: pathlib.Path) -> None:
    status, said, document = play(net, tmp_path, effect_blocks=3)

    assert status == 0, said
    [result] = document["results"]
    assert result["pairs_measured"] == 2
    # In 5 of 100 runs it is not: the interval has to be near to 0 all the same.
    assert abs(result["effect"]["value_percent"]) < 5, said
    assert effect_site.states(tmp_path, net.nodes) == {"declared"}


def test_a_link_that_goes_down_ends_it_with_its_phase(net: Net, tmp_path: pathlib.Path) -> None:
    ended = threading.Event()

    def cut() -> None:
        """As soon as the second phase has reached its state"""
        state = tmp_path / "node04/state"
        was = ["declared", "reverted", "declared"]
        while was and not ended.wait(0.2):
            if state.exists() and state.read_text(encoding="utf-8") == was[0]:
                was.pop(0)
        net.ip("node04", "link set eth0 down")

    with ThreadPoolExecutor(1) as threads:
        cutting = threads.submit(cut)
        status, said, document = play(net, tmp_path)
        ended.set()
        cutting.result()

    assert status == 2, said
    assert "phase 2 of 24 (B) was lost; " in said, said
    assert "node04" in document["effect"]["stopped"]
    assert document["effect"]["order"] == "AB"
    assert document["results"][0]["verdict"] == "unknown"
    assert document["results"][0]["lost"] == {"A": 0, "B": 1}
    assert "All nodes are put back to their state before the run." in said
    assert effect_site.states(tmp_path, net.nodes) == {"declared"}
