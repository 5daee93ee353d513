# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import copy
import errno
import json
import pathlib
from collections.abc import Sequence
from typing import Any

import pytest
from ansible_collections.mlnode.tuning.tests.unit import cases
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine
from mlnode.host.system import Finished
from mlnode.linux import lldp
from mlnode.linux.lldp import Neighbour
from mlnode.model.errors import HostError

#: What lldpctl 1.0.16 printed of two lldpd in network namespaces, joined by a pair of veth
CAPTURED = json.loads((pathlib.Path(__file__).parents[5] / "fixtures/lldp.json").read_text())


class LldpMachine(Machine):
    """answer: what lldpctl prints; None where it is not installed."""

    answer: str | None = json.dumps(CAPTURED)

    def run(self, command: Sequence[str], seconds: float = 60) -> Finished:
        if command[0] != lldp.TOOL:
            return super().run(command, seconds)
        if self.answer is None:
            raise HostError("run", lldp.TOOL, errno.ENOENT)
        return Finished(0, self.answer, "")


@pytest.fixture
def node(tmp_path: pathlib.Path) -> LldpMachine:
    return LldpMachine(str(tmp_path / "node"))


def test_a_neighbour(node: LldpMachine) -> None:
    assert lldp.neighbours(node) == {"rail0": Neighbour("leaf0", "swp3")}


def changed(**port: Any) -> str:
    document = copy.deepcopy(CAPTURED)
    document["lldp"][0]["interface"][0]["port"][0].update(port)
    return json.dumps(document)


@cases.table
def test_the_name_of_the_port(node: LldpMachine, port: dict[str, Any], name: str) -> None:
    node.answer = changed(**port)
    assert lldp.neighbours(node)["rail0"].port == name


def announced(name: str, port: str, *enabled: str) -> dict[str, Any]:
    """A neighbour at rail0."""
    capabilities = [{"type": kind, "enabled": kind in enabled} for kind in ("Bridge", "Router", "Station")]
    chassis = {
        "id": [{"type": "mac", "value": "00:01"}],
        "name": [{"value": name}],
        "capability": capabilities,
    }
    ports = [{"id": [{"type": "local", "value": port}], "descr": [{"value": "gpu001 rail0"}]}]
    return {"name": "rail0", "via": "LLDP", "chassis": [chassis], "port": ports}


@cases.table
def test_several_neighbours_at_one_port(
    node: LldpMachine, several: list[list[str]], switch: str, also: list[str]
) -> None:
    interfaces = [announced(*words) for words in several]
    for sections in ([{"interface": interfaces}], [{"interface": [each]} for each in interfaces]):
        node.forget()
        node.answer = json.dumps({"lldp": sections})
        assert lldp.neighbours(node)["rail0"] == Neighbour(switch, f"etp-{switch}", tuple(also))


@pytest.mark.parametrize("answer", ['{"lldp": [{}]}', '{"lldp": [{"interface": []}]}'])
def test_no_neighbour(node: LldpMachine, answer: str) -> None:
    node.answer = answer
    assert lldp.neighbours(node) == {}


@cases.table
def test_an_answer_that_is_none(node: LldpMachine, answer: str) -> None:
    node.answer = answer
    with pytest.raises(HostError, match="understand lldpctl"):
        lldp.neighbours(node)


def test_a_node_without_lldpd(node: LldpMachine) -> None:
    node.answer = None
    with pytest.raises(HostError, match="ENOENT"):
        lldp.neighbours(node)


def test_a_name_from_the_wire_is_one_printable_line(node: LldpMachine) -> None:
    node.answer = json.dumps({"lldp": [{"interface": [announced("leaf\x1b[2J\n0", "swp\u202e1", "Bridge")]}]})
    assert lldp.neighbours(node)["rail0"] == Neighbour("leaf\\x1b[2J\\n0", "swp\\u202e1")


@pytest.mark.parametrize("answer", ["[" * 100_000, '{"lldp": ' * 50, '{"lldp": [], "lldp": []}'])
def test_an_answer_that_no_tool_writes_is_refused(node: LldpMachine, answer: str) -> None:
    node.answer = answer
    with pytest.raises(HostError, match="understand lldpctl"):
        lldp.neighbours(node)
