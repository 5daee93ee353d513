# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest
from ansible_collections.mlnode.tuning.tests.unit.dcb_machine import Bridge, DcbMachine
from ansible_collections.mlnode.tuning.tests.unit.strategies import quick
from hypothesis import given
from hypothesis import strategies as st
from mlnode.drivers.dcb import tools
from mlnode.model.errors import HostError

ETH0 = "/dcb/eth0"
TRUST = f"{ETH0}/trust/state"
SYSFS = "/sys/class/net/eth0/qos/trust"
BOTH = ("dcb", "mlnx_qos")


def changes(bridge: Bridge) -> list[str]:
    """The commands that change something."""
    return [" ".join(call) for call in bridge.calls if "show" not in call and "-a" not in call]


def test_the_kernels_tool_comes_first(machine: DcbMachine) -> None:
    machine.install(*BOTH)
    assert tools.name(machine) == "dcb"
    machine.install("mlnx_qos")
    assert tools.name(machine) == "mlnx_qos"
    machine.install()
    assert tools.name(machine) == ""


def test_an_interface_that_does_not_answer_is_unreadable(machine: DcbMachine, bridge: Bridge) -> None:
    bridge.fails["pfc"] = "Attribute read: No such device"
    value = machine.value(f"{ETH0}/pfc/prio-pfc")
    assert value.absent is None
    assert "dcb -j -N pfc show dev eth0: Attribute read: No such device" in (value.unreadable or "")


def test_a_tool_may_end_without_a_word(machine: DcbMachine, bridge: Bridge) -> None:
    bridge.fails["pfc"] = ""
    assert "it failed without a word" in (machine.value(f"{ETH0}/pfc/prio-pfc").unreadable or "")


def test_a_refusal_stands_alone_where_nobody_can_tell_why(machine: DcbMachine, bridge: Bridge) -> None:
    bridge.refuses["pfc"] = "Attribute write: Invalid argument"
    bridge.fails["dcbx"] = "Attribute read: No such device"
    with pytest.raises(HostError, match=r"Invalid argument$"):
        machine.write_kernel(f"{ETH0}/pfc/prio-pfc", "3")


# -- trust ---------------------------------------------------------------------------------


@pytest.mark.parametrize("tool", BOTH)
def test_trust_follows_from_the_priorities_of_dscps(machine: DcbMachine, bridge: Bridge, tool: str) -> None:
    machine.install(tool)
    assert machine.now(TRUST) == "pcp"
    machine.write_kernel(TRUST, "dscp")
    assert machine.now(TRUST) == "dscp"
    machine.write_kernel(TRUST, "pcp")
    assert machine.now(TRUST) == "pcp"
    assert bridge.apps == set()


def test_one_dscp_is_enough_for_trust(machine: DcbMachine, bridge: Bridge) -> None:
    """Of ice each entry stops the NIC's queues."""
    machine.write_kernel(TRUST, "dscp")
    assert bridge.apps == {(0, 0)}


def test_trust_that_is_there_is_left_alone(machine: DcbMachine, bridge: Bridge) -> None:
    bridge.apps = {(26, 3)}
    machine.write_kernel(TRUST, "dscp")
    assert changes(bridge) == []


def test_a_driver_may_say_what_it_trusts(machine: DcbMachine, bridge: Bridge) -> None:
    bridge.order = ["pcp", "dscp"]
    assert machine.now(TRUST) == "pcp+dscp"
    machine.write_kernel(TRUST, "dscp")
    assert bridge.order == ["dscp"]
    machine.write_kernel(TRUST, "pcp+dscp")
    assert bridge.order == ["pcp", "dscp"]
    machine.write_kernel(TRUST, "none")
    assert bridge.order == []
    assert changes(bridge) == [
        "dcb apptrust set dev eth0 order dscp",
        "dcb apptrust set dev eth0 order pcp dscp",
        "dcb apptrust set dev eth0 order",
    ]


def test_an_older_dcb_knows_no_apptrust(machine: DcbMachine, bridge: Bridge) -> None:
    machine.old = True
    bridge.order = ["pcp"]
    assert machine.now(TRUST) == "pcp"
    machine.write_kernel(TRUST, "dscp")
    assert machine.now(TRUST) == "dscp"
    assert bridge.order == ["pcp"]


def test_a_driver_that_cannot_say_it_trusts_nothing_else(machine: DcbMachine) -> None:
    with pytest.raises(HostError, match="the driver trusts pcp or dscp"):
        machine.write_kernel(TRUST, "port")


@pytest.mark.parametrize("tool", BOTH)
def test_the_vendors_file_comes_before_all_of_it(machine: DcbMachine, bridge: Bridge, tool: str) -> None:
    machine.install(tool)
    machine.put(SYSFS, "pcp\n")
    assert machine.now(TRUST) == "pcp"
    machine.write_kernel(TRUST, "dscp")
    assert machine.now(SYSFS) == "dscp"
    assert bridge.calls == []


@pytest.mark.parametrize("text", ["", "\n", "N/A\n", "dscp pcp\n", "\udcff\n"])
def test_the_vendors_file_is_unreadable_without_its_words(machine: DcbMachine, text: str) -> None:
    """It could not be written back."""
    machine.install("dcb")
    machine.put(SYSFS, text.encode("utf-8", "surrogateescape"))
    assert "expected pcp, dscp, both" in (machine.value(TRUST).unreadable or "")


# -- priorities of DSCPs -------------------------------------------------------------------


@pytest.mark.parametrize("tool", BOTH)
@pytest.mark.parametrize("single", [False, True])
def test_only_the_dscps_that_are_written_change(
    machine: DcbMachine, bridge: Bridge, tool: str, single: bool
) -> None:
    machine.install(tool)
    bridge.apps, bridge.single = {(26, 1), (46, 5)}, single
    machine.write_kernel(f"{ETH0}/dscp-prio/26,48", "3 6")
    assert bridge.apps == {(26, 3), (46, 5), (48, 6)}
    machine.write_kernel(f"{ETH0}/dscp-prio/26,48", "1 none")
    assert bridge.apps == {(26, 1), (46, 5)}


def test_a_dscp_may_have_several_priorities(machine: DcbMachine, bridge: Bridge) -> None:
    """Another program may have made it so, and a rollback has to bring it back."""
    bridge.apps = {(26, 1), (26, 2)}
    assert machine.now(f"{ETH0}/dscp-prio/26") == "1,2"
    machine.write_kernel(f"{ETH0}/dscp-prio/26", "3")
    assert bridge.apps == {(26, 3)}
    machine.write_kernel(f"{ETH0}/dscp-prio/26", "1,2")
    assert bridge.apps == {(26, 1), (26, 2)}


def test_what_is_there_is_not_added_again(machine: DcbMachine, bridge: Bridge) -> None:
    bridge.apps = {(26, 3)}
    machine.write_kernel(f"{ETH0}/dscp-prio/26", "3")
    assert changes(bridge) == []


@quick
@given(
    st.sets(st.tuples(st.integers(0, 63), st.integers(0, 7)), max_size=6),
    st.dictionaries(st.integers(0, 63), st.integers(0, 7), min_size=1, max_size=4),
)
def test_what_was_written_is_read_and_the_rest_stays(
    kept: DcbMachine, before: set[tuple[int, int]], wanted: dict[int, int]
) -> None:
    bridge = Bridge(apps=set(before))
    machine = kept
    machine.bridges = {"eth0": bridge}
    path = f"{ETH0}/dscp-prio/{','.join(str(dscp) for dscp in wanted)}"
    old = machine.now(path)
    machine.write_kernel(path, " ".join(str(priority) for priority in wanted.values()))
    rest = {pair for pair in before if pair[0] not in wanted}
    assert bridge.apps == rest | {*wanted.items()}
    machine.write_kernel(path, old)
    assert bridge.apps == before


# -- mlnx_qos ------------------------------------------------------------------------------


def test_the_vendors_tool_does_the_same(machine: DcbMachine, bridge: Bridge) -> None:
    machine.install("mlnx_qos")
    machine.write_kernel(f"{ETH0}/pfc/prio-pfc", "3")
    tsa = "/".join(["ets", "ets", *["strict"] * 6])
    machine.write_kernel(f"{ETH0}/ets/prio-tc,tc-tsa,tc-bw", f"0/0/0/1/0/0/0/0 {tsa} 40/60/0/0/0/0/0/0")
    machine.write_kernel(f"{ETH0}/buffer/prio-buffer,buffer-size", "0/0/0/1/0/0/0/0 4096/8192/0/0/0/0/0/0")
    assert changes(bridge) == [
        "mlnx_qos -i eth0 --pfc 0,0,0,1,0,0,0,0",
        f"mlnx_qos -i eth0 --prio_tc 0,0,0,1,0,0,0,0 --tsa {tsa.replace('/', ',')} --tcbw 40,60,0,0,0,0,0,0",
        "mlnx_qos -i eth0 --prio2buffer 0,0,0,1,0,0,0,0 --buffer_size 4096,8192,0,0,0,0,0,0",
    ]
    assert machine.now(f"{ETH0}/pfc/prio-pfc") == "3"
    assert machine.now(f"{ETH0}/ets/prio-tc,tc-tsa,tc-bw") == f"0/0/0/1/0/0/0/0 {tsa} 40/60/0/0/0/0/0/0"
    assert machine.now(f"{ETH0}/buffer/total-size") == "262144"
    assert machine.now(f"{ETH0}/dcbx/mode") == "host"
    machine.write_kernel(f"{ETH0}/pfc/prio-pfc", "none")
    assert bridge.pfc == set()


def test_what_it_cannot_do_is_told_in_its_words(machine: DcbMachine) -> None:
    machine.install("mlnx_qos")
    value = machine.value("/dcb/eth1/pfc/prio-pfc")
    assert value.absent is None
    assert "mlnx_qos -i eth1 -a: OSError: [Errno 95] Operation not supported" in (value.unreadable or "")


def test_buffers_that_it_does_not_support_are_absent(machine: DcbMachine, bridge: Bridge) -> None:
    machine.install("mlnx_qos")
    bridge.buffer = None
    assert "has no receive buffers that can be set" in (
        machine.value(f"{ETH0}/buffer/total-size").absent or ""
    )


def test_its_nonsense_is_unreadable(machine: DcbMachine, bridge: Bridge) -> None:
    machine.install("mlnx_qos")
    assert bridge.ets is not None
    bridge.ets["tc-tsa"][0] = "unknown"
    assert "it printed nonsense" in (machine.value(f"{ETH0}/ets/tc-tsa").unreadable or "")
