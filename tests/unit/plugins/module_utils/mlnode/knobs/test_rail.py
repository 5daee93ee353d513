# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import errno
import pathlib
import re
from typing import Any

import pytest
from ansible_collections.mlnode.tuning.plugins.module_utils.mlnode import (
    engine,
    management,
    node,
    registry,
    revert,
)
from ansible_collections.mlnode.tuning.plugins.module_utils.mlnode.errors import (
    DeclarationError,
    RefusedError,
    TransactionError,
)
from ansible_collections.mlnode.tuning.plugins.module_utils.mlnode.kind import Row
from ansible_collections.mlnode.tuning.plugins.module_utils.mlnode.knobs import rail
from ansible_collections.mlnode.tuning.plugins.module_utils.mlnode.setting import Layer, Status
from ansible_collections.mlnode.tuning.tests.unit.machine import captured
from ansible_collections.mlnode.tuning.tests.unit.rail_machine import CONF

from .rail_node import RAILS, RailNode, apply, request, row, rows, rule

FIRST: dict[str, Any] = {"table": 1000, "gateway": "first"}

#: What RAILS comes to on this machine
ROUTED = [
    "10.1.0.0/24 via - dev eth2 table 1000",
    "10.1.0.0/24 via - dev eth3 table 1001",
    "20000: from 10.1.0.5 lookup 1000",
    "20000: from 10.1.0.6 lookup 1001",
    "default via 10.1.0.1 dev eth2 table 1000",
    "default via 10.1.0.1 dev eth3 table 1001",
]


@pytest.fixture(name="host")
def _host(tmp_path: pathlib.Path) -> RailNode:
    return RailNode.made(tmp_path / "node")


def knob(host: RailNode, nic: str, name: str) -> str:
    return host.now(f"{CONF}/{nic}/{name}")


def reboot(host: RailNode) -> None:
    """The kernel has forgotten all that was ours."""
    host.routes = [one for one in host.routes if one["protocol"] != "109"]
    host.rules = [one for one in host.rules if one.get("protocol") != "109"]
    host.forget()


def routing(host: RailNode) -> Row:
    """The row of RAILS as it is declared on the node."""
    host.forget()
    return engine.evaluate(host, request(RAILS)).rows[-1]


def kernel(host: RailNode) -> list[str]:
    return [repr(host.rules), repr(sorted(map(repr, host.routes)))]


def in_table(host: RailNode, number: str) -> list[str]:
    return [repr(one) for one in (*host.rules, *host.routes) if str(one.get("table")) == number]


# -- the whole of it -----------------------------------------------------------------------


def test_everything_is_set_once_and_stays(host: RailNode) -> None:
    done = apply(host, RAILS)
    assert {one.status for one in done.rows} == {Status.CHANGED}
    for nic in ("eth2", "eth3"):
        assert [knob(host, nic, name) for name in ("arp_ignore", "arp_announce", "rp_filter")] == list("122")
    assert knob(host, "eth4", "arp_ignore") == "0"
    assert host.ours() == ROUTED

    again = apply(host, RAILS)
    assert (again.changed, again.plan.steps) == (False, ())
    assert {one.status for one in again.rows} == {Status.OK}


def test_a_revert_brings_everything_back(host: RailNode) -> None:
    before, routing = host.tree(), kernel(host)
    apply(host, RAILS)
    revert.revert(host)
    assert (host.tree(), kernel(host)) == (before, routing)


def test_a_look_changes_nothing(host: RailNode) -> None:
    before = host.tree()
    found = rows(host, RAILS)
    assert {one.status for one in found.values()} == {Status.DRIFTED}
    assert found["arp_ignore"].reading.runtime.text == "eth2, eth3: 0"
    assert found["source_routing"].reading.runtime.text == (
        "eth2: nothing in table 1000; eth3: nothing in table 1001"
    )
    assert found["source_routing"].reading.target == (
        "eth2: table 1000 from 10.1.0.5: 10.1.0.0/24 dev eth2, default via 10.1.0.1 dev eth2; "
        "eth3: table 1001 from 10.1.0.6: 10.1.0.0/24 dev eth3, default via 10.1.0.1 dev eth3"
    )
    assert (host.tree(), host.calls) == (before, [])


def test_nothing_is_looked_at_in_an_image(host: RailNode) -> None:
    host.missing = True
    found = engine.evaluate(host, request(RAILS, layers=(Layer.BOOT,))).rows
    assert {one.status for one in found} == {Status.DRIFTED}
    apply(host, RAILS, layers=(Layer.BOOT,))
    found = engine.evaluate(host, request(RAILS, layers=(Layer.BOOT,))).rows
    assert {one.status for one in found} == {Status.OK}


def test_rails_are_applied_again_when_a_nic_arrives(host: RailNode) -> None:
    apply(host, RAILS)
    host.address("eth3", "10.1.0.6/24")  # its routes have gone with it
    host.knobs("eth3")
    host.forget()
    node.apply_all(host, registry.ON_ARRIVAL)
    assert host.ours() == ROUTED
    assert knob(host, "eth3", "arp_ignore") == "1"


def test_a_failure_puts_all_of_it_back(host: RailNode) -> None:
    before, routing = host.tree(), kernel(host)
    host.refuses["rule add from 10.1.0.6"] = "RTNETLINK answers: Operation not permitted"
    with pytest.raises(TransactionError, match="Operation not permitted") as raised:
        apply(host, RAILS)
    assert "put back" in str(raised.value)
    assert (host.tree(), kernel(host)) == (before, routing)


def test_what_the_kernel_does_not_take_is_no_success(host: RailNode) -> None:
    routing = kernel(host)
    host.idle.add("rule add")
    with pytest.raises(TransactionError, match="the kernel now shows 'none'"):
        apply(host, RAILS)
    assert kernel(host) == routing


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
    found = rail.mentions("rail.rails.rp_filter", host)
    assert sorted(text.partition(" ")[0] for text in found) == [
        f"/etc/sysctl.d/70-y.conf:{number}:" for number in (1, 2, 4)
    ]
    assert rail.mentions("rail.rails.source_routing", host) == []


# -- where the address is ------------------------------------------------------------------


def test_a_bond_has_the_address_of_its_members(host: RailNode) -> None:
    host.above("bond0", "bond", "eth2", "eth3")
    for name in ("eth2", "eth3"):
        host.address(name)
    host.address("bond0", "10.1.0.9/24")
    apply(host, {**RAILS, "nics": {"rails": [1]}})
    assert knob(host, "bond0", "arp_ignore") == "1"
    assert knob(host, "eth3", "arp_ignore") == "0"
    assert host.ours() == [
        "10.1.0.0/24 via - dev bond0 table 1000",
        "20000: from 10.1.0.9 lookup 1000",
        "default via 10.1.0.1 dev bond0 table 1000",
    ]
    found = rows(host, RAILS)["arp_ignore"]
    assert found.reading.note == (
        "eth2: its address is on bond0, which is what counts; "
        "eth3: its address is on bond0, which is what counts"
    )


def test_a_vlan_beside_an_address_of_the_nic_counts_too(host: RailNode) -> None:
    host.above("eth2.100", "vlan", "eth2")
    host.address("eth2.100", "10.2.0.5/24")
    apply(host, rule(arp_ignore=1))
    assert knob(host, "eth2", "arp_ignore") == knob(host, "eth2.100", "arp_ignore") == "1"
    found = rows(host, {**RAILS, "arp_ignore": None})["source_routing"]
    assert (found.status, found.reason) == (
        Status.UNKNOWN,
        "eth2, eth2.100 are of one rail, and would share the table 1000: name only one",
    )
    apply(host, RAILS)  # eth3 has nothing to do with it
    assert {text.rpartition(" ")[2] for text in host.ours()} == {"1001"}
    apply(host, rule("eth2.100", source_routing=FIRST))
    assert "20000: from 10.2.0.5 lookup 1000" in host.ours()


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
    host.missing = True
    apply(host, rule(arp_ignore=1))
    assert knob(host, "eth2", "arp_ignore") == "1"
    host.above("eth2.100", "vlan", "eth2")
    assert row(host, arp_ignore=2).status is Status.UNKNOWN
    assert row(host, source_routing=FIRST).status is Status.UNKNOWN


def test_a_captured_tree_can_be_judged(host: RailNode) -> None:
    apply(host, RAILS)
    tree = captured(host.root, rail.MOUNTS)
    found = {one.setting.key: one for one in engine.evaluate(tree, request(RAILS)).rows}
    assert found["rail.rails.arp_ignore"].status is Status.OK
    assert found["rail.rails.source_routing"].status is Status.UNKNOWN
    assert "is a captured tree, not a machine" in found["rail.rails.source_routing"].reason


def test_no_nic_is_told(host: RailNode) -> None:
    found = row(host, "eth9", arp_ignore=1)
    assert (found.status, "no NIC here matches" in found.reason) == (Status.DRIFTED, True)


# -- tables --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("routing", "addresses", "ways"),
    [
        ({"gateway": "last"}, ["10.1.0.5/24"], ["10.1.0.0/24 via -", "default via 10.1.0.254"]),
        ({"gateway": "none"}, ["10.1.0.5/24"], ["10.1.0.0/24 via -"]),
        ({"gateway": "first"}, ["10.1.0.5/31"], ["10.1.0.4/31 via -", "default via 10.1.0.4"]),
        ({"gateway": "last"}, ["10.1.0.4/31"], ["10.1.0.4/31 via -", "default via 10.1.0.5"]),
        ({"gateway": "first"}, ["10.1.0.6/30"], ["10.1.0.4/30 via -", "default via 10.1.0.5"]),
        ({"gateway": "10.1.0.9"}, ["10.1.0.5/24", "10.2.0.5/24"],
         ["10.1.0.0/24 via -", "10.2.0.0/24 via -", "default via 10.1.0.9"]),
        ({"gateway": "first", "to": ["10.1.0.0/24", "10.2.0.0/16", "10.8.0.0/16"]}, ["10.1.0.5/24"],
         ["10.1.0.0/24 via -", "10.2.0.0/16 via 10.1.0.1", "10.8.0.0/16 via 10.1.0.1"]),
        ({"gateway": "first", "to": ["10.1.0.0/24"]}, ["10.1.0.5/24"], ["10.1.0.0/24 via -"]),
        ({"gateway": "first", "to": ["0.0.0.0/0"]}, ["10.1.0.5/24"],
         ["10.1.0.0/24 via -", "default via 10.1.0.1"]),
    ],
)  # fmt: skip
def test_what_a_table_has(
    host: RailNode, routing: dict[str, Any], addresses: list[str], ways: list[str]
) -> None:
    host.address("eth2", *addresses)
    apply(host, rule(source_routing=routing))
    assert [text.partition(" dev ")[0] for text in host.ours() if "lookup" not in text] == ways
    assert [text for text in host.ours() if "lookup" in text] == [
        f"20000: from {text.partition('/')[0]} lookup 1000" for text in addresses
    ]
    assert row(host, source_routing=routing).status is not Status.UNKNOWN
    assert not apply(host, rule(source_routing=routing)).changed


@pytest.mark.parametrize(
    ("gateway", "addresses", "words"),
    [
        ("first", ["10.1.0.1/24"], "its gateway would be its own address 10.1.0.1"),
        ("first", ["10.1.0.4/31"], "its gateway would be its own address 10.1.0.4"),
        ("10.2.0.1", ["10.1.0.5/24"], "the gateway 10.2.0.1 is in none of its subnets (10.1.0.0/24)"),
        ("first", ["10.1.0.5/32"], "its address has no subnet (10.1.0.5/32) in which a gateway could be"),
        ("last", ["10.1.0.5/24", "10.2.0.5/24"], "it has several subnets (10.1.0.0/24, 10.2.0.0/24): name"),
    ],
)
def test_a_gateway_that_cannot_be_is_told(
    host: RailNode, gateway: str, addresses: list[str], words: str
) -> None:
    host.address("eth2", *addresses)
    found = row(host, source_routing={"gateway": gateway})
    assert (found.status, words in found.reason) == (Status.UNKNOWN, True)
    apply(host, rule(source_routing={"gateway": gateway}))
    assert host.ours() == []


@pytest.mark.parametrize("odd", ["10.9.0.100/32", "10.9.0.6/24"])
def test_an_odd_address_at_boot_keeps_no_other_nic_from_its_table(host: RailNode, odd: str) -> None:
    apply(host, RAILS)
    reboot(host)
    host.address("eth3", "10.1.0.6/24", odd)
    found = node.apply_all(host)
    assert host.ours() == [text for text in ROUTED if "1000" in text]
    assert not found.compliant
    assert routing(host).status is Status.UNKNOWN
    assert "eth3: it has several subnets" in routing(host).reason
    host.address("eth3", "10.1.0.6/24")
    apply(host, RAILS)
    assert host.ours() == ROUTED


def test_a_table_of_the_kernel_is_an_error(host: RailNode) -> None:
    with pytest.raises(DeclarationError, match="eth3: its table would be 253"):
        apply(host, {**RAILS, "source_routing": {"table": 252, "gateway": "first"}})


def test_a_new_address_takes_the_place_of_the_old_one(host: RailNode) -> None:
    apply(host, RAILS)
    host.address("eth2", "10.9.0.5/24")
    host.routes.append(
        {"dst": "10.1.0.0/24", "dev": "eth2", "table": "1000", "protocol": "109", "scope": "253", "flags": []}
    )
    host.forget()
    (found,) = [
        one for one in engine.evaluate(host, request(RAILS)).rows if one.setting.key.endswith("routing")
    ]
    assert found.status is Status.DRIFTED
    apply(host, RAILS)
    assert host.ours() == [
        "10.1.0.0/24 via - dev eth3 table 1001",
        "10.9.0.0/24 via - dev eth2 table 1000",
        "20000: from 10.1.0.6 lookup 1001",
        "20000: from 10.9.0.5 lookup 1000",
        "default via 10.1.0.1 dev eth3 table 1001",
        "default via 10.9.0.1 dev eth2 table 1000",
    ]
    revert.revert(host)
    assert host.ours() == []


def test_another_table_takes_the_place_of_the_old_one(host: RailNode) -> None:
    apply(host, rule(source_routing=FIRST))
    host.routes = [one for one in host.routes if one["protocol"] != "109"]  # the link was down for a moment
    apply(host, rule(source_routing={**FIRST, "table": 2000}))
    assert {text.rpartition(" ")[2] for text in host.ours()} == {"2000"}
    revert.revert(host)
    assert host.ours() == []


@pytest.mark.parametrize(
    ("addresses", "up", "words"),
    [
        ((), True, "eth2: it has no IPv4 address"),
        (("10.1.0.5/24",), False, "eth2: it is down, and the kernel keeps no routes of what is down"),
    ],
)
def test_a_rail_without_an_address_or_down_is_told_and_leaves_nothing(
    host: RailNode, addresses: tuple[str, ...], up: bool, words: str
) -> None:
    apply(host, RAILS)
    host.address("eth2", *addresses, up=up)  # its routes have gone, and its rule has not
    assert "20000: from 10.1.0.5 lookup 1000" in host.ours()
    for _again in range(2):
        apply(host, RAILS)
        assert host.ours() == [text for text in ROUTED if "1001" in text]
        found = routing(host)
        assert (found.status, found.reason) == (Status.UNKNOWN, words)
    host.address("eth2", "10.1.0.5/24")
    apply(host, RAILS)
    assert host.ours() == ROUTED
    revert.revert(host)
    assert host.ours() == []


def test_what_a_nic_had_goes_when_it_comes_into_a_vrf(host: RailNode) -> None:
    apply(host, RAILS)
    host.above("red", "vrf", "eth2")
    apply(host, RAILS)
    assert host.ours() == [text for text in ROUTED if "1001" in text]
    assert routing(host).status is Status.OK


# -- numbers and tables that move ----------------------------------------------------------


@pytest.mark.parametrize("bases", [(1000, 1001, 1000), (1001, 1000), (1000, 2000, 1999)])
def test_a_base_may_be_moved_by_one(host: RailNode, bases: tuple[int, ...]) -> None:
    for base in bases:
        apply(host, {**RAILS, "source_routing": {**FIRST, "table": base}})
        assert host.ours() == [
            text.replace("1001", str(base + 1)).replace("1000", str(base)) for text in ROUTED
        ]
        assert not apply(host, {**RAILS, "source_routing": {**FIRST, "table": base}}).changed
    revert.revert(host)
    assert host.ours() == []


def test_two_rules_may_swap_their_tables(host: RailNode) -> None:
    def both(first: int, second: int) -> list[dict[str, Any]]:
        tables = {"eth2": first, "eth3": second - 1}  # eth3 is rail 1
        return [
            {"name": name, "nics": {"names": [name]}, "source_routing": {**FIRST, "table": table}}
            for name, table in tables.items()
        ]

    for first, second in ((3000, 4000), (4000, 3000), (4000, 5000), (3000, 4000)):
        apply(host, *both(first, second))
        assert [text for text in host.ours() if "lookup" in text] == [
            f"20000: from 10.1.0.5 lookup {first}",
            f"20000: from 10.1.0.6 lookup {second}",
        ]
        assert not apply(host, *both(first, second)).changed


def test_the_rails_before_there_is_a_route_are_those_of_after(host: RailNode) -> None:
    host.carry("eth2")
    host.forget()
    apply(host, RAILS)
    expected = [text.replace("1001", "1000") for text in ROUTED if "1001" in text]
    assert host.ours() == expected
    reboot(host)
    host.carry()  # eth2 waits for its address
    host.address("eth2")
    host.forget()
    assert management.interfaces(host) != {}
    node.apply_all(host)
    assert host.ours() == expected


def test_the_management_path_is_kept_for_the_next_boot(host: RailNode) -> None:
    apply(host, RAILS)
    assert host.content(management.RECORD) == management.record(host)
    revert.revert(host)
    assert not host.exists(management.RECORD)


def test_a_nic_that_is_no_rail_needs_a_rule_of_its_own(host: RailNode) -> None:
    host.carry("eth2")  # so that eth4 is not on the management path, and eth2 is no rail
    host.forget()
    found = row(host, "eth4", "eth3", source_routing=FIRST)
    assert (
        found.reading.note
        == "eth4: it is no rail, so it has no number: give it a rule with a table of its own"
    )
    apply(host, rule("eth4", source_routing={**FIRST, "table": 3000}))
    assert "20000: from 192.0.2.7 lookup 3000" in host.ours()


def test_a_nic_in_a_vrf_has_a_table_already(host: RailNode) -> None:
    host.above("red", "vrf", "eth2")
    found = row(host, source_routing=FIRST)
    assert (found.status, found.reason) == (
        Status.UNSUPPORTED,
        "eth2: it is in the VRF red, which has a table of its own",
    )


# -- who else ------------------------------------------------------------------------------


@pytest.mark.parametrize("already", [False, True])
def test_a_table_with_a_rule_of_somebody_else_is_refused(host: RailNode, already: bool) -> None:
    if already:
        apply(host, RAILS)
    host.rules.append({"priority": 100, "src": "10.7.0.1", "table": "1001"})
    host.forget()
    before = in_table(host, "1001")
    with pytest.raises(
        RefusedError,
        match=r"eth3: the table 1001 has what is somebody else's: the rule pref 100 from 10\.7\.0\.1; choose",
    ):
        apply(host, RAILS)
    assert in_table(host, "1001") == before


def test_so_is_one_with_a_route_of_somebody_else(host: RailNode) -> None:
    host.routes.append(
        {
            "dst": "default",
            "gateway": "10.1.0.3",
            "dev": "eth2",
            "table": "1000",
            "protocol": "3",
            "flags": [],
        }
    )
    assert "the route to default via 10.1.0.3" in row(host, source_routing=FIRST).reason


@pytest.mark.parametrize(
    ("path", "text", "words"),
    [
        ("/etc/iproute2/rt_tables", "1000\tstorage\n", "1000 is storage in /etc/iproute2/rt_tables"),
        ("/etc/iproute2/rt_tables.d/x.conf", " 0x3e8 storage # x\n", "1000 is storage in"),
        ("/usr/share/iproute2/rt_protos", "109 them\n", "109 is them in /usr/share/iproute2/rt_protos"),
    ],
)
def test_a_number_with_a_name_is_somebody_elses(host: RailNode, path: str, text: str, words: str) -> None:
    host.put(path, text)
    found = row(host, source_routing=FIRST)
    assert (found.status, words in found.reason) == (Status.REFUSED, True)


def test_other_names_and_our_own_do_no_harm(host: RailNode) -> None:
    host.put("/etc/iproute2/rt_tables", "255 local\n254 main\n#1000 storage\n1002 x\n1000 mlnode\n")
    host.put("/etc/iproute2/rt_protos.d/mlnode.conf", "109 mlnode\n")
    host.put("/etc/iproute2/rt_tables.d/README", "1000 no\n")
    apply(host, RAILS)
    assert host.ours() == ROUTED


def test_a_name_given_later_is_no_drift(host: RailNode) -> None:
    apply(host, RAILS)
    host.put("/etc/iproute2/rt_tables", "1000 rail0\n")
    assert not apply(host, RAILS).changed


def test_systemd_networkd_may_take_them_away(host: RailNode) -> None:
    host.put("/run/systemd/netif/state", "")
    words = "ManageForeignRoutingPolicyRules=no and ManageForeignRoutes=no in networkd.conf"
    assert words in row(host, source_routing=FIRST).reading.note
    host.put(
        "/etc/systemd/networkd.conf",
        "[Network]\nManageForeignRoutes=no\n#ManageForeignRoutingPolicyRules=no\n",
    )
    assert "set ManageForeignRoutingPolicyRules=no in" in row(host, source_routing=FIRST).reading.note
    host.put("/etc/systemd/networkd.conf.d/x.conf", "[Network]\nManageForeignRoutingPolicyRules = false\n")
    assert row(host, source_routing=FIRST).reading.note == ""
    assert rail.mentions("rail.rails.source_routing", host) == []


# -- guards --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("groups", "words"),
    [
        ({"source_routing": FIRST}, "what it answers would take another way"),
        ({"rp_filter": 1}, "it drops what comes in on it and would be answered elsewhere"),
        ({"arp_ignore": 8}, "nobody finds its address any more"),
    ],
)
def test_the_management_path_is_not_cut_off(host: RailNode, groups: dict[str, Any], words: str) -> None:
    with pytest.raises(
        RefusedError, match=rf"eth4: it carries the default route.*{words}.*allow: \[management\]"
    ):
        apply(host, rule("eth4", **groups))
    assert host.ours() == []
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
    assert "it may carry the management path" in row(host, source_routing=FIRST).reason


# -- several rules -------------------------------------------------------------------------


def test_two_rules_may_not_want_one_file_to_be_different(host: RailNode) -> None:
    with pytest.raises(DeclarationError, match=r"rail.rails.rp_filter and rail.b.rp_filter both rule"):
        apply(host, rule(rp_filter=2), {"name": "b", "nics": {"names": ["eth2"]}, "rp_filter": 0})
    apply(host, rule(rp_filter=2))
    apply(host, {"name": "b", "nics": {"names": ["eth3"]}, "rp_filter": 0}, name="other")
    with pytest.raises(DeclarationError, match=r"declared by default"):
        apply(host, {"name": "b", "nics": {"rails": True}, "rp_filter": 0}, name="other")


@pytest.mark.parametrize("declarations", [1, 2])
def test_an_interface_has_one_table(host: RailNode, declarations: int) -> None:
    second = {"name": "b", "nics": {"names": ["eth2", "eth3"]}, "source_routing": {**FIRST, "table": 2000}}
    words = r"rail.rails.source_routing.* both rule eth2, and one wants the table \d+, the other \d+: let"
    rules, name, before = [rule(source_routing=FIRST), second], "default", []
    if declarations == 2:
        rules, name, words = [second], "other", "declared by default"
        apply(host, rule(source_routing=FIRST))
        before = host.ours()
    with pytest.raises(DeclarationError, match=words):
        apply(host, *rules, name=name)
    assert host.ours() == before


def test_two_rules_may_not_share_a_table(host: RailNode) -> None:
    apply(host, rule(source_routing=FIRST))
    other = {"name": "b", "nics": {"names": ["eth3"]}, "source_routing": {**FIRST, "table": 999}}
    with pytest.raises(DeclarationError, match="both rule /rail/table/1000/r"):
        apply(host, other, name="other")


def test_a_container_may_not(host: RailNode) -> None:
    host.read_only["/rail/table/1000/routes"] = "needs CAP_NET_ADMIN"
    found = row(host, source_routing=FIRST)
    assert (found.status, found.reason) == (Status.UNSUPPORTED, "needs CAP_NET_ADMIN")
