# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the profiles declare, on machines."""

from __future__ import annotations

import pathlib
import re
from typing import Any

import pytest
from ansible_collections.mlnode.tuning.tests.fixtures.build import tree
from ansible_collections.mlnode.tuning.tests.fixtures.machines import MACHINES
from ansible_collections.mlnode.tuning.tests.unit import cases, door
from ansible_collections.mlnode.tuning.tests.unit.machine import captured
from ansible_collections.mlnode.tuning.tests.unit.nic_machine import Nic
from ansible_collections.mlnode.tuning.tests.unit.plugins.module_utils._mlnode.knobs.irq.node import IrqNode
from ansible_collections.mlnode.tuning.tests.unit.plugins.module_utils._mlnode.knobs.nic.node import (
    WITHOUT_RDMA,
    NicNode,
)
from ansible_collections.mlnode.tuning.tests.unit.roles import NODES, PROFILES, ROOT, declaration, name_of
from mlnode.agent.registry import KINDS
from mlnode.engine import engine
from mlnode.engine.engine import Plan, Request
from mlnode.host.host import Host
from mlnode.model.setting import BOTH_LAYERS, Layer, Status
from mlnode.model.values import number_ranges

INFERENCE = "inference"
_DECIDED = cases.load(pathlib.Path(__file__).with_name("serving.yml"))

#: What was decided for nodes that serve models, and why it is so stands in the profile
SERVING: dict[str, Any] = _DECIDED["serving"]

#: What an operator may ask for, and what nobody should without knowing why
LEFT_OUT: list[str] = _DECIDED["left_out"]


def request(profile: str, kind_name: str, *layers: Layer) -> Request:
    spec = declaration(profile)[kind_name]
    return door.request(name_of(profile), kind_name, spec, layers or BOTH_LAYERS)


def evaluated(host: Host, profile: str, kind_name: str) -> Plan:
    return engine.evaluate(host, request(profile, kind_name, Layer.RUNTIME))


def wrong(plan: Plan) -> dict[str, str]:
    """What a run would be stopped by."""
    return {
        row.setting.key: row.reading.invalid or row.reading.refusal or row.reason
        for row in plan.rows
        if row.reading.invalid or row.status in (Status.REFUSED, Status.UNKNOWN)
    }


# -- what is declared ----------------------------------------------------------------------


def test_kernel_settings_of_a_serving_node() -> None:
    assert declaration(INFERENCE)["sysctl"]["settings"] == SERVING


def test_all_else_of_a_serving_node() -> None:
    specs = declaration(INFERENCE)
    offloads = {"tx", "sg", "tso", "gso", "gro"}
    serving = {**specs["nic"]["rules"]["serving"]}

    assert specs["thp"] == {"enabled": "madvise", "defrag": "madvise"}
    assert specs["cpu"] == {"governor": "performance", "energy_perf_bias": "0", "max_latency_us": "10"}
    assert specs["boot"] == {"parameters": {"transparent_hugepage": "madvise", "numa_balancing": "disable"}}
    assert specs["irq"] == {
        "rules": {"nics": {"strategy": "housekeeping", "rfs_entries": 32768}},
        "irqbalance": "agree",
    }
    assert {*specs["nic"]["rules"]} == {"serving"}
    assert serving.pop("features") == dict.fromkeys({*offloads, "rx"}, True)
    assert serving == {
        "nics": {"management": False},
        "channels": "auto",
        "rings": {"rx": {"at_most": 2048}, "tx": {"at_most": 2048}},
        "coalesce": {"adaptive-rx": False, "rx-usecs": 0},
    }


@pytest.mark.parametrize("profile", ["training", "inference"])
def test_soft_limits_of_files_stay_below_what_select_can_do(profile: str) -> None:
    limits = declaration(profile)["limits"]
    assert limits["nofile"] == {
        "login": "65536:1048576", "systemd": "1024:1048576", "services": "1024:1048576",
        "slurmd": "65536:1048576",
    }  # fmt: skip


@pytest.mark.parametrize("profile", PROFILES)
def test_memory_is_locked_where_something_needs_it(profile: str) -> None:
    assert declaration(profile)["limits"]["memlock"] == "auto"


@pytest.mark.parametrize("name", LEFT_OUT)
def test_what_is_left_out_is_told_with_its_reason(name: str) -> None:
    told = (ROOT / "roles/node/README.md").read_text(encoding="utf-8")

    assert name not in str(declaration(INFERENCE))
    assert name in told[told.index("## Opt-in") :]


# -- on machines ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", MACHINES)
@pytest.mark.parametrize("profile", PROFILES)
def test_no_machine_refuses_a_profile(profile: str, name: str) -> None:
    """Of the trees, that is, which hold no answers of drivers."""
    for kind_name in declaration(profile):
        if kind_name not in ("nic", "qos"):
            host = captured(tree(name), KINDS[kind_name].MOUNTS)
            assert wrong(evaluated(host, profile, kind_name)) == {}, kind_name


@pytest.mark.parametrize("profile", PROFILES)
def test_the_management_path_gets_nothing_that_interrupts_it(profile: str, tmp_path: pathlib.Path) -> None:
    node = NicNode.made(tmp_path / "node")
    node.nics = {**node.nics, "eth4": Nic(coalesce={"adaptive-rx": 1, "rx-usecs": 8})}
    wanted = request(profile, "nic")

    assert wrong(engine.evaluate(node, wanted)) == {}
    door.apply(node, wanted)

    assert node.writes
    assert [path for path, _value in node.writes if "eth4" in path] == []
    assert engine.evaluate(node, wanted).steps == ()


#: The moderation that drivers begin with, and what they take: igb and e1000e know no adaptive-rx and refuse
#: most numbers below 10 (igb_ethtool.c: igb_set_coalesce), virtio without the feature knows nothing at all
MODERATIONS: dict[str, dict[str, Any]] = {
    "igb": {"coalesce": {"rx-usecs": 3}, "supported": ("rx-usecs", "tx-usecs")},
    "virtio_net": {"coalesce": {"rx-frames": 1, "tx-frames": 0}, "supported": ("rx-frames", "tx-frames")},
    "nothing": {"coalesce": None},
}


@pytest.mark.parametrize("driver", MODERATIONS)
def test_nics_of_every_driver_interrupt_at_once(driver: str, tmp_path: pathlib.Path) -> None:
    node = NicNode.made(tmp_path / "node", WITHOUT_RDMA)
    node.has(1 << 30)
    node.nics = {**node.nics, "eth2": Nic(driver, **MODERATIONS[driver])}
    wanted = request(INFERENCE, "nic")

    door.apply(node, wanted)

    assert (node.eth2.coalesce or {}).get("rx-usecs", 0) == 0
    assert (node.eth2.ring, node.eth2.channels) == (
        {"rx": 2048, "tx": 2048, "rx-mini": 0, "rx-jumbo": 0},
        {"combined": 4, "rx": 0, "tx": 0, "other": 0},
    )
    assert engine.evaluate(node, wanted).steps == ()


def test_interrupts_of_a_serving_node_stay_on_its_housekeeping_cores(tmp_path: pathlib.Path) -> None:
    node = IrqNode.made(str(tmp_path / "node"))
    node.put("/sys/devices/system/cpu/isolated", "2-3,6-15\n")
    wanted = request(INFERENCE, "irq")

    door.apply(node, wanted)

    assert (node.affinity("eth2"), node.affinity("eth3")) == (["0", "1"] * 2, ["4", "5"] * 3)
    assert node.now("/proc/sys/net/core/rps_sock_flow_entries") == "32768"
    assert node.now("/sys/class/net/eth2/queues/rx-0/rps_flow_cnt") == "8192"


@pytest.mark.parametrize("name", NODES)
def test_the_reserved_ports_are_those_of_the_table_with_their_sources(name: str) -> None:
    page = (ROOT / "docs/knobs/sysctl.md").read_text(encoding="utf-8")
    table = page.partition("## Reserved ports\n")[2].partition("\n## ")[0]
    cells = re.findall(r"^\| ([0-9][0-9 ,to]*) \| [^|]+ \| [^|]+ \|$", table, re.MULTILINE)
    assert len(cells) == len(re.findall(r"^\| [0-9]", table, re.MULTILINE)) > 5
    settings = declaration(name)["sysctl"]["settings"]
    reserved = settings["net.ipv4.ip_local_reserved_ports"]["at_least"]
    ports = number_ranges(",".join(cells).replace(" to ", "-").replace(" ", ""))
    assert ports == number_ranges(reserved)
    first, last = settings["net.ipv4.ip_local_port_range"].split()
    assert f"`net.ipv4.ip_local_port_range` at {first} " in table
    assert all(int(first) <= low <= high <= int(last) for low, high in ports or ())
