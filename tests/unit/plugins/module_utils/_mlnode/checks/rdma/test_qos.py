# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import os
import pathlib
from typing import Any

import pytest
from ansible_collections.mlnode.tuning.tests.unit import cases, door, roce_machine
from mlnode.checks.expect import Expectations
from mlnode.checks.model import Check, Verdict
from mlnode.checks.rdma import qos
from mlnode.engine import declared
from mlnode.knobs.qos import parse as qos_parse
from mlnode.model.errors import HostError
from mlnode.topology import hardware

from ...knobs.qos.node import ROCE, QosNode, request

PASS, FAIL, SKIP, UNKNOWN = Verdict.PASS, Verdict.FAIL, Verdict.SKIP, Verdict.UNKNOWN
EXPECTED = {name: ROCE[name] for name in ("trust", "dscp", "pfc", "global_pause", "ecn", "cnp")}


@pytest.fixture(name="host")
def _host(tmp_path: pathlib.Path) -> QosNode:
    """As it is once roce_qos has run."""
    node = QosNode.made(tmp_path / "node")
    door.apply(node, request(ROCE))
    node.forget()
    return node


def checked(host: QosNode, expect: Expectations | None = None) -> dict[tuple[str, str], Check]:
    found = qos.checks(host, hardware.topology(host), expect or Expectations())
    assert {check.name for check in found} <= {*qos.NAMES}
    assert len({(check.target, check.name) for check in found}) == len(found)
    return {(check.target, check.name): check for check in found}


def of(host: QosNode, name: str, expect: Expectations | None = None, target: str = "mlx5_0/1") -> Check:
    return checked(host, expect)[target, name]


def expecting(**groups: Any) -> Expectations:
    return Expectations(all={"qos": qos_parse.expected("expect.all.qos", groups), "link_layer": "Ethernet"})


def undeclared(host: QosNode) -> QosNode:
    host.remove(declared.path_of("default"))
    return host


def test_a_port_that_is_as_declared_passes(host: QosNode) -> None:
    found = checked(host)
    assert {*found} == {(f"mlx5_{number}/1", name) for number in (0, 1) for name in qos.NAMES}
    assert {check.verdict for check in found.values()} == {PASS}


def test_so_does_one_that_is_as_expected(host: QosNode) -> None:
    found = checked(undeclared(host), expecting(**EXPECTED))
    assert {check.verdict for check in found.values()} == {PASS}


def test_an_expectation_comes_before_the_declaration(host: QosNode) -> None:
    check = of(host, "pfc", expecting(pfc=[4]))
    assert (check.verdict, check.expected, check.found) == (FAIL, "4", "3")
    assert "roce_qos" in check.advice
    assert of(host, "trust", expecting(pfc=[4])).verdict is PASS


def test_what_nobody_has_declared_is_told_and_not_judged(host: QosNode) -> None:
    found = checked(undeclared(host))
    assert {check.verdict for key, check in found.items() if key[1] != "global_pause"} == {SKIP}
    assert found["mlx5_0/1", "pfc"].found == "pfc: 3; no scheme is declared"
    assert found["mlx5_0/1", "cnp"].found == (
        "congestion notifications: dscp 48, priority 6; no scheme is declared"
    )


def test_a_port_without_a_scheme_neither_passes_nor_fails(host: QosNode) -> None:
    host.bridge.apps, host.bridge.pfc = set(), set()
    found = {name: check for (port, name), check in checked(undeclared(host)).items() if port == "mlx5_0/1"}
    assert {check.verdict for check in found.values()} == {SKIP}
    for name in ("trust", "dscp", "pfc", "ecn", "cnp"):
        assert found[name].found.endswith("no scheme is declared"), name
        assert "fabric_qos_preset" in found[name].advice


def test_of_a_declared_scheme_only_the_rest_is_left(host: QosNode) -> None:
    check = of(undeclared(host), "trust", expecting(pfc=[3]))
    assert (check.verdict, check.found, check.advice) == (SKIP, "trust: dscp; nothing of it is declared", "")


@pytest.mark.parametrize(("name", "found"), [("trust", "pcp"), ("dscp", "26:none 48:none"), ("pfc", "none")])
def test_what_a_boot_has_forgotten_fails(host: QosNode, name: str, found: str) -> None:
    host.bridge.apps, host.bridge.pfc = set(), set()
    check = of(host, name)
    assert (check.verdict, check.found) == (FAIL, found)
    assert check.advice
    assert of(host, name, target="mlx5_1/1").verdict is PASS


def test_pfc_has_to_be_exact(host: QosNode) -> None:
    host.bridge.pfc = {3, 4}
    check = of(host, "pfc")
    assert (check.verdict, check.expected, check.found) == (FAIL, "3", "3,4")
    assert check.source == "dcb pfc show dev eth2"


def test_a_driver_that_looks_at_dscps_first_trusts_them(host: QosNode) -> None:
    host.bridge.order = ["dscp", "pcp"]
    assert of(host, "trust").verdict is PASS
    host.bridge.order = ["pcp", "dscp"]
    assert of(host, "trust").verdict is FAIL


# -- global pause --------------------------------------------------------------------------


@pytest.mark.parametrize("declaring", [True, False])
def test_global_pause_beside_pfc_fails_whether_or_not_it_is_declared(host: QosNode, declaring: bool) -> None:
    if not declaring:
        undeclared(host)
    host.nics["eth2"].pause = {"rx": 1, "tx": 0}
    check = of(host, "global_pause")
    assert (check.verdict, check.found) == (FAIL, "rx on, tx off")
    assert "ethtool -A eth2 rx off tx off" in check.advice
    assert of(host, "global_pause", target="mlx5_1/1").verdict is PASS


def test_global_pause_without_pfc_is_nobodys_business(host: QosNode) -> None:
    undeclared(host)
    host.nics["eth2"].pause, host.bridge.pfc = {"rx": 1, "tx": 1}, set()
    assert of(host, "global_pause").verdict is SKIP
    host.bridge.prints["pfc"] = "nonsense"
    assert of(host, "global_pause").verdict is UNKNOWN


def test_global_pause_may_be_wanted(host: QosNode) -> None:
    undeclared(host)
    assert of(host, "global_pause", expecting(global_pause=True)).verdict is FAIL
    host.nics["eth2"].pause = {"rx": 1, "tx": 1}
    assert of(host, "global_pause", expecting(global_pause=True)).verdict is PASS


def test_a_nic_without_pause_frames_pauses_nothing(host: QosNode) -> None:
    host.nics["eth2"].pause = None
    check = of(host, "global_pause")
    assert check.verdict is SKIP
    assert "has no pause frames, so that none can be on" in check.found
    assert of(host, "global_pause", expecting(global_pause=True, pfc=[])).verdict is UNKNOWN


def test_pause_that_cannot_be_read_is_unknown(host: QosNode) -> None:
    host.nics["eth2"].fails[0x12] = 5
    assert of(host, "global_pause").verdict is UNKNOWN


# -- ECN and notifications -----------------------------------------------------------------

_ECN = "/sys/class/net/eth2/ecn"


def test_ecn_at_one_end_is_not_enough(host: QosNode) -> None:
    host.put(f"{_ECN}/roce_rp/enable/3", "0\n")
    check = of(host, "ecn")
    assert (check.verdict, check.found) == (FAIL, "np/3 1, rp/3 0")


def test_a_notification_in_another_priority_fails(host: QosNode) -> None:
    host.put(f"{_ECN}/roce_np/cnp_802p_prio", "0\n")
    check = of(host, "cnp")
    assert (check.verdict, check.expected, check.found) == (
        FAIL,
        "dscp 48, priority 6",
        "dscp 48, priority 0",
    )


def test_what_is_declared_and_cannot_be_had_fails(host: QosNode) -> None:
    for folder, _folders, files in os.walk(host.root + _ECN, topdown=False):
        for file in files:
            os.unlink(f"{folder}/{file}")
        os.rmdir(folder)
    ecn, cnp = (of(host, name) for name in ("ecn", "cnp"))
    assert (ecn.verdict, ecn.expected, cnp.verdict, cnp.expected) == (
        FAIL,
        "1 on priority 3",
        FAIL,
        "dscp 48, priority 6",
    )
    assert "no switch for ECN per priority" in ecn.found
    assert "does not show" in cnp.found
    host.remove(declared.path_of("default"))
    assert (of(host, "ecn").verdict, of(host, "cnp").verdict) == (SKIP, SKIP)


def test_a_folder_that_nobody_may_look_into_is_unknown(
    host: QosNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    exists = host.exists

    def refusing(path: str) -> bool:
        if "/ecn" in path:
            raise HostError("look at", path, 13)
        return exists(path)

    monkeypatch.setattr(host, "exists", refusing)
    assert (of(host, "ecn").verdict, of(host, "cnp").verdict) == (UNKNOWN, UNKNOWN)


@pytest.mark.parametrize("text", ["", "N/A\n", "\udcff\n", "0x1\n"])
@pytest.mark.parametrize(
    ("path", "name"),
    [("roce_np/enable/3", "ecn"), ("roce_np/cnp_dscp", "cnp"), ("roce_np/cnp_802p_prio", "cnp")],
)
def test_no_number_is_unknown(host: QosNode, path: str, name: str, text: str) -> None:
    host.put(f"{_ECN}/{path}", text.encode("utf-8", "surrogateescape"))
    assert of(host, name).verdict is UNKNOWN


def test_a_priority_in_another_mode_fails(host: QosNode) -> None:
    host.remove(f"{_ECN}/roce_np/cnp_802p_prio")
    path = "/sys/kernel/debug/mlx5/0000:41:00.0/cc_params/np_cnp_prio"
    host.put(path, "6\n")
    host.put(f"{path}_mode", "0\n")
    assert of(host, "cnp").verdict is PASS
    host.put(f"{path}_mode", "1\n")
    check = of(host, "cnp")
    assert (check.verdict, check.found) == (FAIL, "dscp 48, priority mode 1, priority 6")


@cases.table
def test_a_file_that_is_gone_or_unreadable_never_passes(host: QosNode, path: str, name: str) -> None:
    host.unreadable[path] = 5
    assert of(host, name).verdict is UNKNOWN
    host.unreadable.clear()
    host.remove(path)
    assert of(host, name).verdict is not PASS


# -- what cannot be told -------------------------------------------------------------------


@pytest.mark.parametrize("thing", ["pfc", "app"])
def test_what_makes_no_sense_is_unknown(host: QosNode, thing: str) -> None:
    host.bridge.prints[thing] = "nonsense"
    for name in {"pfc": ("pfc",), "app": ("trust", "dscp")}[thing]:
        assert of(host, name).verdict is UNKNOWN


def test_without_a_tool_nothing_is_known(host: QosNode) -> None:
    host.install()
    found = checked(host)
    assert {found["mlx5_0/1", name].verdict for name in ("trust", "dscp", "pfc")} == {UNKNOWN}
    undeclared(host)
    assert {checked(host)["mlx5_0/1", name].verdict for name in ("trust", "dscp", "pfc")} == {UNKNOWN}


def test_what_is_declared_and_not_there_fails(host: QosNode) -> None:
    host.bridges = {**host.bridges, "eth2": type(host.bridge).bare()}
    check = of(host, "pfc")
    assert (check.verdict, check.found) == (FAIL, "the driver mlx5_core has no priority flow control (PFC)")
    undeclared(host)
    assert {of(host, name).verdict for name in ("trust", "dscp", "pfc", "global_pause")} == {SKIP}


def test_infiniband_has_none_of_it(host: QosNode) -> None:
    host.put("/sys/class/infiniband/mlx5_0/ports/1/link_layer", "InfiniBand\n")
    assert {target for target, _name in checked(host)} == {"mlx5_1/1"}


def test_a_damaged_declaration_declares_nothing(host: QosNode) -> None:
    host.put(declared.path_of("default"), "{")
    assert of(host, "pfc").verdict is SKIP


def test_a_mistaken_declaration_declares_nothing(host: QosNode) -> None:
    text = host.text(declared.path_of("default"))
    host.put(declared.path_of("default"), text.replace('"trust": "dscp"', '"trust": "dcsp"'))
    assert of(host, "pfc").verdict is SKIP


def test_of_software_nobody_expects_priorities(host: QosNode) -> None:
    folder = "/sys/devices/virtual/infiniband/rxe0"
    host.put(f"{folder}/ports/1/link_layer", "Ethernet\n")
    host.put(f"{folder}/ports/1/state", "4: ACTIVE\n")
    host.put(f"{folder}/parent", "eth4\n")
    host.link("/sys/class/infiniband/rxe0", f"../../..{folder}")
    found = checked(host, expecting(**EXPECTED))
    assert {found["rxe0/1", name].verdict for name in qos.NAMES} == {SKIP}


def test_a_port_without_an_interface_is_told(host: QosNode) -> None:
    folder = "/sys/devices/virtual/infiniband/mlx5_9"
    host.put(f"{folder}/ports/1/link_layer", "Ethernet\n")
    host.put(f"{folder}/ports/1/state", "4: ACTIVE\n")
    host.link("/sys/class/infiniband/mlx5_9", f"../../..{folder}")
    found = checked(host, expecting(**EXPECTED))
    assert {found["mlx5_9/1", name].found for name in qos.NAMES} == {"no interface is known for this port"}


# -- other drivers -------------------------------------------------------------------------


def test_congestion_control_is_judged_on_each_driver(tmp_path: pathlib.Path) -> None:
    rule = {"name": "roce", "nics": {"names": ["eth2", "eth3"]}, "ecn": [3], "cnp": {"dscp": 48}}
    shown = {
        "bnxt": (PASS, "enable 1, marking 1", PASS),
        "bnxt, kernel": (PASS, "enable 1, marking 1", PASS),
        "irdma": (PASS, "dcqcn 1", FAIL),
        "ionic": (PASS, "dcqcn on", PASS),
    }
    for name, kind in roce_machine.NODES.items():
        node = kind.made(tmp_path / name)
        port = f"{kind.DEVICE.format(0)}/1"
        assert of(node, "ecn", expecting(ecn=[3]), port).verdict is (
            FAIL if name in ("irdma", "ionic") else PASS
        )
        door.apply(node, request(rule))
        node.forget()
        ecn, cnp = (of(node, check, target=port) for check in ("ecn", "cnp"))
        assert (ecn.verdict, ecn.found, cnp.verdict) == shown[name], name


def test_what_the_firmware_keeps_is_compared(tmp_path: pathlib.Path) -> None:
    node = roce_machine.BnxtNode.made(tmp_path / "node")
    assert isinstance(node, roce_machine.BnxtNode)
    node.profiles(True)
    for priority, verdict in ((6, FAIL), (7, PASS)):
        check = of(node, "cnp", expecting(cnp={"dscp": 48, "priority": priority}), "bnxt_re0/1")
        assert (check.verdict, check.expected) == (verdict, f"dscp 48, priority {priority}")
        assert check.found == "dscp 48, priority 7 by the firmware"
