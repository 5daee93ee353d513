# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import errno
import pathlib
import re
from typing import Any

import pytest
from ansible_collections.mlnode.tuning.tests.unit import cases
from ansible_collections.mlnode.tuning.tests.unit.rail_machine import CONF
from mlnode.agent import node, registry
from mlnode.engine import engine, revert
from mlnode.knobs.rail.kind import kind as rail
from mlnode.model.errors import RefusedError
from mlnode.model.setting import Status
from mlnode.topology import management

from .node import RAILS, RailNode, apply, request, row, rows, rule


@pytest.fixture(name="host")
def _host(tmp_path: pathlib.Path) -> RailNode:
    return RailNode.made(tmp_path / "node")


def knob(host: RailNode, nic: str, name: str) -> str:
    return host.now(f"{CONF}/{nic}/{name}")


# -- the whole of it -----------------------------------------------------------------------


def test_every_rail_is_set(host: RailNode) -> None:
    done = apply(host, RAILS)
    assert {one.status for one in done.rows} == {Status.CHANGED}
    for nic in ("eth2", "eth3"):
        assert [knob(host, nic, name) for name in ("arp_ignore", "arp_announce", "rp_filter")] == list("122")
    assert knob(host, "eth4", "arp_ignore") == "0"


def test_a_row_is_of_all_its_nics(host: RailNode) -> None:
    found = rows(host, RAILS)["arp_ignore"].reading
    assert (found.runtime.text, found.want) == ("eth2, eth3: 0", "eth2, eth3: 1")


def test_rails_are_applied_again_when_a_nic_arrives(host: RailNode) -> None:
    apply(host, RAILS)
    host.knobs("eth3")
    host.forget()
    node.apply_all(host, registry.ON_ARRIVAL)
    assert knob(host, "eth3", "arp_ignore") == "1"


# -- `all` ---------------------------------------------------------------------------------


@pytest.mark.parametrize("own", [0, 1])
def test_where_all_counts_nothing_is_claimed(host: RailNode, own: int) -> None:
    host.knobs("all", arp_ignore=2)
    host.knobs("eth2", arp_ignore=own)
    words = (
        "eth2: net.ipv4.conf.all.arp_ignore is 2, and the kernel takes the greater of both: declare "
        "net.ipv4.conf.all.arp_ignore as 1 or less (sysctl_ml)"
    )
    found = row(host, arp_ignore=1)
    assert (found.status, found.reason) == (Status.REFUSED, words)
    with pytest.raises(RefusedError, match=re.escape(words)):
        apply(host, rule(arp_ignore=1))
    assert knob(host, "eth2", "arp_ignore") == str(own)


def test_a_smaller_all_does_not_count(host: RailNode) -> None:
    host.knobs("all", rp_filter=1)
    assert row(host, rp_filter=2).status is Status.DRIFTED
    host.knobs("all", rp_filter=2)
    assert row(host, rp_filter=2).status is Status.DRIFTED
    assert row(host, rp_filter=0).status is Status.REFUSED


def test_what_all_is_has_to_be_known(host: RailNode) -> None:
    host.unreadable[f"{CONF}/all/rp_filter"] = errno.EIO
    assert row(host, rp_filter=2).status is Status.UNKNOWN
    host.unreadable.clear()
    host.put(f"{CONF}/all/rp_filter", "many\n")
    found = row(host, rp_filter=2)
    assert (found.status, "it reads 'many'" in found.reason) == (Status.UNKNOWN, True)
    apply(host, rule(rp_filter=2))
    assert knob(host, "eth2", "rp_filter") == "0"


# -- sysctl.d ------------------------------------------------------------------------------


def test_what_sysctl_d_sets_at_boot_is_a_note(host: RailNode) -> None:
    host.put("/usr/lib/sysctl.d/60-x.conf", "net.ipv4.conf.*.rp_filter = 1\n-net.ipv4.conf.all.rp_filter\n")
    apply(host, rule(rp_filter=2))
    host.forget()
    (found,) = engine.evaluate(host, request(rule(rp_filter=2))).rows
    assert found.status is Status.OK
    assert found.reason == (
        "/usr/lib/sysctl.d/60-x.conf:1 sets net.ipv4.conf.*.rp_filter = 1, and the agent comes after it"
    )
    host.put("/etc/sysctl.d/70-y.conf", "net.ipv4.conf.eth2.rp_filter = 2\n")
    (found,) = engine.evaluate(host, request(rule(rp_filter=2))).rows
    assert (found.status, found.reason) == (Status.OK, "")


def test_what_networkd_sets_is_a_note_and_the_cause_of_a_drift(host: RailNode) -> None:
    apply(host, rule(rp_filter=2))
    host.put("/run/systemd/netif/state", "")
    where = "/etc/systemd/network/rails.network"
    host.put(where, "[Match]\nName=eth*\n[Network]\nIPv4ReversePathFilter=strict\n")
    host.forget()
    (found,) = engine.evaluate(host, request(rule(rp_filter=2))).rows
    assert found.status is Status.OK
    words = f"{where}:4 sets IPv4ReversePathFilter=strict"
    assert f"{words} whenever networkd configures eth2" in found.reason
    host.put("/proc/sys/net/ipv4/conf/eth2/rp_filter", "1\n")
    host.forget()
    (found,) = engine.evaluate(host, request(rule(rp_filter=2))).rows
    assert found.status is Status.DRIFTED
    assert f", as {words}" in found.reason


@pytest.mark.parametrize("value", ["2", "0x2", "02"])
def test_a_line_for_all_that_counts_more_is_an_override(host: RailNode, value: str) -> None:
    host.put("/etc/sysctl.d/70-y.conf", f"net.ipv4.conf.all.arp_ignore = {value}\n")
    apply(host, rule(arp_ignore=1))
    (found,) = engine.evaluate(host, request(rule(arp_ignore=1))).rows
    assert found.status is Status.OVERRIDDEN
    assert f"/etc/sysctl.d/70-y.conf:1 sets net.ipv4.conf.all.arp_ignore = {value}" in found.reason


def test_a_file_that_cannot_be_read_may_set_anything(host: RailNode) -> None:
    host.put("/etc/sysctl.d/70-y.conf", "")
    host.unreadable["/etc/sysctl.d/70-y.conf"] = errno.EIO
    apply(host, rule(arp_ignore=1))
    (found,) = engine.evaluate(host, request(rule(arp_ignore=1))).rows
    assert "whether it sets another value is unknown" in found.reason


def test_every_line_about_a_knob_is_mentioned(host: RailNode) -> None:
    host.put(
        "/etc/sysctl.d/70-y.conf",
        "net.ipv4.conf.eth2.rp_filter = 1\nnet.ipv4.conf.all.rp_filter=0\nnet.ipv4.conf.all.arp_ignore=0\n"
        "net.ipv4.conf.e*.rp_filter=2\n",
    )
    found = rail.boot_sources("rail.rails.rp_filter", host)
    assert sorted(text.partition(" ")[0] for text in found) == [
        f"/etc/sysctl.d/70-y.conf:{number}:" for number in (1, 2, 4)
    ]


# -- where the address is ------------------------------------------------------------------


def test_a_bond_has_the_address_of_its_members(host: RailNode) -> None:
    host.above("bond0", "bond", "eth2", "eth3")
    for name in ("eth2", "eth3"):
        host.address(name)
    host.address("bond0", "10.1.0.9/24")
    apply(host, {**RAILS, "nics": {"rails": [1]}})
    assert knob(host, "bond0", "arp_ignore") == "1"
    assert knob(host, "eth3", "arp_ignore") == "0"
    found = rows(host, RAILS)["arp_ignore"]
    assert found.reading.note == (
        "eth2: its address is on bond0, which is set instead; "
        "eth3: its address is on bond0, which is set instead"
    )


def test_an_address_of_ipv6_on_a_bond_counts_as_one_of_ipv4(host: RailNode) -> None:
    host.above("bond0", "bond", "eth2", "eth3")
    host.knobs("bond0")
    for name in ("eth2", "eth3"):
        host.address(name, f"fe80::{name[-1]}/64")
    host.address("bond0", "fe80::9/64", "fd00:7::9/64")
    found = rows(host, RAILS)["arp_ignore"].reading
    assert (found.runtime.text, found.want) == ("bond0: 0", "bond0: 1")


def test_a_vlan_beside_an_address_of_the_nic_counts_too(host: RailNode) -> None:
    host.above("eth2.100", "vlan", "eth2")
    host.address("eth2.100", "10.2.0.5/24")
    apply(host, rule(arp_ignore=1))
    assert knob(host, "eth2", "arp_ignore") == knob(host, "eth2.100", "arp_ignore") == "1"


def test_a_stack_without_an_address_is_the_nic_itself(host: RailNode) -> None:
    host.above("eth2.100", "vlan", "eth2")
    host.address("eth2")
    apply(host, rule(arp_ignore=1))
    assert knob(host, "eth2", "arp_ignore") == "1"
    assert knob(host, "eth2.100", "arp_ignore") == "0"


def test_a_macvlan_is_another_machine(host: RailNode) -> None:
    host.above("shim", "macvlan", "eth2")
    host.address("shim", "10.1.0.77/24")
    apply(host, rule(arp_ignore=1))
    assert knob(host, "shim", "arp_ignore") == "0"


def test_without_anything_above_it_no_address_has_to_be_known(host: RailNode) -> None:
    host.ip.missing = True
    apply(host, rule(arp_ignore=1))
    assert knob(host, "eth2", "arp_ignore") == "1"
    host.above("eth2.100", "vlan", "eth2")
    found = row(host, arp_ignore=2)
    assert (found.status, "install iproute2" in found.reason) == (Status.UNKNOWN, True)


def test_no_nic_is_told(host: RailNode) -> None:
    found = row(host, "eth9", arp_ignore=1)
    assert (found.status, "no NIC here matches" in found.reason) == (Status.DRIFTED, True)


# -- tables --------------------------------------------------------------------------------


def test_the_management_path_is_kept_for_the_next_boot(host: RailNode) -> None:
    apply(host, RAILS)
    assert host.content(management.RECORD) == management.record(host)
    revert.revert(host)
    assert not host.exists(management.RECORD)


# -- guards --------------------------------------------------------------------------------


@cases.table
def test_the_management_path_is_not_cut_off(host: RailNode, groups: dict[str, Any], words: str) -> None:
    with pytest.raises(
        RefusedError, match=rf"eth4: it carries the default route.*{words}.*allow: \[management\]"
    ):
        apply(host, rule("eth4", **groups))
    assert {knob(host, "eth4", name) for name in groups} == {"0"}
    apply(host, rule("eth4", **groups), allow=["management"])
    assert not apply(host, rule("eth4", **groups), allow=["management"]).changed


def test_what_cuts_nobody_off_is_done_there_too(host: RailNode) -> None:
    apply(host, rule("eth4", arp_ignore=1, arp_announce=2, rp_filter=2))
    assert knob(host, "eth4", "rp_filter") == "2"
    apply(host, rule("eth2", rp_filter=1))
    assert knob(host, "eth2", "rp_filter") == "1"


def test_a_path_that_nobody_knows_may_be_any(host: RailNode) -> None:
    host.carry()
    host.forget()
    assert management.unknown(host)
    assert "it may carry the management path" in row(host, rp_filter=1).reason


# -- several rules -------------------------------------------------------------------------


def test_a_container_may_not(host: RailNode) -> None:
    host.read_only[f"{CONF}/eth2/rp_filter"] = "/proc/sys is read-only"
    found = row(host, rp_filter=2)
    assert (found.status, found.reason) == (Status.UNSUPPORTED, "/proc/sys is read-only")
