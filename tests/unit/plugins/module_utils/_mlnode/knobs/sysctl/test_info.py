# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pathlib
from typing import Any

import pytest
import yaml
from ansible_collections.mlnode.tuning.tests.unit import cases
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


@cases.table
def test_swappiness_is_the_worse_the_higher(value: list[Any], severity: str) -> None:
    assert sysctl_info.info("vm.swappiness", Value(*value)).severity is Severity(severity)


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


@cases.table
def test_interface_keys_are_known_by_their_last_part(key: str, severity: str, known: bool) -> None:
    found = sysctl_info.info(key, Value())
    assert found.severity is Severity(severity)
    assert (UNKNOWN not in found.reason) is known
