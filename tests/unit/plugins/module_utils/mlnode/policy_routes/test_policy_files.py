# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import ipaddress
import json
import os
import pathlib

import pytest
from ansible_collections.mlnode.tuning.plugins.module_utils.mlnode.drivers import ALL
from ansible_collections.mlnode.tuning.plugins.module_utils.mlnode.errors import HostError
from ansible_collections.mlnode.tuning.plugins.module_utils.mlnode.host import Host
from ansible_collections.mlnode.tuning.plugins.module_utils.mlnode.policy_routes import files, ip, tables
from ansible_collections.mlnode.tuning.plugins.module_utils.mlnode.setting import Value
from ansible_collections.mlnode.tuning.tests.unit.nic_machine import Nic
from ansible_collections.mlnode.tuning.tests.unit.rail_machine import RailMachine
from ansible_collections.mlnode.tuning.tests.unit.strategies import quick
from hypothesis import given
from hypothesis import strategies as st

TABLE = "/rail/table/1000"
WAY = "10.1.0.0/24 dev eth0, default via 10.1.0.1 dev eth0"


@pytest.fixture(name="machine")
def _machine(tmp_path: pathlib.Path) -> RailMachine:
    return made(tmp_path / "node")


@pytest.fixture(name="kept", scope="module")
def _kept(tmp_path_factory: pytest.TempPathFactory) -> RailMachine:
    """One for all examples of a property, which takes long to make."""
    return made(tmp_path_factory.mktemp("node"))


def made(folder: pathlib.Path) -> RailMachine:
    machine = RailMachine.with_nics(str(folder), eth0=Nic())
    assert isinstance(machine, RailMachine)
    machine.wire()
    machine.address("eth0", "10.1.0.5/24", "10.1.0.6/24")
    return machine


# -- reading and writing -------------------------------------------------------------------


def test_an_empty_table_is_there(machine: RailMachine) -> None:
    for file in ("rules", "routes", "others"):
        assert machine.value(f"{TABLE}/{file}") == Value(text="none")
        assert machine.exists(f"{TABLE}/{file}")
    assert machine.names("/rail/table") == []
    assert machine.names("/rail") == ["nic", "table"]
    assert machine.names(TABLE) == ["others", "routes", "rules"]


def test_what_is_written_is_read(machine: RailMachine) -> None:
    machine.write_kernel(f"{TABLE}/routes", WAY)
    machine.write_kernel(f"{TABLE}/rules", "from 10.1.0.6, from 10.1.0.5")
    assert machine.now(f"{TABLE}/routes") == WAY
    assert machine.now(f"{TABLE}/rules") == "from 10.1.0.5, from 10.1.0.6"
    assert machine.names("/rail/table") == ["1000"]
    assert machine.ours() == [
        "10.1.0.0/24 via - dev eth0 table 1000",
        "20000: from 10.1.0.5 lookup 1000",
        "20000: from 10.1.0.6 lookup 1000",
        "default via 10.1.0.1 dev eth0 table 1000",
    ]
    for file in ("rules", "routes"):
        machine.write_kernel(f"{TABLE}/{file}", "none")
    assert machine.ours() == []


def test_only_what_differs_is_changed(machine: RailMachine) -> None:
    machine.write_kernel(f"{TABLE}/routes", WAY)
    machine.calls.clear()
    machine.write_kernel(f"{TABLE}/routes", WAY.replace("10.1.0.1", "10.1.0.254"))
    assert machine.calls == [
        "route del default via 10.1.0.1 dev eth0 table 1000 protocol 109",
        "route add default via 10.1.0.254 dev eth0 table 1000 protocol 109",
    ]


def test_what_is_somebody_elses_is_told_and_left(machine: RailMachine) -> None:
    machine.rules += [
        {"priority": 500, "src": "10.1.0.5", "table": "1000"},
        {"priority": 20000, "src": "10.1.0.5", "srclen": 24, "table": "1000", "protocol": "109"},
        {"priority": 900, "src": "10.1.0.5", "table": "1000", "protocol": "109"},
    ]
    machine.routes.append(
        {
            "dst": "default",
            "gateway": "10.1.0.9",
            "dev": "eth0",
            "table": "1000",
            "protocol": "3",
            "flags": [],
        }
    )
    machine.routes.append(
        {"dst": "10.7.0.0/16", "dev": "eth0", "metric": 5, "table": "1000", "protocol": "109", "flags": []}
    )
    before = repr((machine.rules, machine.routes))
    assert machine.now(f"{TABLE}/rules") == machine.now(f"{TABLE}/routes") == "none"
    told = machine.now(f"{TABLE}/others")
    for words in ("pref 500 from 10.1.0.5", "srclen 24", "pref 900", "to default via 10.1.0.9", "metric 5"):
        assert words in told
    machine.write_kernel(f"{TABLE}/routes", "none")
    machine.write_kernel(f"{TABLE}/rules", "none")
    assert repr((machine.rules, machine.routes)) == before


def test_addresses_of_an_interface(machine: RailMachine) -> None:
    path = "/rail/nic/eth0/addresses"
    assert machine.now(path) == "10.1.0.5/24 10.1.0.6/24"
    machine.addresses["eth0"] = [
        {"family": "inet", "local": "10.3.0.7", "address": "10.3.0.8", "prefixlen": 32, "scope": "0"},
        {"family": "inet", "local": "169.254.1.1", "prefixlen": 16, "scope": "253"},
    ]
    assert machine.now(path) == "10.3.0.7/32=10.3.0.8/32"
    (found,) = files.parse_addresses(machine.now(path))
    assert (str(found.ip), str(found.network)) == ("10.3.0.7", "10.3.0.8/32")
    machine.addresses["eth0"] = []
    assert machine.now(path) == "none"
    assert files.parse_addresses("none") == []
    assert machine.value("/rail/nic/eth9/addresses").absent == "there is no interface eth9"
    assert not machine.exists("/rail/nic/eth9/addresses")
    assert machine.names("/rail/nic/eth0") == ["addresses"]
    assert "eth0" in machine.names("/rail/nic")


@pytest.mark.parametrize(
    "path",
    ["/rail/x", "/rail/table/0/rules", "/rail/table/4294967296/rules", "/rail/table/01/rules",
     "/rail/table/x/rules", "/rail/table/1000/x", "/rail/table/1000/rules/x", "/rail/nic/../addresses"],
)  # fmt: skip
def test_what_can_be_no_file_is_absent(machine: RailMachine, path: str) -> None:
    assert machine.value(path).absent == f"{path} does not exist"
    assert not machine.exists(path)


@pytest.mark.parametrize(
    ("file", "value"),
    [("rules", "from all"), ("rules", "from 10.1.0.5 lookup 4"), ("rules", "from 10.1.0.256"), ("rules", ""),
     ("routes", "default"), ("routes", "default dev "), ("routes", "10.1.0.1/24 dev eth0"),
     ("routes", "10.1.0.0/24 dev eth0 metric 5"), ("routes", "10.1.0.0/24 dev a b")],
)  # fmt: skip
def test_what_is_no_rule_or_route_reaches_no_tool(machine: RailMachine, file: str, value: str) -> None:
    with pytest.raises(HostError, match="cannot"):
        machine.write_kernel(f"{TABLE}/{file}", value)
    assert machine.calls == []


def test_what_is_told_takes_no_value(machine: RailMachine) -> None:
    for path in (f"{TABLE}/others", "/rail/nic/eth0/addresses"):
        with pytest.raises(HostError, match="is told here, and not set"):
            machine.write_kernel(path, "none")
        assert "is told here" in machine.blocked(path)
    assert machine.blocked(f"{TABLE}/rules") == ""


# -- what goes wrong -----------------------------------------------------------------------


def test_a_refusal_has_the_tools_words(machine: RailMachine) -> None:
    machine.refuses["route add"] = "Error: Nexthop has invalid gateway."
    with pytest.raises(HostError, match=r"cannot run ip -4 route add 10.1.0.0/24 .*invalid gateway"):
        machine.write_kernel(f"{TABLE}/routes", WAY)


def test_without_the_tool_nothing_is_known_and_nothing_absent(machine: RailMachine) -> None:
    machine.missing = True
    found = machine.value(f"{TABLE}/rules")
    assert found.absent is None
    assert "ip is not installed: install iproute2" in (found.unreadable or "")


@pytest.mark.parametrize(
    ("what", "printed", "path"),
    [("rule", "nonsense", "rules"), ("rule", '{"a": 1}', "rules"), ("rule", '[{"table": "x"}]', "rules"),
     ("rule", '[{"table": "5", "priority": 20000, "src": "x", "protocol": "109"}]', "rules"),
     ("route", "[1]", "routes"), ("route", '[{"dst": 1}]', "routes"), ("route", "[" * 100000, "routes"),
     ("route", '[{"dst": "x/y", "dev": "eth0", "table": "5", "protocol": "109"}]', "routes"),
     ("addr", '[{"addr_info": []}]', "nic"),
     ("addr", '[{"ifname": "a", "addr_info": [{"family": "inet", "scope": "0", "prefixlen": 24}]}]', "nic"),
     ("addr", '[{"ifname": "a", "addr_info": 7}]', "nic")],
)  # fmt: skip
def test_nonsense_is_unreadable(machine: RailMachine, what: str, printed: str, path: str) -> None:
    machine.prints[what] = printed
    found = machine.value("/rail/nic/eth0/addresses" if path == "nic" else f"{TABLE}/{path}")
    assert "it printed what makes no sense" in (found.unreadable or "")


def test_old_tools_leave_holes(machine: RailMachine) -> None:
    """iproute2 before 5.1 prints {} for an interface without such an address, and nothing for no route."""
    machine.prints["addr"] = (
        '[{},{"ifname":"eth0","addr_info":[{},{"family":"inet","local":"10.1.0.5","prefixlen":24,'
        '"scope":"global"}]}]'
    )
    machine.prints["route"] = " "
    assert machine.now("/rail/nic/eth0/addresses") == "10.1.0.5/24"
    assert machine.now(f"{TABLE}/routes") == "none"


# -- captured trees ------------------------------------------------------------------------


def test_a_captured_tree_answers_as_the_machine_did(machine: RailMachine, tmp_path: pathlib.Path) -> None:
    machine.write_kernel(f"{TABLE}/routes", WAY)
    machine.write_kernel(f"{TABLE}/rules", "from 10.1.0.5")
    machine.put("/rail/ip.json", json.dumps(ip.capture(ip.Ip(machine))))
    tree = Host(machine.root, ALL)
    for path in (f"{TABLE}/routes", f"{TABLE}/rules", f"{TABLE}/others", "/rail/nic/eth0/addresses"):
        assert tree.value(path) == machine.value(path)
    with pytest.raises(HostError, match="EROFS"):
        tree.write_kernel(f"{TABLE}/rules", "none")


@pytest.mark.parametrize(
    ("content", "words"),
    [("", "damaged"), ("[]", "damaged"), ('{"format": 2}', "its format is 2"), ('{"format": 1}', "damaged"),
     ('{"format": 1, "answers": []}', "damaged"), ('{"format": 1, "answers": {}}', "rules were not captured"),
     ('{"format": 1, "answers": {"rules": {}}}', "makes no sense")],
)  # fmt: skip
def test_a_damaged_capture_is_unreadable(machine: RailMachine, content: str, words: str) -> None:
    machine.put("/rail/ip.json", content)
    assert words in (Host(machine.root, ALL).value(f"{TABLE}/rules").unreadable or "")


def test_a_tree_without_a_capture_is_unreadable(machine: RailMachine) -> None:
    found = Host(machine.root, ALL).value(f"{TABLE}/rules")
    assert "is a captured tree, not a machine" in (found.unreadable or "")
    os.makedirs(f"{machine.root}/rail/ip.json")
    assert Host(machine.root, ALL).value(f"{TABLE}/rules").unreadable


def test_what_could_not_be_asked_stays_unreadable(machine: RailMachine) -> None:
    machine.refuses["rule"] = "no"
    assert {*ip.capture(ip.Ip(machine))["answers"]} == {"addresses", "routes"}


# -- properties ----------------------------------------------------------------------------

_NETWORKS = st.tuples(st.integers(0, (1 << 32) - 1), st.integers(0, 32)).map(
    lambda pair: tables.normal(str(ipaddress.IPv4Network((pair[0], pair[1]), strict=False)))
)
_HOSTS = st.ip_addresses(v=4).map(str)
_NICS = st.from_regex(r"[a-z][a-z0-9.@_-]{0,14}", fullmatch=True)


@given(
    st.lists(
        st.builds(tables.Route, st.just(7), _NETWORKS, st.one_of(st.just(""), _HOSTS), _NICS, st.just(""))
    )
)
@quick
def test_routes_survive_as_text(routes: list[tables.Route]) -> None:
    text = tables.routes_text(routes)
    assert {*tables.parse_routes(7, text)} == {*routes}
    assert tables.routes_text(tables.parse_routes(7, text)) == text


@given(st.lists(st.builds(tables.Rule, st.just(7), _HOSTS, st.just(""))))
@quick
def test_rules_survive_as_text(rules: list[tables.Rule]) -> None:
    text = tables.rules_text(rules)
    assert {*tables.parse_rules(7, text)} == {*rules}


@given(st.text())
@quick
def test_no_path_and_no_value_makes_more_than_a_host_error(kept: RailMachine, text: str) -> None:
    for path in (f"/rail/{text}", f"/rail/table/{text}/rules", f"/rail/nic/{text}/addresses"):
        kept.value(path)
        kept.names(path)
        kept.exists(path)
        kept.blocked(path)
    for file in ("rules", "routes"):
        try:
            kept.write_kernel(f"{TABLE}/{file}", text)
        except HostError:
            continue
