# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import errno
import pathlib
import re
import struct
from typing import Any

import pytest
from ansible_collections.mlnode.tuning.tests.unit import cases, door
from ansible_collections.mlnode.tuning.tests.unit.dcb_machine import Bridge
from ansible_collections.mlnode.tuning.tests.unit.nic_machine import Nic
from mlnode.drivers.nic.disruption import Disruption
from mlnode.engine import boot_run, engine, revert
from mlnode.engine.engine import Request
from mlnode.engine.kind import AGENT_UNIT, Row
from mlnode.knobs.nic.kind import kind as nic
from mlnode.knobs.qos import switch as qos_switch
from mlnode.knobs.qos.guards import QosGuards, as_nic
from mlnode.knobs.qos.kind import kind as qos
from mlnode.knobs.qos.parse import QosSetting
from mlnode.knobs.summary import Target
from mlnode.model.errors import DeclarationError, HostError, RefusedError
from mlnode.model.setting import KnobFile, Layer, Status
from mlnode.topology import management

from .node import ROCE, QosNode, apply, plan, request, row, rows, rule

LLDPAD = "/etc/systemd/system/multi-user.target.wants/lldpad.service"
JOB = {"/proc/812/comm": "slurmstepd\n", "/proc/812/cmdline": "slurmstepd: [4711.0]\0"}


@pytest.fixture(name="host")
def _host(tmp_path: pathlib.Path) -> QosNode:
    return QosNode.made(tmp_path / "node")


def statuses(found: dict[str, Row]) -> dict[str, Status]:
    return {key: one.status for key, one in found.items()}


# -- the whole of it -----------------------------------------------------------------------


def test_everything_is_set(host: QosNode) -> None:
    done = apply(host, ROCE)
    assert {one.status for one in done.rows} == {Status.CHANGED}
    assert host.bridge.pfc == {3}
    assert (host.bridge.apps or set()) >= {(26, 3), (48, 6)}
    assert host.nics["eth3"].pause == {"rx": 0, "tx": 0, "autoneg": 0}
    assert host.cm["mlx5_1"][1].tos == 106
    assert host.now("/sys/class/net/eth2/ecn/roce_np/enable/3") == "1"
    assert host.now("/sys/class/net/eth2/ecn/roce_np/enable/4") == "0"


def test_rows_show_nics_that_are_alike_together(host: QosNode) -> None:
    host.bridge.apps = {(26, 1), (26, 2)}
    found = rows(host, ROCE)
    assert found["dscp"].reading.runtime.text == "eth2: 26:1,2 48:none; eth3: 26:none 48:none"
    assert found["dscp"].reading.want == "eth2, eth3: 26:3 48:6"
    host.put("/sys/class/net/eth2/ecn/roce_np/enable/3", "1\n")
    assert rows(host, ROCE)["ecn"].reading.runtime.text == "eth2: roce_np/3 1, roce_rp/3 0; eth3: 0"


def test_priorities_of_dscps_are_one_write(host: QosNode) -> None:
    apply(host, rule(dscp={"24-31": 3}))
    (write,) = [path for path, _value in host.writes]
    assert write == "/dcb/eth2/dscp-prio/24,25,26,27,28,29,30,31"


def test_pfc_is_exactly_what_is_declared(host: QosNode) -> None:
    host.bridge.pfc = {3, 4, 5}
    apply(host, rule(pfc=[3], global_pause=False))
    assert host.bridge.pfc == {3}


def test_pfc_can_be_taken_away(host: QosNode) -> None:
    host.bridge.pfc = {3}
    apply(host, rule(pfc=[]))
    assert host.bridge.pfc == set()
    revert.revert(host)
    assert host.bridge.pfc == {3}


def test_trust_in_tags_forgets_no_priority_of_a_dscp_for_good(host: QosNode) -> None:
    host.bridge.apps = {(26, 3), (48, 6)}
    apply(host, rule(trust="pcp"))
    assert host.bridge.apps == set()
    revert.revert(host)
    assert host.bridge.apps == {(26, 3), (48, 6)}


def test_buffers_that_pfc_moves_are_set_after_it(host: QosNode) -> None:
    """mlx5 sizes its buffers when PFC changes, though they were right before."""
    host.bridge.moves = True
    assert host.bridge.buffer is not None
    host.bridge.buffer.update(
        {"prio-buffer": [0, 0, 0, 1, 0, 0, 0, 0], "buffer-size": [65536, 131072, *[0] * 6]}
    )
    apply(host, rule(pfc=[3], global_pause=False, buffer=ROCE["buffer"]))
    assert host.bridge.buffer["buffer-size"] == [65536, 131072, 0, 0, 0, 0, 0, 0]
    assert not apply(host, rule(pfc=[3], global_pause=False, buffer=ROCE["buffer"])).changed


def test_without_dcb_the_vendors_tool_does_it_and_that_is_said(host: QosNode) -> None:
    host.install("mlnx_qos")
    done = apply(host, rule(pfc=[3], global_pause=False, trust="dscp", dscp={"26": 3}))
    assert host.bridge.pfc == {3}
    again = {one.setting.key: one for one in apply(host, rule(pfc=[3], trust="dscp")).rows}
    pfc = next(one for key, one in again.items() if key.endswith(".pfc"))
    assert "through mlnx_qos, as dcb (iproute2) is not installed" in pfc.reason
    assert {one.status for one in done.rows} == {Status.CHANGED}


def test_without_any_tool_nothing_is_known(host: QosNode) -> None:
    host.install()
    found = row(host, pfc=[3], global_pause=None)
    assert found.status is Status.UNKNOWN
    assert "dcb is not installed" in found.reason


# -- what a NIC does not have --------------------------------------------------------------


def test_a_nic_without_any_of_it_is_told(host: QosNode) -> None:
    found = rows(host, {**ROCE, "nics": {"names": ["eth4"]}})
    assert set(statuses(found).values()) == {Status.UNSUPPORTED}
    assert found["pfc"].reason == "eth4: the driver virtio_net has no priority flow control (PFC)"
    assert found["traffic_class"].reason == "eth4: there is no RDMA device on it"
    assert found["ecn"].reason.endswith("no known switch for congestion control (ECN, DCQCN)")
    assert "(CNP)" in found["cnp_dscp"].reason


def test_what_one_of_several_nics_lacks_is_noted(host: QosNode) -> None:
    host.bridges["eth3"].buffer = None
    apply(host, {**ROCE})
    found = rows(host, ROCE)["buffer"]
    assert found.status is Status.OK
    assert found.reason == "eth3: the driver mlx5_core has no receive buffers that can be set"


def test_infiniband_has_no_traffic_class(host: QosNode) -> None:
    host.put("/sys/class/infiniband/mlx5_0/ports/1/link_layer", "InfiniBand\n")
    found = row(host, traffic_class=106)
    assert found.status is Status.UNSUPPORTED
    assert found.reason == "eth2: mlx5_0 is InfiniBand, which has service levels instead"


@pytest.mark.parametrize(
    ("groups", "bridge", "words"),
    [
        ({"pfc": [3, 4]}, Bridge(pfc_cap=1), "eth2: PFC for 2 priorities, and the NIC has it for 1"),
        (
            {"buffer": ROCE["buffer"]},
            Bridge(total=1000),
            "eth2: buffers of 196608 bytes together, and the NIC has 1000",
        ),
    ],
)
def test_more_than_the_nic_has_is_an_error(
    host: QosNode, groups: dict[str, Any], bridge: Bridge, words: str
) -> None:
    host.bridges = {**host.bridges, "eth2": bridge}
    with pytest.raises(DeclarationError, match=re.escape(words)):
        apply(host, rule(**groups), allow=["pfc_priorities"])
    assert host.writes == []


def test_the_kernels_own_file_of_notifications(host: QosNode) -> None:
    folder = "/sys/class/net/eth2/ecn/roce_np"
    host.remove(f"{folder}/cnp_dscp")
    path = "/sys/kernel/debug/mlx5/0000:41:00.0/cc_params/np_cnp_dscp"
    assert row(host, cnp={"dscp": 46}).status is Status.UNSUPPORTED
    host.put(path, "48\n")
    apply(host, rule(cnp={"dscp": 46}))
    assert host.now(path) == "46"


def test_a_priority_of_the_kernels_driver_comes_with_its_mode(
    host: QosNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A write of the priority sets the mode to 0 (hw/mlx5/cong.c)."""
    host.remove("/sys/class/net/eth2/ecn/roce_np/cnp_802p_prio")
    path = "/sys/kernel/debug/mlx5/0000:41:00.0/cc_params/np_cnp_prio"
    mode = f"{path}_mode"
    host.put(path, "6\n")
    host.put(mode, "1\n")
    assert row(host, cnp={"priority": 6}).status is Status.DRIFTED
    write_kernel = QosNode.write_kernel

    def resetting(self: QosNode, written: str, value: str) -> None:
        write_kernel(self, written, value)
        if written == path:
            self.put(mode, "0\n")

    monkeypatch.setattr(QosNode, "write_kernel", resetting)
    for number in (6, 5):
        apply(host, rule(cnp={"priority": number}))
        assert (host.now(path), host.now(mode)) == (str(number), "0")
        host.forget()
        assert row(host, cnp={"priority": number}).status is Status.OK
        host.forget()
    revert.revert(host)
    assert (host.now(path), host.now(mode)) == ("6", "1")


# -- guards --------------------------------------------------------------------------------


def test_pfc_on_several_priorities_wants_to_be_allowed(host: QosNode) -> None:
    both = rule(pfc=[3, 4], global_pause=False)
    with pytest.raises(RefusedError, match=r"PFC on priorities 3,4: .*allow: \[pfc_priorities\]"):
        apply(host, both)
    assert host.bridge.pfc == set()
    apply(host, both, allow=["pfc_priorities"])
    assert host.bridge.pfc == {3, 4}


def test_so_it_does_in_an_image(host: QosNode) -> None:
    found = {
        number: engine.evaluate(host, request(rule(pfc=[3, 4][:number]), layers=(Layer.BOOT,))).rows[0].status
        for number in (1, 2)
    }
    assert found == {1: Status.DRIFTED, 2: Status.REFUSED}


def test_global_pause_excludes_pfc(host: QosNode) -> None:
    with pytest.raises(
        RefusedError, match=r"eth2: global pause is on \(rx, tx\), which excludes PFC: declare glob"
    ):
        apply(host, rule(pfc=[3]))
    host.nics["eth2"].pause = {"rx": 0, "tx": 0}
    apply(host, rule(pfc=[3]))
    assert host.bridge.pfc == {3}


def test_global_pause_that_nobody_can_read_may_be_on(host: QosNode) -> None:
    host.nics["eth2"].fails[0x12] = 5
    assert "global pause may be on" in row(host, pfc=[3]).reason


def test_no_pfc_needs_no_word_about_pause(host: QosNode) -> None:
    host.bridge.pfc = {3}
    assert row(host, pfc=[]).status is Status.DRIFTED


def test_a_nic_that_shall_pause_by_another_declaration_is_an_error(host: QosNode) -> None:
    pause = {"rules": [{"name": "all", "nics": {"names": ["eth2"]}, "pause": {"rx": True}}]}
    door.apply(host, Request("base", nic, pause))
    words = r"eth2: nic\.all\.pause\.rx \(declared by base\) wants global pause on"
    for groups in ({"global_pause": False}, {"pfc": [3]}):
        with pytest.raises(DeclarationError, match=words):
            apply(host, rule(**groups))
    assert row(host, pfc=[]).status is Status.OK
    assert row(host, trust="dscp").status is Status.DRIFTED


def test_the_management_path_is_not_reset(host: QosNode) -> None:
    host.carry("eth2")
    with pytest.raises(RefusedError, match=r"eth2: .*default route.*allow: \[management\]"):
        apply(host, rule(trust="dscp"))
    apply(host, rule(dscp={"26": 3}))  # a register of mlx5
    apply(host, rule(trust="dscp"), allow=["management"])


def test_a_running_job_is_not_disturbed(host: QosNode) -> None:
    for path, text in JOB.items():
        host.put(path, text)
    with pytest.raises(
        RefusedError, match=r"eth2: this change resets its link, under what runs here: Slurm job"
    ):
        apply(host, rule(pfc=[3], global_pause=False))
    apply(host, rule(ecn=[3], cnp={"dscp": 48}, traffic_class=106, rdma_cm_tos=106, ets=ROCE["ets"]))
    apply(host, rule(pfc=[3], global_pause=False), allow=["busy"])


def test_an_unknown_driver_is_expected_to_reset(host: QosNode) -> None:
    guards = QosGuards(host, (), Disruption.NONE)
    (setting,) = door.parse("qos", {"rules": [rule(dscp={"26": 3})]})
    assert isinstance(setting, QosSetting)
    found = {
        driver: guards.disruption(as_nic(setting), Target("eth2", driver), KnobFile(0, "", "", "", ()))
        for driver in ("mlx5_core", "netdevsim", "newdriver", None)
    }
    assert found == {
        "mlx5_core": Disruption.NONE,
        "netdevsim": Disruption.NONE,
        "newdriver": Disruption.LINK_RESET,
        None: Disruption.LINK_RESET,
    }


def test_a_play_may_want_no_reset_at_all(host: QosNode) -> None:
    (pause, pfc) = plan(host, rule(pfc=[3], global_pause=False), max_disruption="none").rows
    for one in (pause, pfc):
        assert one.status is Status.REFUSED
        assert "(driver mlx5_core); to do it all the same: max_disruption: link_reset" in one.reason


# -- pause frames that are negotiated ------------------------------------------------------


class Negotiating(Nic):
    """As igb: while it negotiates, what is asked for in its directions is ignored, and what both ends agree
    on is there a moment later. later: looks until then."""

    later = 0

    def _set_table(self, command: int, request: bytes) -> tuple[int, bytes]:
        answer = super()._set_table(command, request)
        if command == 0x12 and self.pause and self.pause.get("autoneg"):
            self.pause.update(rx=0, tx=0)
            self.later = 2
        return answer

    def _table(self, command: int) -> bytes:
        if command == 0x12 and self.pause and self.later:
            self.later -= 1
            if not self.later:
                self.pause.update(rx=1, tx=1)
        return super()._table(command)


PAUSE = {"autoneg": 1, "rx": 1, "tx": 1}


@pytest.fixture
def negotiating(host: QosNode) -> QosNode:
    host.nics = {**host.nics, "eth2": Negotiating(pause={**PAUSE})}
    return host


def test_pause_frames_are_off_for_good_where_they_were_negotiated(negotiating: QosNode) -> None:
    done = apply(negotiating, rule(global_pause=False))
    assert {one.status for one in done.rows} == {Status.CHANGED}
    assert negotiating.nics["eth2"].pause == {"autoneg": 0, "rx": 0, "tx": 0}
    writes = [path for path, _value in negotiating.writes if path.startswith("/ethtool/eth2/pause")]
    assert writes == ["/ethtool/eth2/pause/rx,tx,autoneg"], "one reset of the link"
    negotiating.forget()
    assert not apply(negotiating, rule(global_pause=False)).changed


def test_their_negotiation_goes_back_in_one_write(
    negotiating: QosNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.sleep", lambda _seconds: None)
    apply(negotiating, rule(global_pause=False))
    negotiating.writes.clear()
    negotiating.forget()
    revert.revert(negotiating)
    assert negotiating.nics["eth2"].pause == PAUSE
    writes = [pair for pair in negotiating.writes if pair[0].startswith("/ethtool/eth2/pause")]
    assert writes == [("/ethtool/eth2/pause/rx,tx,autoneg", "on on on")]


def test_what_is_negotiated_as_declared_may_be_another_thing_tomorrow(negotiating: QosNode) -> None:
    negotiating.nics["eth2"].pause = {"autoneg": 1, "rx": 0, "tx": 0}
    assert rows(negotiating, rule(global_pause=False))["global_pause"].status is Status.DRIFTED
    apply(negotiating, rule(global_pause=False))
    assert (negotiating.nics["eth2"].pause or {})["autoneg"] == 0


def test_a_boot_brings_them_where_an_operator_had_switched_them_off(negotiating: QosNode) -> None:
    _outcome, errors = boot_run.apply_each(negotiating, request(rule(global_pause=False)))
    assert errors == []
    assert negotiating.nics["eth2"].pause == {"autoneg": 0, "rx": 0, "tx": 0}


class Firm(Nic):
    """As ice: it does as it is told while it negotiates, and cannot be told not to."""

    def _set_table(self, command: int, request: bytes) -> tuple[int, bytes]:
        if command == 0x12 and not struct.unpack_from("=I", request, 4)[0]:
            raise OSError(errno.EOPNOTSUPP, "use ethtool -s")
        return super()._set_table(command, request)


def test_a_driver_that_always_negotiates_is_right_without_it(host: QosNode) -> None:
    host.nics = {**host.nics, "eth2": Firm(pause={**PAUSE})}
    done = apply(host, rule(global_pause=False))
    assert {one.status for one in done.rows} == {Status.CHANGED}
    assert host.nics["eth2"].pause == {"autoneg": 1, "rx": 0, "tx": 0}
    host.forget()
    calls = len(host.nics["eth2"].calls)
    again = apply(host, rule(global_pause=False))
    assert (again.changed, again.rows[0].status) == (False, Status.OK)
    assert 0x13 not in host.nics["eth2"].calls[calls:]
    host.forget()
    revert.revert(host)
    assert host.nics["eth2"].pause == PAUSE


# -- failures ------------------------------------------------------------------------------


@pytest.mark.parametrize("group", ["pfc", "ets", "app", "buffer"])
def test_what_a_driver_refuses_is_told_and_the_rest_is_set(host: QosNode, group: str) -> None:
    host.bridges["eth3"].refuses[group] = "Attribute write: Invalid argument"
    with pytest.raises(RefusedError, match=r"eth3: .*Attribute write: Invalid argument"):
        apply(host, ROCE)
    statuses = {key: one.status for key, one in rows(host, ROCE).items()}
    assert {key for key, status in statuses.items() if status is not Status.OK} == _OF_GROUP[group]


#: Objects of dcb → the settings that are set with them
_OF_GROUP = {"pfc": {"pfc"}, "ets": {"ets"}, "app": {"dscp", "trust"}, "buffer": {"buffer"}}


def test_an_unreadable_nic_is_unknown_and_left_alone(host: QosNode) -> None:
    host.bridge.prints["pfc"] = "nonsense"
    found = rows(host, {**ROCE})
    assert found["pfc"].status is Status.UNKNOWN
    assert "printed nonsense" in found["pfc"].reason


# -- the boot layer ------------------------------------------------------------------------


def test_the_agent_brings_it_back(host: QosNode) -> None:
    done = apply(host, ROCE)
    assert {one.reading.boot.source for one in done.rows} == {AGENT_UNIT}
    assert host.exists(management.RECORD)
    for bridge in host.bridges.values():
        if not bridge.none:
            bridge.pfc, bridge.apps = set(), set()
    found = rows(host, ROCE)
    assert {key for key, one in found.items() if one.status is Status.DRIFTED} >= {"pfc", "dscp", "trust"}
    outcome, errors = boot_run.apply_each(host, request(ROCE))
    assert errors == []
    assert {one.status for one in outcome.rows} <= {Status.OK, Status.CHANGED}
    assert host.bridge.pfc == {3}


def test_without_the_agent_a_boot_forgets_it(host: QosNode) -> None:
    host.remove("/usr/local/bin/mlnode")
    apply(host, rule(pfc=[3], global_pause=False))
    _pause, found = engine.evaluate(host, request(rule(pfc=[3], global_pause=False))).rows
    assert found.status is Status.DRIFTED
    assert "install the agent" in found.reason


def test_what_one_nic_refuses_at_boot_leaves_the_others_set(host: QosNode) -> None:
    host.bridge.refuses["ets"] = "Attribute write: Invalid argument"
    outcome, errors = boot_run.apply_each(host, request(ROCE))
    assert errors == []
    assert [one.setting.key for one in outcome.rows if one.status is Status.REFUSED] == ["qos.roce.ets"]
    assert host.bridges["eth3"].ets != Bridge().ets
    assert host.bridge.pfc == {3}


def test_after_a_boot_the_old_origin_is_nobodys(host: QosNode) -> None:
    apply(host, rule(pfc=[3], global_pause=False))
    host.put("/proc/sys/kernel/random/boot_id", "two\n")
    host.forget()
    host.bridge.pfc = {5}
    apply(host, rule(pfc=[3], global_pause=False))
    revert.revert(host)
    assert host.bridge.pfc == {5}


# -- two declarations ----------------------------------------------------------------------


def test_two_rules_for_one_nic_must_agree(host: QosNode) -> None:
    apply(host, {**rule(pfc=[3], global_pause=False), "name": "one"}, name="first")
    with pytest.raises(
        DeclarationError, match=r"both rule /dcb/eth2/pfc/prio-pfc, and one wants 4, the other 3"
    ):
        apply(host, {**rule(pfc=[4], global_pause=False), "name": "two"}, name="second")
    apply(host, {**rule(pfc=[3]), "name": "two"}, name="second")


# -- what else is told ---------------------------------------------------------------------


def test_who_else_negotiates_is_told(host: QosNode) -> None:
    host.link(LLDPAD, "/lib/systemd/system/lldpad.service")
    host.bridge.dcbx = ("lld_managed", "ieee")
    host.bridge.pfc = {3}
    found = row(host, pfc=[3], nics={"names": ["eth2"]})
    assert found.status is Status.OK
    assert "lldpad negotiates priorities with the switch" in found.reason
    assert "eth2: its firmware negotiates with the switch (DCBX lld-managed ieee)" in found.reason
    assert qos.boot_sources("qos.roce.pfc", host) == [
        f"{LLDPAD}: lldpad negotiates priorities with the switch, which may differ"
    ]


def test_nobody_else_is_told_where_nobody_is(host: QosNode) -> None:
    assert qos.boot_sources("qos.roce.pfc", host) == []


def test_who_cannot_be_told_is_told(host: QosNode, monkeypatch: pytest.MonkeyPatch) -> None:
    def unreadable(path: str) -> bool:
        raise HostError("look at", path, 13)

    monkeypatch.setattr(host, "is_link", unreadable)
    assert "EACCES" in qos.boot_sources("qos.roce.pfc", host)[0]


def test_a_rule_for_no_nic_here_says_what_is_here(host: QosNode) -> None:
    found = row(host, pfc=[3], nics={"names": ["eth9"]})
    assert found.status is Status.DRIFTED
    assert "no NIC here matches names eth9; here are: eth4" in found.reason


def test_what_the_switches_must_match(host: QosNode) -> None:
    assert qos_switch.words(plan(host, ROCE).rows) == [
        "global pause (IEEE 802.3x) off on the ports",
        "trust DSCP on the ports, towards nodes and between switches",
        "DSCP 26 in priority 3, DSCP 48 in priority 6",
        "PFC on priority 3 and on no other, on every port between two nodes",
        "ECN marking (RED or WRED with ECN) in the queue of priority 3",
        "strict priority for the queue of priority 6, for congestion notifications (DSCP 48)",
    ]
    assert qos_switch.words(plan(host, rule(pfc=[], global_pause=True)).rows) == []


def test_what_a_person_would_type(host: QosNode) -> None:
    only = {**ROCE, "nics": {"names": ["eth2"]}}
    prio = "prio-tc 0:0 1:0 2:0 3:1 4:0 5:0 6:2 7:0"
    tsa = "tc-tsa 0:ets 1:ets 2:strict 3:strict 4:strict 5:strict 6:strict 7:strict"
    sizes = "buffer-size 0:65536 1:131072 2:0 3:0 4:0 5:0 6:0 7:0"
    assert qos_switch.commands(host, plan(host, only).rows) == [
        "ethtool -A eth2 rx off tx off",
        "dcb app replace dev eth2 dscp-prio 26:3 48:6",
        f"dcb ets set dev eth2 {prio} {tsa} tc-bw 0:50 1:50 2:0 3:0 4:0 5:0 6:0 7:0",
        "dcb pfc set dev eth2 prio-pfc all:off 3:on",
        f"dcb buffer set dev eth2 prio-buffer 0:0 1:0 2:0 3:1 4:0 5:0 6:0 7:0 {sizes}",
        "echo 1 > /sys/class/net/eth2/ecn/roce_np/enable/3",
        "echo 1 > /sys/class/net/eth2/ecn/roce_rp/enable/3",
        "echo 48 > /sys/class/net/eth2/ecn/roce_np/cnp_dscp",
        "echo 6 > /sys/class/net/eth2/ecn/roce_np/cnp_802p_prio",
        "cma_roce_tos -d mlx5_0 -p 1 -t 106",
        "echo 106 > /sys/class/infiniband/mlx5_0/tc/1/traffic_class",
    ]
    assert qos_switch.commands(host, plan(host, rule(pfc=[])).rows) == [
        "dcb pfc set dev eth2 prio-pfc all:off"
    ]


# -- odd NICs ------------------------------------------------------------------------------


def test_a_folder_that_cannot_be_looked_into_is_unknown(
    host: QosNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    exists = host.exists

    def refusing(path: str) -> bool:
        if "/ecn" in path or path.startswith(("/usr/sbin/dcb", "/usr/sbin/mlnx_qos")):
            raise HostError("look at", path, 13)
        return exists(path)

    monkeypatch.setattr(host, "exists", refusing)
    found = rows(host, ROCE)
    for key in ("ecn", "cnp_dscp", "pfc"):
        assert found[key].status is Status.UNKNOWN
        assert "EACCES" in found[key].reason


def test_more_classes_than_the_nic_has_are_an_error(host: QosNode) -> None:
    host.bridge.ets_cap = 2
    with pytest.raises(DeclarationError, match="eth2: 3 traffic classes, and the NIC has 2"):
        apply(host, rule(ets=ROCE["ets"]))


def test_a_damaged_declaration_of_nics_pauses_nothing(host: QosNode) -> None:
    host.put(
        "/etc/mlnode/declared.d/base.json", '{"format": 1, "name": "base", "kinds": {"nic": {"rules": 3}}}'
    )
    assert row(host, pfc=[]).status is Status.OK


def test_negotiated_pause_pauses_what_it_is_allowed_to(host: QosNode) -> None:
    for pause in ({"autoneg": False, "rx": False}, {"autoneg": True}):
        declared = {"rules": [{"name": "all", "nics": {"names": ["eth2"]}, "pause": pause}]}
        door.apply(host, Request("base", nic, declared))
    assert {one.status for one in apply(host, rule(pfc=[3], global_pause=False)).rows} <= {
        Status.CHANGED,
        Status.OK,
    }


def test_a_rule_may_be_called_like_a_group() -> None:
    assert qos.option("qos.cnp_fast.pfc") is qos.option("qos.roce.pfc")
    assert qos.option("qos.cnp_dscp.cnp_dscp") is qos.option("qos.roce.cnp_dscp")


# -- other owners --------------------------------------------------------------------------

PROFILE = "/etc/NetworkManager/system-connections/a.nmconnection"
OWNED = rule(global_pause=False, pfc=[3], trust="dscp")


@pytest.fixture(name="owned")
def _owned(host: QosNode) -> QosNode:
    apply(host, OWNED)
    host.put("/sys/fs/cgroup/system.slice/NetworkManager.service/cgroup.procs", "1\n")
    return host


def profile(host: QosNode, lines: str) -> None:
    host.put(PROFILE, f"[connection]\ninterface-name=eth2\n{lines}\n")
    host.forget()


def lasting(host: QosNode) -> dict[str, Row]:
    """Rows with what a boot brings."""
    return {item.setting.key.rpartition(".")[2]: item for item in engine.evaluate(host, request(OWNED)).rows}


@cases.table
def test_a_profile_with_another_value_is_named(
    owned: QosNode, lines: str, group: str, status: str, words: str
) -> None:
    profile(owned, lines)
    found = lasting(owned)[group]
    assert str(found.status) == status
    assert (words in found.reason) if words else (PROFILE not in found.reason)


def test_a_profile_that_cannot_be_read_makes_what_it_may_set_unknown(owned: QosNode) -> None:
    profile(owned, "")
    owned.unreadable[PROFILE] = errno.EIO
    found = lasting(owned)
    assert {key for key, item in found.items() if item.status is Status.UNKNOWN} == {"global_pause", "pfc"}
    assert PROFILE in found["pfc"].reason


def test_an_explanation_lists_the_lines_of_other_programs(owned: QosNode) -> None:
    profile(owned, "[dcb]\npriority-flow-control=0,1\n[ethtool]\npause-rx=true")
    [words] = qos.boot_sources("qos.roce.pfc", owned)
    assert words.startswith(f"{PROFILE}:4: eth2 dcb/pfc 1 (NetworkManager); whether it takes effect")
    assert qos.boot_sources("qos.roce.global_pause", owned) == [
        f"{PROFILE}:6: eth2 pause/rx on (NetworkManager)"
    ]
    assert qos.boot_sources("qos.roce.trust", owned) == []
