# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""One declaration on the NICs of all drivers: each option is set, read back and undone, or has a reason."""

from __future__ import annotations

import errno
import pathlib
import shutil
from typing import Any

import pytest
from ansible_collections.mlnode.tuning.tests.unit.dcb_machine import Bridge
from ansible_collections.mlnode.tuning.tests.unit.nodes import Node
from ansible_collections.mlnode.tuning.tests.unit.plugins.module_utils._mlnode.knobs.qos.node import (
    ROCE,
    QosNode,
    apply,
    plan,
    request,
    rows,
)
from ansible_collections.mlnode.tuning.tests.unit.roce_machine import (
    BNXT_CONFIG,
    DEBUG,
    ETH2,
    NICS,
    NODES,
    BnxtKernelNode,
    BnxtNode,
    Congestion,
    IonicNode,
    IrdmaNode,
    RoceNode,
)
from mlnode.drivers.roce import registry
from mlnode.engine import boot_run, revert, units
from mlnode.knobs.qos import parse as qos_parse
from mlnode.knobs.qos import switch as qos_switch
from mlnode.model.errors import MlnodeError
from mlnode.model.setting import Status

RULE: dict[str, Any] = {"name": "roce", "nics": {"names": ["eth2", "eth3"]}}
FABRIC: dict[str, Any] = {**ROCE, **RULE}
MACHINES: dict[str, type[QosNode]] = {"mlx5": QosNode, **NODES}

every_driver = pytest.mark.parametrize("name", MACHINES)


def made(name: str, folder: pathlib.Path) -> QosNode:
    kind = type(MACHINES[name].__name__, (Node, MACHINES[name]), {})
    node: QosNode = kind.made(folder / "node")
    differing(node)
    return node


def differing(node: QosNode) -> None:
    """Values that the rule does not declare: most drivers begin with congestion control."""
    if isinstance(node, BnxtNode):
        for congestion in node.congestion.values():
            for name, value in (("ecn_enable", "0"), ("ecn_marking", "0"), ("apply", "1")):
                congestion.store(name, value)
    elif isinstance(node, BnxtKernelNode):
        for address in NICS.values():
            for name in ("enable_cc", "tos_ecn"):
                node.put(node.file(address, name), "0\n")


def state(node: Any) -> dict[str, object]:
    kept = node.kept() if isinstance(node, RoceNode) else {}
    return {**node.state(), **kept}


@every_driver
def test_each_option_is_set_read_back_and_undone_or_has_a_reason(name: str, tmp_path: pathlib.Path) -> None:
    node = made(name, tmp_path)
    driver = registry.of_nic(node, "eth2")
    before = state(node)
    seen = rows(node, FABRIC)
    assert {group for group, row in seen.items() if row.status is Status.UNSUPPORTED} == {*driver.LACKS} - {
        *driver.SUPPORTS
    }
    assert {row.status for row in seen.values()} <= {Status.UNSUPPORTED, Status.DRIFTED, Status.OK}
    for group in {*driver.LACKS} - {*driver.SUPPORTS}:
        assert len(seen[group].reason.partition(": ")[2]) > 20, group

    done = {row.setting.key.rpartition(".")[2]: row for row in apply(node, FABRIC).rows}
    for group in driver.SUPPORTS:
        reading = done[group].reading
        assert done[group].status in (Status.CHANGED, Status.OK), (group, done[group].reason)
        assert reading.runtime.text == reading.want, group
    assert state(node) != before
    node.forget()
    assert not apply(node, FABRIC).changed

    node.forget()
    revert.revert(node)
    node.unload()  # type: ignore[attr-defined]  # of all fake kernels
    assert state(node) == before


@every_driver
def test_each_driver_has_a_word_on_each_option(name: str, tmp_path: pathlib.Path) -> None:
    driver = registry.of_nic(made(name, tmp_path), "eth2")
    assert {*driver.SUPPORTS} | {*driver.LACKS} == {*qos_parse._FILES}


@every_driver
def test_the_agent_sets_it_again_at_boot(name: str, tmp_path: pathlib.Path) -> None:
    node = made(name, tmp_path)
    apply(node, FABRIC)
    wanted = state(node)
    if isinstance(node, RoceNode):
        node.load()
        node.bridges = {"eth2": node.bridging_of(), "eth3": node.bridging_of(), "eth4": Bridge.bare()}
    node.forget()
    _outcome, errors = boot_run.apply_each(node, request(FABRIC))
    assert errors == []
    node.unload()  # type: ignore[attr-defined]  # of all fake kernels
    again = state(node)
    of_kernel = ("/sys/", "/proc/sys/")
    assert {key: value for key, value in again.items() if key.startswith(of_kernel) or key[:1] != "/"} == {
        key: value for key, value in wanted.items() if key.startswith(of_kernel) or key[:1] != "/"
    }


def test_an_rdma_driver_that_is_loaded_alone_starts_the_agent() -> None:
    """Its values are the defaults again, and the interface has not moved."""
    (line,) = [line for line in units.UDEV.splitlines() if "infiniband" in line]
    assert line.startswith('ACTION=="add", SUBSYSTEM=="net|infiniband", ')
    assert f"/bin/touch {units.NIC_FLAG}" in line


# -- Broadcom ----------------------------------------------------------------------------------


@pytest.fixture(name="bnxt")
def _bnxt(tmp_path: pathlib.Path) -> BnxtNode:
    node = BnxtNode.made(tmp_path / "node")
    assert isinstance(node, BnxtNode)
    return node


def test_numbers_are_hexadecimal_to_the_driver(bnxt: BnxtNode) -> None:
    apply(bnxt, {**RULE, "cnp": {"dscp": 26, "priority": 6}})
    assert (bnxt.congestion["bnxt_re0"].hardware["cnp_dscp"], bnxt.now("/roce/bnxt_re0/1/cnp-dscp")) == (
        26,
        "26",
    )


def test_a_driver_whose_values_are_without_names_of_files(bnxt: BnxtNode) -> None:
    for congestion in bnxt.congestion.values():
        congestion.plain = True
    rule = {**RULE, "ecn": [3], "cnp": {"dscp": 26, "priority": 6}}
    bnxt.congestion["bnxt_re0"].store("ecn_marking", "0")
    bnxt.congestion["bnxt_re0"].apply()
    assert {row.status for row in rows(bnxt, rule).values()} == {Status.DRIFTED}
    apply(bnxt, rule)
    wanted = {"ecn_enable": 1, "ecn_marking": 1, "cnp_dscp": 26, "cnp_prio": 6}
    for congestion in bnxt.congestion.values():
        assert wanted.items() <= congestion.hardware.items()
    assert {row.status for row in rows(bnxt, rule).values()} == {Status.OK}


def test_what_is_staged_and_not_applied_is_not_in_force(bnxt: BnxtNode) -> None:
    bnxt.congestion["bnxt_re0"].store("cnp_dscp", "0x1a")
    assert bnxt.now("/roce/bnxt_re0/1/cnp-dscp") == "48"
    (row,) = rows(bnxt, {**RULE, "cnp": {"dscp": 26}}).values()
    assert row.status is Status.DRIFTED


def test_a_change_keeps_the_priorities_of_the_firmware(bnxt: BnxtNode) -> None:
    differing(bnxt)
    for congestion in bnxt.congestion.values():
        for name, value in (("cnp_dscp", "30"), ("cnp_prio", "7")):
            congestion.store(name, value)
    apply(bnxt, {**RULE, "ecn": [3]})
    assert bnxt.congestion["bnxt_re0"].table == {26: 3, 48: 7}


def test_dscps_that_the_firmware_may_forget_are_noted(bnxt: BnxtNode) -> None:
    for bridge in bnxt.bridges.values():
        bridge.apps = {(26, 3)}
    assert (
        "leaves only RoCE and CNP in the firmware" in rows(bnxt, {**RULE, "dscp": {"26": 3}})["dscp"].reason
    )
    bnxt.profiles(True)
    bnxt.forget()
    assert rows(bnxt, {**RULE, "dscp": {"26": 3}})["dscp"].reason == ""


def test_congestion_control_without_marking_is_not_enough(bnxt: BnxtNode) -> None:
    for name, value in (("ecn_marking", "0"), ("apply", "1")):
        bnxt.congestion["bnxt_re0"].store(name, value)
    (row,) = rows(bnxt, {**RULE, "ecn": [3]}).values()
    assert row.status is Status.DRIFTED
    assert row.reading.runtime.text == "eth2: bnxt_re0 ecn 1, bnxt_re0 ecn-marking 0; eth3: 1"
    apply(bnxt, {**RULE, "ecn": [3]})
    assert bnxt.congestion["bnxt_re0"].hardware["ecn_marking"] == 1


def test_either_mark_of_ect_is_right(bnxt: BnxtNode) -> None:
    for congestion in bnxt.congestion.values():
        congestion.store("ecn_marking", "2")
        congestion.apply()
    (row,) = rows(bnxt, {**RULE, "ecn": [3]}).values()
    assert row.status is Status.OK
    assert row.reason == "eth2, eth3: congestion control is for all priorities of the device"


def test_notifications_that_the_driver_clears_are_named(bnxt: BnxtNode) -> None:
    differing(bnxt)
    with pytest.raises(MlnodeError, match=r"cnp-dscp.*48.*0"):
        apply(bnxt, {**RULE, "cnp": {"dscp": 48}})


def test_a_service_profile_owns_the_priority_of_notifications(bnxt: BnxtNode) -> None:
    bnxt.profiles(True)
    rule = {**RULE, "ecn": [3], "cnp": {"dscp": 48, "priority": 6}}
    found = rows(bnxt, rule)
    assert {group: row.status for group, row in found.items()} == {
        "ecn": Status.OK,
        "cnp_dscp": Status.OK,
        "cnp_priority": Status.MANAGED,
    }
    assert "the firmware's service profile sets the priority of CNPs" in found["cnp_priority"].reason
    assert found["cnp_priority"].reading.runtime.text == "eth2, eth3: 7 [managed]"
    before = bnxt.kept()
    assert apply(bnxt, rule).rows[-1].status is Status.MANAGED
    assert bnxt.kept() == before


def test_a_service_profile_takes_only_dscps_of_its_notifications(bnxt: BnxtNode) -> None:
    bnxt.profiles(True)
    with pytest.raises(MlnodeError, match="must be the DSCP of a priority for CNPs: set dscp and ets first"):
        apply(bnxt, {**RULE, "cnp": {"dscp": 40}})


@pytest.mark.parametrize("text", ["\tfw_service_prof_type_sup : many\n", None])
def test_a_profile_that_cannot_be_read_leaves_the_priority_unknown(bnxt: BnxtNode, text: str | None) -> None:
    path = "/sys/kernel/debug/bnxt_re/bnxt_re0/info"
    if text is None:
        bnxt.unreadable[path] = errno.EIO
    else:
        bnxt.put(path, text)
    (row,) = rows(bnxt, {**RULE, "cnp": {"priority": 6}}).values()
    assert row.status is Status.UNKNOWN


@pytest.mark.parametrize("text", ["", "bnxt_re debug info:\n", "\udcff"])
def test_only_a_virtual_function_has_no_word_on_the_profile(bnxt: BnxtNode, text: str) -> None:
    bnxt.put("/sys/kernel/debug/bnxt_re/bnxt_re0/info", text.encode("utf-8", "surrogateescape"))
    rule = {**RULE, "cnp": {"priority": 6}}
    (row,) = rows(bnxt, rule).values()
    assert row.status is Status.UNKNOWN
    assert "fw_service_prof_type_sup is missing" in row.reason
    bnxt.put("/sys/class/infiniband/bnxt_re0/device/physfn/vendor", "0x14e4\n")
    bnxt.forget()
    (row,) = rows(bnxt, rule).values()
    assert row.status is Status.DRIFTED


def test_folders_of_configfs_are_there_only_for_the_moment(bnxt: BnxtNode) -> None:
    folder = f"{BNXT_CONFIG}/bnxt_re0"
    assert bnxt.now("/roce/bnxt_re0/1/ecn") == "1"
    bnxt.write_kernel("/roce/bnxt_re0/1/ecn", "0")
    assert not bnxt.exists(folder)
    bnxt.make_folder(folder)
    bnxt.write_kernel("/roce/bnxt_re0/1/ecn", "1")
    assert bnxt.exists(folder), "another made it"
    assert bnxt.names("/roce/bnxt_re0/1") == [
        "cm-tos",
        "cm-mode",
        "ecn",
        "ecn-marking",
        "cnp-dscp",
        "cnp-priority",
    ]


@pytest.mark.parametrize("text", ["", "ecn status (ecn_enable)\t: Perhaps\n", "ecn_enable: Enabled\n"])
def test_values_that_are_not_understood_are_unknown(
    bnxt: BnxtNode, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.setattr(Congestion, "shown", lambda _self: text)
    (row,) = rows(bnxt, {**RULE, "ecn": [3]}).values()
    assert row.status is Status.UNKNOWN, row.reason


@pytest.mark.parametrize("text", ["", "ecn marking (ecn_marking)\t: ECT(1)\n"])
def test_a_staged_value_stands_for_no_other_one(
    bnxt: BnxtNode, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    """`apply` does not show the CNP without congestion control, but then it says so."""
    monkeypatch.setattr(Congestion, "shown", lambda _self: text)
    (row,) = rows(bnxt, {**RULE, "cnp": {"dscp": 48}}).values()
    assert row.status is Status.UNKNOWN, row.reason


@pytest.mark.parametrize(
    "text", ["", "\n", "N/A\n", "0x30\n", "-1\n", "48 7\n", "\udcff\n", "\u0664\u0668\n"]
)
@pytest.mark.parametrize("file", ["enable_cc", "tos_ecn", "alt_vlan_dscp", "alt_vlan_pcp"])
def test_no_number_of_the_kernels_driver_is_unknown(tmp_path: pathlib.Path, file: str, text: str) -> None:
    """It could not be written back."""
    node = made("bnxt, kernel", tmp_path)
    assert isinstance(node, BnxtKernelNode)
    node.put(node.file(ETH2, file), text.encode("utf-8", "surrogateescape"))
    rule = {**RULE, "ecn": [3], "cnp": {"dscp": 46, "priority": 6}}
    group = {"alt_vlan_dscp": "cnp_dscp", "alt_vlan_pcp": "cnp_priority"}.get(file, "ecn")
    assert rows(node, rule)[group].status is Status.UNKNOWN
    outcome = apply(node, rule)
    assert {row.status for row in outcome.rows if row.setting.group == group} == {Status.UNKNOWN}
    assert node.file(ETH2, file) not in [path for path, _value in node.writes]


@pytest.mark.parametrize("file", ["enable_cc", "tos_ecn"])
def test_a_half_of_congestion_control_is_unknown(tmp_path: pathlib.Path, file: str) -> None:
    node = BnxtKernelNode.made(tmp_path / "node")
    assert isinstance(node, BnxtKernelNode)
    assert rows(node, {**RULE, "ecn": [3]})["ecn"].status is Status.OK
    node.remove(node.file(ETH2, file))
    node.forget()
    assert rows(node, {**RULE, "ecn": [3]})["ecn"].status is Status.UNKNOWN


@pytest.mark.parametrize("number", [errno.EACCES, errno.EIO])
def test_values_that_cannot_be_read_are_unknown(bnxt: BnxtNode, tmp_path: pathlib.Path, number: int) -> None:
    kernels = BnxtKernelNode.made(tmp_path / "kernel")
    assert isinstance(kernels, BnxtKernelNode)
    bnxt.unreadable[f"{BNXT_CONFIG}/bnxt_re0/ports/1/cc/apply"] = number
    kernels.unreadable[kernels.file(ETH2, "enable_cc")] = number
    for node in (bnxt, kernels):
        (row,) = rows(node, {**RULE, "ecn": [3]}).values()
        assert row.status is Status.UNKNOWN, row.reason


def test_only_root_can_look_into_configfs(bnxt: BnxtNode) -> None:
    bnxt.superuser = False
    (row,) = rows(bnxt, {**RULE, "ecn": [3]}).values()
    assert row.status is Status.UNKNOWN
    assert "root is needed" in row.reason


def test_a_value_that_the_kernels_driver_drops_is_named(tmp_path: pathlib.Path) -> None:
    """Its write succeeds whatever the firmware says."""
    node = BnxtKernelNode.made(tmp_path / "node")
    assert isinstance(node, BnxtKernelNode)
    path = node.file(ETH2, "alt_vlan_pcp")
    node.ignores.add(path)
    with pytest.raises(MlnodeError, match="alt_vlan_pcp"):
        apply(node, {**RULE, "cnp": {"priority": 6}})


def test_without_debugfs_congestion_control_is_unknown(tmp_path: pathlib.Path) -> None:
    node = BnxtKernelNode.made(tmp_path / "node")
    shutil.rmtree(node.root + DEBUG)
    (row,) = rows(node, {**RULE, "ecn": [3]}).values()
    assert row.status is Status.UNKNOWN
    assert "mount debugfs" in row.reason
    node.put(f"{DEBUG}/sched/debug", "")
    node.forget()
    (row,) = rows(node, {**RULE, "ecn": [3]}).values()
    assert row.status is Status.UNSUPPORTED
    assert "neither configfs bnxt_re" in row.reason


# -- Intel -------------------------------------------------------------------------------------


def test_the_kernels_irdma_has_no_switch(tmp_path: pathlib.Path) -> None:
    node = IrdmaNode.made(tmp_path / "node")
    assert isinstance(node, IrdmaNode)
    node.kernels()
    (row,) = rows(node, {**RULE, "ecn": [3]}).values()
    assert row.status is Status.UNSUPPORTED
    assert "the kernel's own irdma has no switch" in row.reason


# -- AMD ---------------------------------------------------------------------------------------


@pytest.fixture(name="ionic")
def _ionic(tmp_path: pathlib.Path) -> IonicNode:
    node = IonicNode.made(tmp_path / "node")
    assert isinstance(node, IonicNode)
    return node


def test_pfc_is_no_global_pause_though_ethtool_shows_it_so(ionic: IonicNode) -> None:
    apply(ionic, {**RULE, "global_pause": False, "pfc": [3]})
    card = ionic.cards["ionic_0"]
    assert (card.pause, card.ways, card.drops) == ("PFC", {"rx": True, "tx": True}, {3})
    ionic.forget()
    found = rows(ionic, {**RULE, "global_pause": False, "pfc": [3]})
    assert {row.status for row in found.values()} == {Status.OK}
    assert rows(ionic, {**RULE, "pfc": [4]})["pfc"].status is Status.DRIFTED, "no pause excludes it"


def test_global_pause_does_not_end_pfc_by_the_way(ionic: IonicNode) -> None:
    for card in ionic.cards.values():
        card.drops, card.pause = {3}, "PFC"
    with pytest.raises(MlnodeError, match="PFC is on: switch it off first"):
        apply(ionic, {**RULE, "global_pause": True})
    assert {card.pause for card in ionic.cards.values()} == {"PFC"}


def test_a_priority_without_drops_and_pauses_has_no_pfc(ionic: IonicNode) -> None:
    for card in ionic.cards.values():
        card.drops, card.pause, card.ways = {3}, "PFC", {"rx": True, "tx": False}
    assert ionic.now("/dcb/eth2/pfc/prio-pfc") == "none"


def test_a_change_that_the_firmware_drops_is_named(ionic: IonicNode) -> None:
    ionic.cards["ionic_0"].silent.add("pfc")
    with pytest.raises(MlnodeError, match="prio-pfc"):
        apply(ionic, {**RULE, "global_pause": False, "pfc": [3]})


def test_notifications_need_congestion_control(ionic: IonicNode) -> None:
    with pytest.raises(MlnodeError, match="declare ecn, too"):
        apply(ionic, {**RULE, "cnp": {"dscp": 48}})
    assert not ionic.cards["ionic_0"].enabled


def test_classification_is_set_for_all_nics_and_that_is_said(ionic: IonicNode) -> None:
    ionic.cards["ionic_0"].trust = ionic.cards["ionic_1"].trust = "PCP"
    apply(ionic, {**RULE, "nics": {"names": ["eth2"]}, "trust": "dscp"})
    assert ionic.cards["ionic_1"].trust == "DSCP"
    ionic.forget()
    (row,) = rows(ionic, {**RULE, "trust": "dscp"}).values()
    assert "nicctl sets it for all of AMD's NICs together" in row.reason


def test_without_nicctl_nothing_is_known(ionic: IonicNode) -> None:
    ionic.remove("/usr/sbin/nicctl")
    found = rows(ionic, FABRIC)
    assert {group for group, row in found.items() if row.status is Status.UNKNOWN} >= {
        "trust", "dscp", "pfc", "ecn", "cnp_dscp",
    }  # fmt: skip
    assert "nicctl is not installed" in found["pfc"].reason


def test_output_that_is_not_understood_is_unknown(ionic: IonicNode) -> None:
    for card in ionic.cards.values():
        card.pause = "PFC"
    declared = {**RULE, "trust": "dscp", "dscp": {"26": 3}, "pfc": [3], "global_pause": False, "ecn": [3]}
    known = {"qos": {"ecn", "global_pause"}, "port": {"ecn", "trust", "dscp"}, "dcqcn": set()}
    for thing in known:
        text = ionic.tool._shown(thing)
        words = text.replace("priority bitmap       : 0x0", "priority bitmap       : many")
        for old, new in (
            ("DSCP  ", "XYZ  "),
            ("enabled", "perhaps"),
            ("Disabled", "Maybe"),
            (": DSCP", ": MPLS"),
        ):
            words = words.replace(old, new)
        for damaged in ("\n", "nonsense\n", "\udcff\n", text[: len(text) // 3], words):
            ionic.tool.says = {thing: damaged}
            ionic.forget()
            found = {
                group for group, row in rows(ionic, declared).items() if row.status is not Status.UNKNOWN
            }
            assert found <= known[thing], (thing, damaged)


def test_congestion_control_without_its_notifications_is_unknown(ionic: IonicNode) -> None:
    """Undone to no DSCP, it would be switched off."""
    ionic.cards["ionic_0"].enabled = True
    ionic.tool.says = {"dcqcn": ionic.tool._shown("dcqcn").replace("DSCP value", "Some value")}
    found = rows(ionic, {**RULE, "ecn": [3], "cnp": {"dscp": 46}})
    assert {row.status for row in found.values()} == {Status.UNKNOWN}


def test_a_tool_that_fails_makes_all_unknown(ionic: IonicNode) -> None:
    ionic.tool.dead = True
    found = rows(ionic, {**RULE, "trust": "dscp", "dscp": {"26": 3}, "pfc": [3], "ecn": [3]})
    assert {row.status for row in found.values()} == {Status.UNKNOWN}
    assert "failed to connect to the card" in found["pfc"].reason


def test_two_ports_of_a_card_are_not_guessed(ionic: IonicNode) -> None:
    first, second = ionic.cards.values()
    second.nic = first.nic
    assert rows(ionic, {**RULE, "pfc": [3], "global_pause": False})["pfc"].status is Status.UNKNOWN


def test_the_commands_are_those_of_its_tool(ionic: IonicNode) -> None:
    port = ionic.cards["ionic_0"].port
    lines = qos_switch.commands(
        ionic, plan(ionic, {**RULE, "pfc": [3], "dscp": {"26": 3}, "global_pause": False}).rows
    )
    assert f"nicctl update qos -p {port} dscp-to-priority --dscp 26 --priority 3" in lines
    assert f"nicctl update port -p {port} --pause-type pfc --rx-pause enable --tx-pause enable" in lines
    assert len([line for line in lines if "dscp-to-priority" in line]) == 2, "one for each NIC"
    assert "ethtool -A eth2 rx off tx off" in lines
    assert not [line for line in lines if line.startswith("dcb")]


def test_the_commands_for_broadcom_apply(bnxt: BnxtNode) -> None:
    rule = {**RULE, "nics": {"names": ["eth2"]}, "ecn": [3], "cnp": {"dscp": 26}}
    lines = qos_switch.commands(bnxt, plan(bnxt, rule).rows)
    assert len(lines) == 3
    own = "/sys/kernel/config/bnxt_re/bnxt_re0"
    assert lines[-1] == (
        f"mkdir -p {own} && echo 0x1a > {own}/ports/1/cc/cnp_dscp "
        f"&& echo 0x1 > {own}/ports/1/cc/apply && rmdir {own}"
    )
