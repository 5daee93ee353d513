# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reasons for a rail without an IPv6 address; tests/system/test_ipv6_rails.py asks the kernel."""

from __future__ import annotations

import errno
import pathlib

import pytest
from ansible_collections.mlnode.tuning.tests.fixtures.fabric_files import gid
from ansible_collections.mlnode.tuning.tests.unit import cases
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine
from ansible_collections.mlnode.tuning.tests.unit.rdma_bench import PORT, of_port
from mlnode.checks.model import Verdict
from mlnode.checks.rdma import ipv6
from mlnode.model.cause import DIFFERS, NOTE

CONF = "/proc/sys/net/ipv6/conf/rail0"
USUAL = {"disable_ipv6": 0, "addr_gen_mode": 0, "accept_ra": 1, "forwarding": 0, "autoconf": 1}


def node(tmp_path: pathlib.Path, **changed: int | str) -> Machine:
    machine = Machine.debian(str(tmp_path / "node"))
    furnish(machine, **changed)
    return machine


def furnish(machine: Machine, **changed: int | str) -> None:
    for key, value in {**USUAL, **changed}.items():
        machine.put(f"{CONF}/{key}", f"{value}\n")
    machine.put("/proc/sys/net/ipv6/conf/all/disable_ipv6", "0\n")


@cases.table
def test_a_value_is_named_with_the_line_that_sets_it(
    tmp_path: pathlib.Path, changed: dict[str, int], files: dict[str, str], words: str, remedy: str
) -> None:
    machine = node(tmp_path, **changed)
    for path, text in files.items():
        machine.put(path, text)
    lack = ipv6.explain(machine, "rail0")
    assert lack is not None
    assert (lack.words, lack.remedy) == (words, remedy)
    for path in {*files} - {"/run/systemd/netif/state"}:
        assert any(path in cause.file + cause.text for cause in lack.causes)


@cases.table
def test_nothing_is_said_if_an_address_is_possible(
    tmp_path: pathlib.Path, changed: dict[str, int], files: dict[str, str]
) -> None:
    machine = node(tmp_path, **changed)
    for path, text in files.items():
        machine.put(path, text)
    assert ipv6.explain(machine, "rail0") is None


@pytest.mark.parametrize("key", USUAL)
@pytest.mark.parametrize("number", [errno.EACCES, errno.EIO])
def test_a_value_that_cannot_be_read_is_a_reason(tmp_path: pathlib.Path, key: str, number: int) -> None:
    machine = node(tmp_path)
    machine.unreadable[f"{CONF}/{key}"] = number
    lack = ipv6.explain(machine, "rail0")
    assert lack is not None
    assert [cause.code for cause in lack.causes] == [NOTE]
    assert f"{CONF}/{key}" in lack.words


@pytest.mark.parametrize("text", ["", "yes", "0x", "1 1", "\N{ARABIC-INDIC DIGIT ONE}", "9" * 100_000])
def test_a_value_that_is_no_number_is_a_reason(tmp_path: pathlib.Path, text: str) -> None:
    lack = ipv6.explain(node(tmp_path, accept_ra=text), "rail0")
    assert lack is not None
    assert len(lack.words) < 300


def test_a_kernel_without_a_key_has_no_reason_by_it(tmp_path: pathlib.Path) -> None:
    machine = node(tmp_path)
    machine.remove(f"{CONF}/addr_gen_mode")
    assert ipv6.explain(machine, "rail0") is None


@pytest.mark.parametrize(
    ("line", "words", "remedy"),
    [
        (
            "ro ipv6.disable=1 quiet",
            "the kernel has no IPv6, by ipv6.disable=1 on the kernel command line",
            True,
        ),
        ("ro ipv6.disable=0", "the kernel has no IPv6", False),
        ("ro", "the kernel has no IPv6", False),
    ],
)
def test_a_kernel_without_ipv6(tmp_path: pathlib.Path, line: str, words: str, remedy: bool) -> None:
    machine = Machine.debian(str(tmp_path / "node"))
    machine.put("/proc/cmdline", f"{line}\n")
    lack = ipv6.explain(machine, "rail0")
    assert lack is not None
    assert (lack.words, bool(lack.remedy)) == (words, remedy)


def test_a_captured_tree_without_these_files_has_no_reason(tmp_path: pathlib.Path) -> None:
    machine = Machine(str(tmp_path))
    machine.put("/proc/cmdline", "ro ipv6.disable=1\n")
    assert ipv6.explain(machine, "rail0") is None


def test_an_interface_without_ipv6(tmp_path: pathlib.Path) -> None:
    machine = Machine.debian(str(tmp_path / "node"))
    machine.put("/proc/sys/net/ipv6/conf/all/disable_ipv6", "0\n")
    lack = ipv6.explain(machine, "rail0")
    assert lack is not None
    assert [cause.code for cause in lack.causes] == [DIFFERS]
    assert "MTU is below 1280" in lack.words


def test_files_of_others_that_cannot_be_read_are_named(tmp_path: pathlib.Path) -> None:
    machine = node(tmp_path, accept_ra=0)
    machine.put("/etc/sysctl.d/50-site.conf", "net.ipv6.conf.rail0.accept_ra = 0\n")
    machine.unreadable["/etc/sysctl.d/50-site.conf"] = errno.EIO
    lack = ipv6.explain(machine, "rail0")
    assert lack is not None
    assert "/etc/sysctl.d/50-site.conf" in lack.words


# -- in the checks -------------------------------------------------------------------------


def test_a_port_with_link_local_addresses_only_names_the_reason(roce: Machine) -> None:
    for index in range(8):
        roce.put(f"{PORT}/gids/{index}", f"{gid('fe80::1' if index == 0 else '::')}\n")
    roce.put(f"{PORT}/gid_attrs/types/0", "RoCE v2\n")
    roce.put(f"{PORT}/gid_attrs/ndevs/0", "rail0\n")
    furnish(roce)
    before = of_port(roce, "gid")
    furnish(roce, accept_ra=0)
    roce.put("/etc/sysctl.d/50-site.conf", "net.ipv6.conf.rail0.accept_ra = 0\n")
    check = of_port(roce, "gid")
    assert check.verdict is before.verdict is Verdict.WARN
    assert check.found.startswith(before.found)
    assert "/etc/sysctl.d/50-site.conf:1 sets net.ipv6.conf.rail0.accept_ra = 0" in check.found
    assert check.advice.endswith("for an IPv6 address set net.ipv6.conf.rail0.accept_ra = 1")


def test_a_port_with_an_ipv4_address_needs_no_reason(roce: Machine) -> None:
    furnish(roce, disable_ipv6=1)
    assert of_port(roce, "gid").verdict is Verdict.PASS
