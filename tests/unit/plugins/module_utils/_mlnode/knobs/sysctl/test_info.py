# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pathlib

import pytest
import yaml
from mlnode.knobs.sysctl import info as sysctl_info
from mlnode.knobs.sysctl import parse as sysctl_parse
from mlnode.model.setting import Severity, Value

COLLECTION = pathlib.Path(__file__).parents[7]
UNKNOWN = "declared by you"


def role_keys() -> list[str]:
    """Every sysctl that a profile declares."""
    found: list[str] = []
    for path in sorted(COLLECTION.glob("roles/node/profiles/*.yml")):
        found += yaml.safe_load(path.read_text(encoding="utf-8"))["sysctl"]["settings"]
    return found


def test_the_roles_declare_something() -> None:
    assert "vm.swappiness" in role_keys()


@pytest.mark.parametrize("key", role_keys())
def test_every_key_of_a_role_has_its_reason(key: str) -> None:
    assert UNKNOWN not in sysctl_info.info(key, Value()).reason
    assert sysctl_parse.canonical(key) == key


@pytest.mark.parametrize("key", sorted(sysctl_info.INFO))
def test_every_entry_is_complete_and_in_the_one_spelling(key: str) -> None:
    known = sysctl_info.INFO[key]
    assert known.severity in Severity
    assert known.reason
    assert known.source
    assert sysctl_parse.canonical(key) == key


@pytest.mark.parametrize(
    ("value", "severity"),
    [
        (Value(text="60"), Severity.HIGH),
        (Value(text="11"), Severity.HIGH),
        (Value(text="10"), Severity.MEDIUM),
        (Value(text=""), Severity.MEDIUM),
        (Value(absent="no"), Severity.MEDIUM),
    ],
)
def test_swappiness_is_the_worse_the_higher(value: Value, severity: Severity) -> None:
    assert sysctl_info.info("vm.swappiness", value).severity is severity


def test_reclaiming_the_local_node_is_a_choice_that_others_make() -> None:
    found = sysctl_info.info("vm.zone_reclaim_mode", Value("1"))
    assert found.severity is Severity.LOW
    assert all(name in f"{found.reason} {found.source}" for name in ("a choice", "hpc-compute", "Azure"))


def test_no_pool_is_said_to_be_wrong() -> None:
    """Training leaves it alone: DPDK, SPDK, WEKA and libfabric reserve theirs."""
    assert "0 unless" not in sysctl_info.info("vm.nr_hugepages", Value()).reason


def test_a_share_of_a_node_is_about_the_pool() -> None:
    pool = sysctl_info.info("vm.nr_hugepages", Value())
    assert sysctl_info.info("vm.nr_hugepages@node1/1048576kB", Value()) == pool


@pytest.mark.parametrize(
    ("key", "severity", "known"),
    [
        ("net.ipv4.conf.all.rp_filter", Severity.HIGH, True),
        ("net.ipv4.conf.eth0/100.rp_filter", Severity.HIGH, True),
        ("net.ipv4.conf.eth0.arp_announce", Severity.HIGH, True),
        ("net.ipv4.conf.eth0.forwarding", Severity.MEDIUM, False),
        ("net.ipv6.conf.all.disable_ipv6", Severity.MEDIUM, False),
        ("kernel.hostname", Severity.MEDIUM, False),
    ],
)
def test_interface_keys_are_known_by_their_last_part(key: str, severity: Severity, known: bool) -> None:
    found = sysctl_info.info(key, Value())
    assert found.severity is severity
    assert (UNKNOWN not in found.reason) is known
