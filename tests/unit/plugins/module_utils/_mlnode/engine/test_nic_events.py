# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What starts the service of NICs, and how it waits for interrupts that drivers request later."""

from __future__ import annotations

import pathlib
import re
import subprocess

import pytest
from mlnode.engine import units


def commands() -> list[str]:
    """The shell commands of the service, as systemd passes them on."""
    found = re.findall(r"^ExecStart(?:Pre)?=\+/bin/sh -c '(.+)'$", units.NIC_UNIT, re.MULTILINE)
    return [text.replace("$$", "$") for text in found]


@pytest.fixture(name="node")
def _node(tmp_path: pathlib.Path) -> pathlib.Path:
    for name in ("irq/40/eth0-rx-0", "irq/41/eth0-tx-0", "irq/42"):
        (tmp_path / name).mkdir(parents=True)
    return tmp_path


def run(node: pathlib.Path, command: str) -> None:
    """A command on a folder in place of /proc/irq, without its pauses."""
    for path, name in (("/proc/irq", "irq"), ("/run/mlnode-nic/irqs", "seen"), (units.NIC_FLAG, "flag")):
        command = command.replace(path, str(node / name))
    subprocess.run(
        ["/bin/sh", "-c", command.replace("sleep 1", "echo pause >>" + str(node / "pauses"))], check=True
    )


def pauses(node: pathlib.Path) -> int:
    return len((node / "pauses").read_text().splitlines())


def test_an_unchanged_list_of_interrupts_takes_the_whole_wait(node: pathlib.Path) -> None:
    before, wait = commands()
    run(node, before)
    run(node, wait)
    assert not (node / "flag").exists()
    assert pauses(node) == 10


@pytest.mark.parametrize("name", ["irq/42/eth1-rx-0", "irq/43/eth1"])
def test_a_requested_interrupt_ends_the_wait_and_raises_the_flag(node: pathlib.Path, name: str) -> None:
    before, wait = commands()
    run(node, before)
    (node / name).mkdir(parents=True)
    run(node, wait)
    assert (node / "flag").exists()
    assert pauses(node) == 1


def test_so_does_one_that_is_given_back(node: pathlib.Path) -> None:
    before, wait = commands()
    run(node, before)
    (node / "irq/41/eth0-tx-0").rmdir()
    run(node, wait)
    assert (node / "flag").exists()


def test_a_node_without_requested_interrupts_waits(tmp_path: pathlib.Path) -> None:
    (tmp_path / "irq").mkdir()
    before, wait = commands()
    run(tmp_path, before)
    run(tmp_path, wait)
    assert not (tmp_path / "flag").exists()


def test_the_list_is_made_after_the_flag_is_removed_and_before_the_first_run() -> None:
    """A driver that requests an interrupt in between is seen by either of them."""
    lines = [line for line in units.NIC_UNIT.splitlines() if line.startswith("Exec")]
    order = ["/bin/rm -f", commands()[0], "apply --nics", "for second", "apply --nics"]
    assert [any(text in line for text in order) for line in lines[1:]] == [True] * len(order)
    assert all(text in line for text, line in zip(order, lines[1:]))
    # systemd removes the folder of the list.
    assert "RuntimeDirectory=mlnode-nic\n" in units.NIC_UNIT


def test_a_recovered_nic_starts_the_agent_and_a_virtual_interface_does_not() -> None:
    lines = units.UDEV.splitlines()
    virtual = lines.index('DEVPATH=="/devices/virtual/*", GOTO="mlnode_end"')
    (recovered,) = [line for line in lines if "ERROR_EVENT" in line]
    assert 'ENV{ERROR_EVENT}=="SUCCESSFUL_RECOVERY", ATTR{class}=="0x02*"' in recovered
    assert all("touch" not in line for line in lines[: virtual + 1])
