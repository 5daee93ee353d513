# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the services of the agent may do, judged by systemd itself."""

from __future__ import annotations

import pathlib
import re
import shutil
import subprocess

import pytest
from ansible_collections.mlnode.tuning.tests.unit.repository import ROOT
from mlnode.engine import units
from mlnode.host.places import AGENT_UNITS, CHECK_SERVICE, PULL_SERVICE, WATCH_SERVICE
from mlnode.linux import grub

_APPLY, _NIC, _PATH = AGENT_UNITS

#: Service → its greatest exposure, by systemd 252 to 257: what applies sets what a sandbox would protect, and
#: docs/guide/security.md has the reason for each point. Before, they were at 4.5, 4.5, 4.6 and 4.8.
EXPOSURE = {_APPLY: 3.6, _NIC: 3.6, CHECK_SERVICE: 2.7, WATCH_SERVICE: 2.7, PULL_SERVICE: 4.0}

TEXTS = {pathlib.PurePosixPath(path).name: text for path, text in units.TEXTS.items()}


def lines(unit: str, name: str) -> list[str]:
    return re.findall(rf"^{name}=(.*)$", TEXTS[unit], re.MULTILINE)


def words(unit: str, name: str) -> set[str]:
    return {word for line in lines(unit, name) for word in line.split()}


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="there is no systemd-analyze(1)")
@pytest.mark.parametrize("unit", EXPOSURE)
def test_systemd_finds_little_exposure(unit: str, tmp_path: pathlib.Path) -> None:
    (tmp_path / unit).write_text(TEXTS[unit], encoding="ascii")
    command = ["systemd-analyze", "security", "--offline=true", "--no-pager", str(tmp_path / unit)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    (found,) = re.findall(rf"exposure level for {unit}: ([0-9.]+) ", done.stdout)
    assert float(found) <= EXPOSURE[unit], done.stdout


@pytest.mark.parametrize("unit", EXPOSURE)
def test_each_point_that_stays_open_has_its_reason(unit: str) -> None:
    text = (ROOT / "docs/guide/security.md").read_text(encoding="utf-8")
    open_points = {word for word in words(unit, "CapabilityBoundingSet") if word.startswith("CAP_")}
    open_points |= {word for word in words(unit, "SystemCallFilter") if word.startswith("@")}
    open_points |= words(unit, "RestrictAddressFamilies")
    missing = {word for word in open_points if f"`{word}`" not in text}
    assert missing == {"@system-service"} & missing


def test_who_checks_may_set_nothing() -> None:
    """Nor may it load a module, or mount."""
    setting = {
        "CAP_SYS_ADMIN",
        "CAP_NET_ADMIN",
        "CAP_SYS_MODULE",
        "CAP_DAC_OVERRIDE",
        "CAP_CHOWN",
        "CAP_FOWNER",
    }
    assert not words(CHECK_SERVICE, "CapabilityBoundingSet") & setting
    assert not words(CHECK_SERVICE, "SystemCallFilter") & {"@module", "@mount"}


def test_who_writes_as_another_user_can_become_one() -> None:
    assert {"CAP_SETUID", "CAP_SETGID", "CAP_KILL"} <= words(CHECK_SERVICE, "CapabilityBoundingSet")


@pytest.mark.parametrize("unit", [_APPLY, _NIC, PULL_SERVICE])
def test_who_applies_can_write_what_is_declared(unit: str) -> None:
    assert {"/etc", "/run", "-/boot"} <= words(unit, "ReadWritePaths")
    assert all(path.startswith("/boot/") for path in grub.CONFIGS)
    assert "no" in lines(unit, "ProtectKernelTunables") or not lines(unit, "ProtectKernelTunables")
    assert not lines(unit, "PrivateNetwork")


def test_only_a_pull_reaches_a_network() -> None:
    for unit in EXPOSURE:
        families = words(unit, "RestrictAddressFamilies")
        assert ("AF_INET" in families) == (unit == PULL_SERVICE)
        assert (lines(unit, "IPAddressDeny") == ["any"]) == (unit != PULL_SERVICE)
