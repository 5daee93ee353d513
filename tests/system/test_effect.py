# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""effect.yml on four network namespaces between which iperf3 measures. Both states of a node are the same. No
packet leaves the namespaces."""

from __future__ import annotations

import json
import pathlib
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jsonschema
import pytest
from ansible_collections.mlnode.tuning.tests.system import namespaces
from ansible_collections.mlnode.tuning.tests.system.namespaces import ROOT
from ansible_collections.mlnode.tuning.tests.system.noise import Net
from ansible_collections.mlnode.tuning.tests.unit import effect_site

pytestmark = [pytest.mark.system, pytest.mark.long, namespaces.needs_root]


@pytest.fixture(scope="module", autouse=True)
def iperf3() -> None:
    namespaces.need("iperf3", "iperf3")


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
