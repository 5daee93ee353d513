# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fabrics of leaves and spines, in the words of ibnetdiscover --list and iblinkinfo --line."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field

import pytest
from ansible_collections.mlnode.tuning.tests.unit import cases
from mlnode.checks.model import Check, Verdict
from mlnode.checks.subnet import fabric, reports

#: Of NDR as iblinkinfo has it: lanes, and the speed of one
NDR, HALF = "( 4X 106.25 Gbps Active/ LinkUp)", "( 2X 106.25 Gbps Active/ LinkUp)"
DOWN = "( Down/ Polling)"


@dataclass
class Fabric:
    """Cables, each between two ports that are taken as they come."""

    switches: dict[str, int] = field(default_factory=dict)
    hosts: dict[str, int] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)
    ports: dict[int, int] = field(default_factory=dict)

    def end(self, name: str) -> tuple[int, int, str]:
        known = self.switches if name.startswith(("leaf", "spine", "Quantum")) else self.hosts
        guid = known.setdefault(name, len(self.switches) + len(self.hosts) * 0x100 + 1)
        self.ports[guid] = port = self.ports.get(guid, 0) + 1
        return guid, port, name.partition("#")[0]

    def cable(self, one: str, other: str, state: str = NDR) -> None:
        ends = self.end(one), self.end(other)
        for (guid, port, name), (far, at, label) in (ends, ends[::-1]):
            tail = f'0x{far:016x} 1 {at}[ ] "{label}" ( )' if state != DOWN else '            [  ] "" ( )'
            self.lines.append(f'0x{guid:016x} "{name:>30}" 1 {port}[ ] =={state}==> {tail}')

    def nodes(self) -> list[reports.Node]:
        kinds = {"Switch": self.switches, "Ca": self.hosts}
        return reports.nodes(
            "\n".join(
                f'{kind}\t : 0x{guid:016x} ports 64 devid 0xd2f2 vendid 0x2c9 "{name.partition("#")[0]}"'
                for kind, known in kinds.items()
                for name, guid in known.items()
            )
        )

    def checks(self, intended: float | None = None) -> dict[tuple[str, str], Check]:
        checks = fabric.checks(fabric.read("\n".join(self.lines), self.nodes()), intended)
        return {(check.name, check.target): check for check in checks}


@pytest.fixture
def by_rails() -> Fabric:
    """Four nodes with four rails, each rail at its leaf, and two cables from each leaf to both spines."""
    made = Fabric()
    for node in range(1, 5):
        for rail in range(4):
            made.cable(f"leaf{rail}", f"gpu{node} mlx5_{rail}")
    for rail in range(4):
        for spine in ("spine1", "spine2"):
            made.cable(f"leaf{rail}", spine)
            made.cable(f"leaf{rail}", spine)
    return made


def test_a_fabric_by_rails(by_rails: Fabric) -> None:
    found = by_rails.checks()
    assert {key: str(check.verdict) for key, check in found.items()} == {
        ("leaf_rails", "subnet"): "pass", ("uplinks", "subnet"): "pass",
    }  # fmt: skip
    assert found["leaf_rails", "subnet"].found == "4 of 4 leaves serve one rail each"
    assert found["uplinks", "subnet"].found == "leaves: 4, down to up 1:1"


def test_cables_that_were_swapped(by_rails: Fabric) -> None:
    by_rails.cable("leaf0", "gpu5 mlx5_1")
    by_rails.cable("leaf1", "gpu5 mlx5_0")
    found = by_rails.checks()
    for leaf, own, other in (("leaf0", "mlx5_0", "mlx5_1"), ("leaf1", "mlx5_1", "mlx5_0")):
        check = found["leaf_rails", leaf]
        assert check.verdict is Verdict.WARN
        assert check.expected == f"{own} alone"
        assert re.fullmatch(f"4 of {own}, and gpu5 {other} 0x[0-9a-f]{{16}}/[0-9]", check.found)
    assert ("leaf_rails", "leaf2") not in found


def test_a_fabric_whose_leaves_serve_whole_nodes() -> None:
    made = Fabric()
    for node in range(1, 5):
        for rail in range(4):
            made.cable(f"leaf{node % 2}", f"gpu{node} mlx5_{rail}")
        made.cable(f"leaf{node % 2}", "spine1")
    check = made.checks()["leaf_rails", "subnet"]
    assert check.verdict is Verdict.SKIP
    assert check.found == "2 of 2 leaves serve several rails alike: not built by rails"


def test_names_from_the_factory_say_nothing_of_rails(by_rails: Fabric) -> None:
    by_rails.cable("leaf0", "ConnectX7#1")
    check = by_rails.checks()["leaf_rails", "subnet"]
    assert check.verdict is Verdict.SKIP
    assert "the name of a node and a device, which rdma-ndd gives them: 1 (0x" in check.found
    assert check.found.endswith("; the others: 4 of 4 leaves serve one rail each")


#: As cards have them until rdma-ndd names them, and as it does on hosts without a name of their own
FACTORY = (
    "MT4129 ConnectX7   Mellanox Technologies", "MT4123 ConnectX6   Mellanox Technologies",
    "MT25408 ConnectX Mellanox Technologies", "ConnectX7 Mellanox Technologies", "MT4115 ConnectX4",
    "MT41692 BlueField3 integrated ConnectX7", "localhost mlx5_0", "Mellanox ConnectX7", "Broadcom 57608",
    "Intel E810", "Broadcom BCM57608", "broadcom bcm57608", "AMD Pollara400", "Intel E810-C",
    "Chelsio T62100", "mellanox connectx7", "nvidia mt4129", "Broadcom P2100G", "intel x710",
)  # fmt: skip
#: Of the kernel, of old scripts, of rdma_rename, and of a site
DEVICES = (
    "mlx5_0", "mlx4_1", "mthca0", "bnxt_re0", "hfi1_0", "irdma3", "HCA-1", "HCA2", "ibp193s0", "ibp65s0f1",
    "rocep1s0", "roceP1p3s0f0", "ibP2s2", "ibs7", "ibx0c42a1030065f0a2", "iwp3s0", "mlx5_bond_0", "rail0",
    "mlx5_rail12", "rdmap0s6",
)  # fmt: skip


@pytest.mark.parametrize("device", DEVICES)
def test_a_device_in_the_leaf_of_another_rail_is_named(by_rails: Fabric, device: str) -> None:
    by_rails.cable("leaf0", f"gpu9 {device}")
    by_rails.cable("leaf1" if device == "mlx5_0" else "leaf0", f"gpu8 {device}")
    warnings = [check.found for (kind, _leaf), check in by_rails.checks().items() if kind == "leaf_rails"]
    assert f"gpu8 {device} 0x" in warnings[0]


@pytest.mark.parametrize("name", FACTORY[:6] + FACTORY[7:])
def test_one_card_with_a_name_from_the_factory_is_in_no_rail(by_rails: Fabric, name: str) -> None:
    by_rails.cable("leaf0", name)
    check = by_rails.checks()["leaf_rails", "subnet"]
    assert check.verdict is Verdict.SKIP
    assert re.search(r"gives them: 1 \(0x[0-9a-f]{16}/1\)", check.found)


@pytest.mark.parametrize("name", FACTORY)
def test_hosts_with_one_name_take_no_part(by_rails: Fabric, name: str) -> None:
    """A card of each host at each leaf, and one cable in the wrong leaf."""
    for host in range(3):
        for rail in range(4):
            by_rails.cable(f"leaf{rail}", f"{name}#{host}{rail}")
    assert by_rails.checks()["leaf_rails", "subnet"].verdict is Verdict.SKIP
    by_rails.cable("leaf0", "gpu5 mlx5_1")
    warnings = {target: check for (kind, target), check in by_rails.checks().items() if kind == "leaf_rails"}
    assert [*warnings] == ["leaf0"]
    assert re.fullmatch("4 of mlx5_0, and gpu5 mlx5_1 0x[0-9a-f]{16}/1", warnings["leaf0"].found)


def test_two_ports_of_one_card_have_its_name(by_rails: Fabric) -> None:
    """A host has one description for all ports of a card."""
    by_rails.hosts["gpu9 mlx5_0"] = by_rails.hosts["gpu9 mlx5_0#2"] = 0x9900
    by_rails.cable("leaf0", "gpu9 mlx5_0")
    by_rails.cable("leaf0", "gpu9 mlx5_0#2")
    assert by_rails.checks()["leaf_rails", "subnet"].verdict is Verdict.PASS


def leaves_of(*sizes: tuple[int, int]) -> Fabric:
    """Leaves by their number of nodes and of uplinks, spread over two spines."""
    made = Fabric()
    for leaf, (down, up) in enumerate(sizes):
        for node in range(down):
            made.cable(f"leaf{leaf}", f"gpu{leaf}x{node} mlx5_0")
        for cable in range(up):
            made.cable(f"leaf{leaf}", f"spine{1 + cable % 2}")
    return made


def oversubscribed(leaves: int, down: int, up: int) -> Fabric:
    return leaves_of(*[(down, up)] * leaves)


@cases.table
def test_leaves_that_are_alike_have_a_limit_all_the_same(
    down: int, up: int, intended: float | None, verdict: str, expected: str
) -> None:
    found = oversubscribed(4, down, up).checks(intended)
    uplinks = [check for (name, _target), check in found.items() if name == "uplinks"]
    assert {(str(check.verdict), check.expected) for check in uplinks} == {(verdict, expected)}
    assert len(uplinks) == (1 if verdict == "pass" else 4)


def test_a_leaf_is_counted_by_what_its_links_carry_now() -> None:
    """1:1 by cables; one uplink is down and one at half width."""
    made = oversubscribed(1, 4, 2)
    made.cable("leaf0", "spine1", HALF)
    made.cable("leaf0", "spine2", DOWN)
    check = made.checks(1.5)["uplinks", "leaf0"]
    assert check.verdict is Verdict.FAIL
    assert check.found == "1700 Gb/s down, 1062.5 up (1.6:1)"


def test_a_leaf_that_is_both_over_the_limit_and_worse_than_others() -> None:
    made = oversubscribed(4, 4, 4)
    made.lines = [line for line in made.lines if "leaf3" not in line or "spine2" not in line]
    check = made.checks(1.0)["uplinks", "leaf3"]
    assert check.verdict is Verdict.FAIL
    assert check.expected == "1:1, as declared; 1:1, as 3 of 4 leaves have"


def test_a_leaf_without_any_way_up() -> None:
    made = oversubscribed(2, 4, 4)
    made.lines = [line for line in made.lines if "leaf1" not in line or "spine" not in line]
    assert made.checks()["uplinks", "leaf1"].verdict is Verdict.FAIL


def test_nodes_at_spines_do_not_make_them_leaves() -> None:
    made = oversubscribed(4, 4, 4)
    for spine in (1, 2):
        made.cable(f"spine{spine}", f"manager{spine} mlx5_0")
    made.cable("leaf0", "spine1")
    made.cable("leaf0", "spine2")
    switches = fabric.read("\n".join(made.lines), made.nodes())
    assert [leaf.name for leaf in fabric.leaves(switches)] == ["leaf0", "leaf1", "leaf2", "leaf3"]
    assert made.checks()["uplinks", "subnet"].found == (
        "leaves: 4, down to up 0.67:1, 1:1, the highest at leaf1: 1700 Gb/s down, 1700 up (1:1)"
    )


def test_two_switches_between_which_nodes_are_shared_unevenly_are_both_leaves() -> None:
    made = Fabric()
    for node in range(4):
        made.cable("leaf1", f"gpu1{node} mlx5_0")
    for node in range(3):
        made.cable("leaf2", f"gpu2{node} mlx5_0")
    made.cable("leaf1", "leaf2")
    assert {target for name, target in made.checks() if name == "uplinks"} == {"leaf1", "leaf2"}


def test_a_spine_of_three_tiers_with_a_node_is_no_leaf() -> None:
    made = oversubscribed(4, 4, 4)
    for spine in (1, 2):
        for _cable in range(4):
            made.cable(f"spine{spine}", "spine9")
    made.cable("spine1", "manager mlx5_0")
    switches = fabric.read("\n".join(made.lines), made.nodes())
    assert {leaf.name for leaf in fabric.leaves(switches)} == {"leaf0", "leaf1", "leaf2", "leaf3"}


def test_a_leaf_with_less_way_up(by_rails: Fabric) -> None:
    by_rails.lines = [line for line in by_rails.lines if "leaf3" not in line or "spine2" not in line]
    check = by_rails.checks()["uplinks", "leaf3"]
    assert check.verdict is Verdict.WARN
    assert check.found == "1700 Gb/s down, 850 up (2:1)"
    assert check.expected == "1:1, as 3 of 4 leaves have"


def test_a_leaf_with_fewer_nodes_needs_less_way_up(by_rails: Fabric) -> None:
    """As one for storage, with the ratio of the others."""
    for number in range(2):
        by_rails.cable("leaf9", f"storage{number} mlx5_9")
        by_rails.cable("leaf9", f"spine{number + 1}")
    check = by_rails.checks()["uplinks", "subnet"]
    assert check.verdict is Verdict.PASS
    assert "the least up at leaf9: 850 Gb/s down, 850 up (1:1)" in check.found


@cases.table
def test_a_leaf_with_few_uplinks_and_few_nodes(leaves: list[list[int]], worst: list[str], words: str) -> None:
    checks = leaves_of(*[(down, up) for down, up in leaves]).checks()
    uplinks = {target: check for (name, target), check in checks.items() if name == "uplinks"}
    warned = [target for target, check in uplinks.items() if check.verdict is Verdict.WARN]
    assert warned == worst
    assert any(words in f"{check.found}; {check.expected}" for check in uplinks.values())


def test_a_link_at_half_width_counts_as_half(by_rails: Fabric) -> None:
    by_rails.lines = [
        line.replace(NDR, HALF) if "leaf3" in line and "spine2" in line else line for line in by_rails.lines
    ]
    assert by_rails.checks()["uplinks", "leaf3"].found == "1700 Gb/s down, 1275 up (1.33:1)"


#: Each speed and width that infiniband-diags prints (libibmad/dump.c, ibnd_dump_agg_linkspeedext,
#: dump_linkspeedext_compat), and Gb/s; None for one that says nothing
SPEEDS = {
    "4X                2.5 Gbps": 10, "4X                5.0 Gbps": 20, "4X               10.0 Gbps": 40,
    "4X       10.0 Gbps (FDR10)": 40, "4X          14.0625 Gbps": 56.25, "4X         25.78125 Gbps": 103.125,
    "4X             53.125 Gbps": 212.5, "4X             106.25 Gbps": 425, "4X              212.5 Gbps": 850,
    "1X           25.78125 Gbps": 25.78125, "2X           25.78125 Gbps": 51.5625,
    "8X            14.0625 Gbps": 112.5, "12X           14.0625 Gbps": 168.75,
    "4X                     SDR": 10, "4xDDR": 20, "4xQDR": 40, "4xFDR10": 40, "4xFDR": 56, "4xEDR": 100,
    "4xHDR": 200, "2xHDR": 100, "4xNDR": 400, "4X                     XDR": 800,
    "4X          Extended speed": None, "4X       No Extended Speed": None, "4X        undefined (64)": None,
    "undefined (32)        25.78125 Gbps": None, "4X                    ????": None, "4X 0.0 Gbps": None,
    "4X    2.5 Gbps or 5.0 Gbps": None, "4X 106.25 Gbps or undefined (24)": None, "4X EDR/HDR": None,
    "4X 106250 Mbps": None, "4X 400 Gbps total": None,
}  # fmt: skip


@pytest.mark.parametrize("state", SPEEDS)
def test_every_speed_is_understood_or_unknown(state: str) -> None:
    """A fabric of one speed is 1:1, and with a leaf of another one it is not."""
    made = oversubscribed(4, 4, 4)
    made.lines = [line.replace(NDR, f"({state} Active/  LinkUp)") for line in made.lines]
    gbits = SPEEDS[state]
    text = "\n".join(made.lines)
    switches = fabric.read(text, made.nodes())
    rates = {cable.gbits for switch in switches.values() for cable in switch.cables}
    checks = [check for (name, _target), check in made.checks().items() if name == "uplinks"]
    links = reports.links(text)
    if gbits is None:
        assert all(math.isnan(rate) for rate in rates)
        assert [check.verdict.value for check in checks] == ["unknown"] * 4
        assert {check.verdict.value for check in links} == {"unknown"}
        assert len(links) == 4 * 4 + 4 * 4
    else:
        assert rates == {gbits}
        assert [(check.verdict.value, check.found) for check in checks] == [
            ("pass", "leaves: 4, down to up 1:1")
        ]
        assert [check.verdict.value for check in links] == ["pass"]


def test_one_leaf_of_unknown_speed_leaves_the_others_judged() -> None:
    made = oversubscribed(4, 4, 4)
    made.lines = [
        line.replace("106.25 Gbps", "undefined (64)") if "leaf3" in line else line for line in made.lines
    ]
    made.lines = [line for line in made.lines if "leaf1" not in line or "spine2" not in line]
    checks = made.checks()
    assert checks["uplinks", "leaf3"].verdict is Verdict.UNKNOWN
    assert checks["uplinks", "leaf1"].verdict is Verdict.WARN
    assert ("uplinks", "leaf0") not in checks


@cases.table
def test_leaves_without_a_majority_are_judged_by_the_others(
    leaves: list[list[int]], worst: list[str], words: str
) -> None:
    checks = leaves_of(*[(down, up) for down, up in leaves]).checks()
    uplinks = {target: check for (name, target), check in checks.items() if name == "uplinks"}
    assert [*uplinks] == (worst or ["subnet"])
    assert {check.verdict.value for check in uplinks.values()} == {"warn" if worst else "pass"}
    assert all(words in f"{check.found}; {check.expected}" for check in uplinks.values())


def test_the_worst_leaf_is_shown_beside_others() -> None:
    made = leaves_of((4, 8), (5, 8), (6, 8))
    made.cable("leaf0", "spine1")
    made.cable("leaf0", "spine1")
    uplinks = {target: check for (name, target), check in made.checks().items() if name == "uplinks"}
    assert {target: check.verdict.value for target, check in uplinks.items()} == {
        "leaf0": "warn", "subnet": "skip",
    }  # fmt: skip
    assert "the highest at leaf2: 2550 Gb/s down, 3400 up (0.75:1)" in uplinks["subnet"].found


@cases.table
def test_a_silent_port_may_lead_to_a_node_or_up(
    down: int, up: int, silent: int, intended: float | None, verdict: str
) -> None:
    made = oversubscribed(4, 4, 4)
    for kind, number in (("gpu9", down), ("spine1", up)):
        for end in range(number):
            made.cable("leaf9", f"{kind}{end} mlx5_0" if kind == "gpu9" else kind)
    for _port in range(silent):
        guid, port, name = made.end("leaf9")
        made.lines.append(f'0x{guid:016x} "{name:>30}" 1 {port}[ ] =={NDR}==>      "Port not available"')
    uplinks = {target: check for (name, target), check in made.checks(intended).items() if name == "uplinks"}
    assert [check.verdict.value for check in uplinks.values()] == [verdict]
    assert [*uplinks] == (["subnet"] if verdict == "pass" else ["leaf9"])


def test_a_rate_that_is_not_understood_is_not_0(by_rails: Fabric) -> None:
    state = "( 4X some speed Active/ LinkUp)"
    by_rails.cable("leaf0", "spine1", state)
    checks = by_rails.checks()
    assert [key for key, check in checks.items() if check.name == "uplinks"] == [("uplinks", "leaf0")]
    assert checks["uplinks", "leaf0"].verdict is Verdict.UNKNOWN
    assert state in checks["uplinks", "leaf0"].found


def test_cables_that_are_spread_unevenly(by_rails: Fabric) -> None:
    for rail in range(4):
        by_rails.cable(f"leaf{rail}", "spine1")
        by_rails.cable(f"leaf{rail}", "spine1" if rail == 2 else "spine2")
    found = by_rails.checks()
    assert [key for key, check in found.items() if check.verdict is Verdict.WARN] == [("uplinks", "leaf2")]
    assert found["uplinks", "leaf2"].found.endswith("; 4 to spine1, 2 to spine2")


def test_one_switch_has_no_way_up() -> None:
    made = Fabric()
    made.cable("leaf1", "gpu1 mlx5_0")
    made.cable("leaf1", "gpu2 mlx5_0", DOWN)
    found = made.checks()
    assert found["uplinks", "subnet"].found == "leaves: 1, and no switch above"
    assert found["leaf_rails", "subnet"].verdict is Verdict.SKIP


def test_switches_of_one_name_are_two() -> None:
    made = Fabric()
    for number in range(2):
        made.cable(f"Quantum#{number}", f"gpu{number} mlx5_0")
        made.cable(f"Quantum#{number}", "spine1")
    assert made.checks()["uplinks", "subnet"].found == "leaves: 2, down to up 1:1"


# -- SHARP ---------------------------------------------------------------------------------


@cases.table
def test_the_manager_of_aggregation_nodes(by_rails: Fabric, name: str, verdict: str, words: str) -> None:
    by_rails.cable("leaf0", fabric.AGGREGATION_NODE)
    assert ("leaf_rails", "leaf0") not in by_rails.checks(), "it is no node's"
    record = f"ServiceRecord dump:\n\t\tServiceID...............0x1\n\t\tServiceName.............{name}\n"
    [check] = fabric.sharp(record if name else "", by_rails.nodes())
    found = f"aggregation nodes: 1; aggregation manager: {words}"
    assert (str(check.verdict), check.found) == (verdict, found)
