# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Xids and SXids against NVIDIA's catalog, and lines as drivers have written them."""

from __future__ import annotations

import pytest
from ansible_collections.mlnode.tuning.tests.unit import cases
from mlnode.drivers.gpu import xid
from mlnode.model.log import Event, Line
from mlnode.model.setting import Severity

#: Immediate action in NVIDIA's catalog (docs.nvidia.com/deploy/xid-errors, for Ampere to GB200) → its Xids
CATALOG: dict[str, list[int]] = {
    "RESTART_APP": [
        8, 11, 13, 25, 31, 32, 39, 40, 41, 60, 68, 69, 70, 71, 72, 75, 76, 77, 80, 82, 83, 84, 85, 86, 88, 89,
        94, *range(96, 106), *range(126, 136), 139,
    ],
    "IGNORE": [
        14, 37, 38, 43, 44, 63, 66, 67, 92, 93, 106, 107, 108, 121, 137, 141, 152, 153, 157, 160, 161,
    ],
    "RESET_GPU": [46, 62, 64, 95, 109, 110, 119, 120, 136, 140, 143, 155, 156, 158],
    "RESTART_BM": [79],
    "WORKFLOW_XID_45": [45],
    "WORKFLOW_XID_48": [48],
    "WORKFLOW_NVLINK_ERR": [74],
    "WORKFLOW_NVLINK5_ERR": [*range(144, 151)],
    "CHECK_MECHANICALS": [54],
    "UPDATE_SWFW": [78],
    "RESTART_VM": [151],
    "XID_154": [154],
    "CHECK_UVM": [159],
}  # fmt: skip
#: Action → severities that fit, and a word of the advice
FITS = {
    "RESTART_APP": ({Severity.LOW, Severity.MEDIUM}, "job"),
    "IGNORE": ({Severity.LOW, Severity.MEDIUM}, ""),
    "RESET_GPU": ({Severity.HIGH}, "reset the GPU"),
    "RESTART_BM": ({Severity.HIGH}, "restart the machine"),
    "WORKFLOW_XID_45": ({Severity.LOW}, "fabricmanager"),
    "WORKFLOW_XID_48": ({Severity.HIGH}, "reset the GPU"),
    "WORKFLOW_NVLINK_ERR": ({Severity.HIGH}, "nvlink -e"),
    "WORKFLOW_NVLINK5_ERR": ({Severity.HIGH}, "nvlink -e"),
    "CHECK_MECHANICALS": ({Severity.HIGH}, "seating"),
    "UPDATE_SWFW": ({Severity.MEDIUM}, "update the drivers"),
    "RESTART_VM": ({Severity.MEDIUM}, "restart the virtual machine"),
    "XID_154": ({Severity.HIGH}, "reset the GPU"),
    "CHECK_UVM": ({Severity.HIGH}, "reset the GPU"),
}


def events(*lines: str) -> list[tuple[str, Event]]:
    """Device and event of each line, which are a second apart."""
    parsed = tuple(Line(text, len(lines) - number) for number, text in enumerate(lines))
    return [*xid.events(parsed)]


def event(*lines: str) -> Event:
    return events(*lines)[-1][1]


@pytest.mark.parametrize("number", range(1, 200))
def test_every_xid_has_the_remedy_of_the_catalog(number: int) -> None:
    cause = event(f"NVRM: Xid (PCI:0000:1b:00): {number}, pid=7, name=python, Ch 00000008").cause
    action = next((action for action, numbers in CATALOG.items() if number in numbers), None)
    if action is None:
        assert cause.name in ("not in the table", "hardware"), "support, or without a published action"
        return
    severities, word = FITS[action]
    assert cause.severity in severities
    assert word in cause.advice
    assert ("reset the GPU" in cause.advice) <= (action not in ("IGNORE", "RESTART_APP") or number == 94)


@cases.table
def test_lines_of_nvlink_5(line: str, name: str, severity: str, word: str) -> None:
    seen = event(f"NVRM: Xid (PCI:0019:01:00): {line}")
    assert (seen.name, str(seen.cause.severity)) == (name, severity)
    assert word in seen.cause.advice
    assert ("reset the GPU" in seen.cause.advice) is (severity == "high")


@cases.table
def test_lines_of_nvswitches(line: str, name: str, severity: str, word: str) -> None:
    [(device, seen)] = events(f"nvidia-nvswitch3: SXid (PCI:0000:05:00.0): {line}")
    assert device == "NVSwitch 0000:05:00.0"
    assert (seen.name, str(seen.cause.severity)) == (name, severity)
    assert word in seen.cause.advice


SXID = "nvidia-nvswitch1: SXid (PCI:0000:00:08.0):"


@pytest.mark.parametrize(
    ("first", "registers"),
    [
        (
            "11004, Non-fatal, Link 36 ingress invalid ACL (First)",
            ["11004, Severity 0 Engine instance 36 Sub-engine instance 00", "11004, Data {0x00000001, 0x0}"],
        ),
        (
            "26006, SOE HALTED",
            ["26006, SOE HALT data[0] = 0x               0", "26006, SOE HALT data[1] = 0x"],
        ),
        ("10003, Correctable, Link 3 ECC limit", ["10003, Data {0x0}"]),
    ],
)
def test_registers_of_an_sxid_are_no_errors_of_their_own(first: str, registers: list[str]) -> None:
    [(_device, seen)] = events(f"{SXID} {first}", *(f"{SXID} {text}" for text in registers))
    assert seen.title == f"SXid {first[:5]}"
    assert "registers" not in seen.name


@pytest.mark.parametrize(
    ("text", "severity"),
    [
        ("12033, Severity 1 Engine instance 00 Sub-engine instance 00", "high"),
        ("22013, Severity 0 Engine instance 60 Sub-engine instance 00", "medium"),
        ("24007, Data {0x0000003c, 0x00000000}", "medium"),
        ("26006, SOE HALT data[0] = 0x               0", "medium"),
    ],
)
def test_registers_alone_are_an_error_whose_line_the_log_has_lost(text: str, severity: str) -> None:
    other = "24007, Data {0x00000001}" if text.startswith("24007") else text
    [(_device, seen)] = events(f"{SXID} {text}", f"{SXID} {other}")
    assert (seen.name, str(seen.cause.severity)) == ("only its registers are in the log", severity)
    [_first, (_device, line)] = events(f"{SXID} {text}", f"{SXID} {text[:5]}, Fatal, Link 1 error (First)")
    assert line.cause.severity is Severity.HIGH


def test_a_correctable_error_of_a_switch_is_no_unknown_one() -> None:
    [(_device, seen)] = events(f"{SXID} 10003, Correctable, Link 3 ECC limit error")
    [(_device, other)] = events(f"{SXID} 10003, Non-fatal, Link 3 ECC limit error")
    assert (seen.cause, seen.name) == (other.cause, "Link 3 ECC limit error")


GPU, OTHER = "NVRM: Xid (PCI:0000:1b:00):", "NVRM: Xid (PCI:0000:1c:00):"


@cases.table
def test_a_clean_up_points_to_its_error(before: list[str], name: str, cause: str) -> None:
    seen = event(*before, f"{GPU} 45, pid=7, name=python, Ch 00000008")
    assert (seen.name, seen.cause.name, seen.cause.severity) == (name, cause, Severity.LOW)


def test_an_error_of_yesterday_is_not_the_cause() -> None:
    lines = (Line(f"{GPU} 79, GPU has fallen off the bus.", 90_000), Line(f"{GPU} 45, pid=7", 60))
    [_old, (_device, seen)] = xid.events(lines)
    assert seen.name == "clean-up after an ended program"
    lines = (lines[0]._replace(age=None), lines[1]._replace(age=None))
    [_old, (_device, seen)] = xid.events(lines)
    assert seen.name == "clean-up after Xid 79"


@pytest.mark.parametrize("process", ["AB Nonfatal", "ABC Nonfatal", "NETIR Nonfatal", "A Link Nonfatal"])
def test_the_name_of_a_process_cannot_lower_an_error(process: str) -> None:
    line = f"{GPU} 145, pid=7, name={process}, RLW_TAGSTATE Fatal XC1 i0 Link 02 (0x00000008 0x00000002)"
    seen = event(line)
    assert (seen.name, seen.cause.severity) == ("RLW_TAGSTATE, fatal", Severity.HIGH)


def test_the_driver_itself_names_the_cause_of_a_clean_up() -> None:
    lines = (f"{OTHER} 13, pid=9", f"{GPU} 45, pid=7, name=python3, Ch 00000001 caused by previous Xid 149")
    for seen in (event(*lines), event(*lines[1:])):
        assert (seen.name, seen.cause.name) == ("clean-up after Xid 149", "follows")


# as src/nvidia/src/kernel/gpu/rc/kernel_rc.c of the open driver prints a part of a GPU (MIG)
@pytest.mark.parametrize("part", [" GPU-I:05", " GPU-I:03 GPU-CI:00", "", " of a later driver"])
def test_an_xid_of_a_part_belongs_to_its_gpu(part: str) -> None:
    [(device, seen)] = events(
        f"NVRM: Xid (PCI:0000:01:00{part}): 95, pid=7194, Uncontained: LTC TAG (0x2,0x0)"
    )
    assert (device, seen.title, seen.cause.severity) == ("GPU 0000:01:00", "Xid 95", Severity.HIGH)
