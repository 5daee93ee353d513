# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where SELinux of the RHEL family has programs: systemd may run bin_t there, and not var_lib_t or etc_t.

No node of that family could be started here, so its rules for paths are data, and only paths are judged.
"""

from __future__ import annotations

import pathlib
import re
from typing import Any

import pytest
import yaml
from mlnode.engine import units
from mlnode.host.places import AGENT_COMMAND, LEASE_AGENT

RULES: dict[str, Any] = yaml.safe_load((pathlib.Path(__file__).parent / "selinux_paths.yml").read_text())

#: What systemd and udev may run: init.te and udev.te of the same policy
PROGRAMS = {"bin_t", "udev_exec_t"}


def label(path: str) -> str:
    for alias, original in RULES["substitutions"].items():
        if path.startswith(f"{alias}/"):
            path = original + path[len(alias) :]
            break
    return [rule["type"] for rule in RULES["rules"] if re.fullmatch(rule["path"], path)][-1]


def programs() -> set[str]:
    """All that our units and udev rules start."""
    lease = units.LEASE_SERVICE % f"/usr/bin/python3 -IS {LEASE_AGENT}"
    text = "\n".join([*units.TEXTS.values(), lease])
    commands = re.findall(r"^Exec\w+=[-+@:!|]*(/\S+)|RUN\+=\"(/\S+)", text, re.MULTILINE)
    return {path for pair in commands for path in pair if path}


def test_every_program_of_our_units_has_the_label_of_a_program() -> None:
    found = programs()
    assert {AGENT_COMMAND, "/bin/touch", "/usr/bin/python3"} <= found
    assert {path: label(path) for path in found if label(path) not in PROGRAMS} == {}


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        (LEASE_AGENT, "var_lib_t"),
        ("/etc/mlnode/irqbalance-policy", "etc_t"),
        ("/etc/systemd/system/mlnode-apply.service", "systemd_unit_file_t"),
        ("/run/mlnode.lock", "var_run_t"),
    ],
)
def test_the_rules_tell_programs_from_other_files(path: str, kind: str) -> None:
    assert label(path) == kind
    assert kind not in PROGRAMS
    assert path not in programs()
