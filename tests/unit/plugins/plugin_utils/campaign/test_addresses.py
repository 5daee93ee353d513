# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pathlib
import socket
from typing import Any

import pytest
import yaml
from ansible_collections.mlnode.tuning.plugins.plugin_utils.campaign import addresses
from ansible_collections.mlnode.tuning.tests.unit import cases
from ansible_collections.mlnode.tuning.tests.unit.test_playbooks import ansible

NAMES: dict[str, dict[int, str]] = {
    "gpu001": {4: "10.0.0.1", 6: "2001:db8::1"},
    "gpu002": {4: "10.0.0.2", 6: "2001:db8::2"},
    "six": {6: "2001:db8::3"},
    "own": {},
}


def lookup(name: str) -> dict[int, str]:
    if name not in NAMES:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
    return NAMES[name]


@cases.table
def test_names_are_resolved_to_one_version(nodes: dict[str, Any], expected: dict[str, Any]) -> None:
    assert addresses.resolved(nodes, lookup) == (expected, "")


@pytest.mark.parametrize(
    ("nodes", "words"),
    [
        (
            {"gpu001": ["gpu001"], "gpu008": ["gpu008"], "gpu009": ["gpu009"]},
            "the controller cannot resolve gpu008, gpu009 (Name or service not known): give each node its",
        ),
        ({"a": ["nowhere"]}, "the controller cannot resolve nowhere of a (Name or service not known): "),
        ({"own": ["own"]}, "the controller cannot resolve own (it has loopback addresses only): "),
        ({"a": [], "b": "10.0.0.1", "c": None}, "no list of addresses is given for a, b, c: give each node"),
        (
            {"a": ["10.0.0.1"], "b": ["six"]},
            "rail 0: no IPv4 address of b and no IPv6 address of a, so that not all pairs can be measured: ",
        ),
        ({"a": ["x" * 300]}, "the controller cannot resolve xxx"),
    ],
)
def test_what_is_wrong_is_one_line_that_says_what_to_set(nodes: dict[str, Any], words: str) -> None:
    found, problem = addresses.resolved(nodes, lookup)

    assert found == {}
    assert problem.startswith(words)
    assert problem.endswith("campaign_addresses (host_vars), one for each rail")
    assert problem.isprintable()


def test_a_name_of_this_machine_alone_is_none() -> None:
    """With the resolver itself: an address of the loopback interface is another machine's own on each."""
    assert addresses.find("localhost") == {}


@pytest.mark.parametrize("name", ["", "a" * 300, "\x00", "x..y", "\udc80"])
def test_no_name_ends_it(name: str) -> None:
    found, problem = addresses.resolved({"a": [name]})

    assert (found, bool(problem)) == ({}, True)


def test_a_campaign_says_it_once(tmp_path: pathlib.Path) -> None:
    """`invalid` is the domain in which no name is (RFC 6761)."""
    local = {"ansible_connection": "local", "ansible_become": False}
    hosts = {f"gpu00{number}.invalid": local for number in (1, 2, 3)}
    (tmp_path / "hosts.yml").write_text(yaml.safe_dump({"training": {"hosts": hosts}}), encoding="utf-8")

    done = ansible("ansible-playbook", "-i", str(tmp_path / "hosts.yml"), "playbooks/campaign.yml")

    said = done.stdout + done.stderr
    assert done.returncode == 2
    assert "the controller cannot resolve gpu[001:003].invalid (" in said, said
    assert "give each node its campaign_addresses" in said
    assert "does not appear to be" not in said
    assert "round 1" not in said
