# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""All checks together, on whole nodes: healthy ones, a sick one, and one from which each file is taken."""

from __future__ import annotations

import errno
import functools
import os
import pathlib
import re

import pytest
from ansible_collections.mlnode.tuning.tests.fixtures import fabric, machines
from ansible_collections.mlnode.tuning.tests.fixtures.build import tree
from ansible_collections.mlnode.tuning.tests.unit import cases
from ansible_collections.mlnode.tuning.tests.unit.effort import some
from ansible_collections.mlnode.tuning.tests.unit.rail_machine import CapturedWithIp
from mlnode.checks import expect
from mlnode.checks.model import Check, Verdict, summary
from mlnode.checks.rdma import run
from mlnode.host.host import Host
from mlnode.model import schema
from mlnode.model.errors import DeclarationError, HostError

HEALTHY = [name for name in fabric.FABRIC if name != "sick"]


@functools.lru_cache(maxsize=None)
def found(name: str) -> dict[tuple[str, str], Check]:
    return checked(CapturedWithIp(tree(name), run.MOUNTS), fabric.EXPECT[name])


def checked(host: Host, declared: dict[str, object]) -> dict[tuple[str, str], Check]:
    checks = run.all_checks(host, expect.parse(declared))
    keyed = {(check.name, check.target): check for check in checks}
    assert len(keyed) == len(checks), "two findings of one check about one thing"
    return keyed


def bad(checks: dict[tuple[str, str], Check]) -> dict[tuple[str, str], str]:
    wrong = (Verdict.FAIL, Verdict.WARN, Verdict.PENDING, Verdict.UNKNOWN)
    return {key: str(check.verdict) for key, check in checks.items() if check.verdict in wrong}


# -- whole nodes -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", HEALTHY)
def test_on_a_healthy_node_everything_passes_or_does_not_apply(name: str) -> None:
    assert bad(found(name)) == {}


@pytest.mark.parametrize(("name", "least"), [("ndr-ib", 250), ("hdr-ib", 250), ("roce8", 250), ("efa", 50)])
def test_what_applies_is_really_judged(name: str, least: int) -> None:
    assert summary(found(name).values())["pass"] >= least
    for check in found(name).values():
        assert check.found, check
        assert check.verdict is Verdict.SKIP or check.source, check


#: With the sample of the sick node
PAGE = pathlib.Path(__file__).parents[7] / "docs/checks/rdma_check.md"

#: What the docstring of fabric.sick() says is wrong, and all that follows from it
PLANTED = {
    ("rate", "mlx5_3/1"): ("fail", "2X NDR", "cable"),
    ("width", "mlx5_3/1"): ("fail", "2X", "lanes"),
    ("state", "mlx5_4/1"): ("warn", "2: INIT", "subnet manager"),
    ("subnet", "mlx5_4/1"): ("fail", "lid 0x0", "subnet manager"),
    ("degradation", "mlx5_5/1"): ("fail", "symbol_error +4000 to 4003 in 60.0 min", "cable"),
    ("numa", "mlx5_6"): ("fail", "0", "socket"),
    ("numa_locality", "mlx5_6"): ("fail", "NUMA node 0", "slot"),
    ("acs", "PCIe bridge 0000:bf:00.0"): ("warn", "0x001d", "pci=disable_acs_redir"),
    ("gid", "mlx5_11/1"): ("fail", "IB/RoCE v1", "RoCE v2"),
    ("memlock", "slurmd"): ("fail", "8388608", "LimitMEMLOCK=infinity"),
    ("memlock_default", "systemd"): ("warn", "8 MiB", "DefaultLimitMEMLOCK"),
}


def test_on_a_sick_node_exactly_the_planted_faults_are_found() -> None:
    checks = found("sick")
    assert bad(checks) == {key: verdict for key, (verdict, _found, _advice) in PLANTED.items()}
    for key, (_verdict, words, advice) in PLANTED.items():
        assert words in checks[key].found
        assert advice in checks[key].advice
    counts = summary(checks.values())
    page = PAGE.read_text(encoding="utf-8")
    assert f"rdma_check: {counts['fail']} of {len(checks)} checks are not as expected:" in page
    assert f"`{{{', '.join(f'{word}: {counts[word]}' for word in sorted(counts))}}}`" in page


def test_without_a_declaration_the_rails_are_judged() -> None:
    checks = checked(Host(tree("ndr-ib"), run.MOUNTS), {})
    assert bad(checks) == {}
    assert {target for name, target in checks if name == "state"} == {f"mlx5_{one}/1" for one in fabric.RAILS}


@pytest.mark.parametrize("name", machines.MACHINES)
def test_every_machine_can_be_looked_at(name: str) -> None:
    for declared in ({}, {"all": {"mtu": 4096}}):
        for check in checked(Host(tree(name), run.MOUNTS), declared).values():
            assert "Traceback" not in check.found
    assert not any(
        check.verdict is Verdict.PASS and check.name in run.rdma_counters.NAMES
        for check in checked(Host(tree(name), run.MOUNTS), {}).values()
    )


def test_a_missing_card_is_named_by_its_slot() -> None:
    place = Host(tree("ndr-ib"), run.MOUNTS).real("/sys/class/infiniband/mlx5_7")[len(tree("ndr-ib")) :]
    checks = checked(Hiding(tree("ndr-ib"), place), fabric.EXPECT["ndr-ib"])
    missing = checks["inventory", "mlx5_7"]
    assert missing.verdict is Verdict.FAIL
    assert "0000:c0:00.0" in missing.advice
    assert checks["rails", "node"].verdict is Verdict.FAIL


# -- every file in turn ----------------------------------------------------------------------


class Hiding(CapturedWithIp):
    """A captured tree without one file or folder, under whatever name it is asked for, and with all that were
    asked for noted."""

    def __init__(self, root: str, hidden: str = "") -> None:
        super().__init__(root, run.MOUNTS)
        self.hidden = hidden
        self.asked: set[str] = set()

    def read_bytes(self, path: str) -> bytes:
        self._note(path, "read")
        return super().read_bytes(path)

    def names(self, path: str) -> list[str]:
        if self._is_hidden(path):
            return []
        return [name for name in super().names(path) if not self._is_hidden(f"{path}/{name}")]

    def exists(self, path: str) -> bool:
        self.asked.add(self._inside(path))
        return not self._is_hidden(path) and super().exists(path)

    def link_target(self, path: str) -> str:
        self._note(path, "read link")
        return super().link_target(path)

    def _inside(self, path: str) -> str:
        return self.real(path)[len(self.root) :]

    def _is_hidden(self, path: str) -> bool:
        inside = self._inside(path)
        return bool(self.hidden) and (inside == self.hidden or inside.startswith(f"{self.hidden}/"))

    def _note(self, path: str, action: str) -> None:
        self.asked.add(self._inside(path))
        if self._is_hidden(path):
            raise HostError(action, path, errno.ENOENT)


#: What can be declared of a whole card
ALL_OF_IT = {
    "firmware": "28.43.1014",
    "board_id": "MT_0000000838",
    "hca_type": "MT4129",
    "slot": "0000:18:00.0",
    "numa": 0,
}

#: One rail of each kind, everything declared that can be
ONE = {
    "ndr-ib": {
        "all": {"netns": "shared"},
        "devices": {
            "mlx5_0/1": {
                "link_layer": "InfiniBand",
                "rate": "NDR",
                "width": "4X",
                "mtu": 4096,
                "netdev": "ibp24s0",
                "netdev_mtu": 4092,
                "pkey": "0xffff",
            },
            "mlx5_0": ALL_OF_IT,
        },
    },
    "roce8": {
        "all": {"netns": "shared"},
        "devices": {
            "mlx5_0": {
                **ALL_OF_IT,
                "link_layer": "Ethernet",
                "rate": 400,
                "mtu": 4096,
                "netdev": "enp24s0np0",
                "netdev_mtu": 9000,
                "qos": {"trust": "dscp", "dscp": {26: 3}, "pfc": [3], "ecn": [3], "cnp": {"dscp": 48}},
            },
            "mlx5_3": {},
        },
    },
}

#: What of a node is about its first rail, or about all of them
MINE = re.compile(
    r"0000:18:00\.0/|/enp24s0np0|^/(ethtool|dcb)/|^/dev/|^/var/|^/proc/(2345|driver|uptime|sys/kernel/random)|"
    r"^/sys/(module|kernel/iommu_groups)"
)

#: Files without which everything still passes, and rightly
HARMLESS = re.compile(
    # GIDs that are not the one that makes the port usable
    r"/gids/[0124]$|/gid_attrs/(types|ndevs)/[012]$|"
    # counters that are told and have no limit
    r"/hw_counters/(np_cnp_sent|rp_cnp_handled|out_of_sequence|roce_slow_restart)$|"
    # what only tells the model of a card, and which interface it is of a device with several
    r"/(vendor|device)$|/net/[^/]+/(address|dev_port|phys_port_name)$|"
    # of IPoIB
    r"/ibp24s0/speed$"
)


@pytest.mark.robustness
@pytest.mark.parametrize("name", ONE)
def test_no_check_passes_without_the_file_it_is_about(name: str) -> None:
    whole = Hiding(tree(name))
    before = checked(whole, ONE[name])
    passed = {key for key, check in before.items() if check.verdict is Verdict.PASS}
    mine = sorted(path for path in whole.asked if MINE.search(path) and os.path.isfile(whole.root + path))
    assert len(mine) > 50
    kept = []
    for path in some(mine, 10):
        after = checked(Hiding(whole.root, path), ONE[name])
        still = {key for key, check in after.items() if check.verdict is Verdict.PASS}
        assert still <= passed, f"without {path}, {still - passed} pass"
        if still == passed:
            kept.append(path)
    assert [path for path in kept if not HARMLESS.search(path)] == []


# -- names of checks -------------------------------------------------------------------------


def test_every_finding_has_a_known_name() -> None:
    for name in fabric.FABRIC:
        assert {check.name for check in found(name).values()} <= {*run.NAMES}
    assert len(set(run.NAMES)) == len(run.NAMES)


def test_checks_can_be_left_out() -> None:
    host = Host(tree("sick"), run.MOUNTS)
    declared = expect.parse(fabric.EXPECT["sick"])
    names = {check.name for check in run.all_checks(host, declared, ["gid", "acs", *run.memlock.NAMES])}
    assert names.isdisjoint({"gid", "acs", "memlock", "memlock_default"})
    assert {"rdma_cm", "iommu", "state"} <= names


@cases.table
def test_a_check_that_does_not_exist_cannot_be_left_out(name: str, words: str) -> None:
    schema.refuse_others("skip", run.NAMES, "check", run.NAMES)
    with pytest.raises(DeclarationError) as caught:
        schema.refuse_others("skip", ["gid", name], "check", run.NAMES)
    assert words in str(caught.value)
