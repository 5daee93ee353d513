# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import random

import pytest
from ansible_collections.mlnode.tuning.tests.fixtures import machines
from ansible_collections.mlnode.tuning.tests.fixtures.seen import see
from ansible_collections.mlnode.tuning.tests.unit import cases
from mlnode.linux import kernel_line, kernel_params


@cases.table
def test_the_parameter_that_a_misspelt_one_means(name: str, meant: str) -> None:
    assert kernel_params.meant(name) == meant


@cases.table
def test_names_that_are_no_slip(name: str) -> None:
    assert kernel_params.meant(name) == ""


def test_no_word_that_a_captured_machine_was_started_with_is_taken_for_a_slip() -> None:
    lines = [see(name).text("/proc/cmdline") for name in machines.MACHINES]
    words = {word.partition("=")[0].replace("-", "_") for line in lines for word in kernel_line.split(line)}
    assert len(words) >= 10
    assert {word: kernel_params.meant(word) for word in words if kernel_params.meant(word)} == {}


def test_one_slip_in_a_long_name_leads_back_to_it_or_to_a_nearer_one() -> None:
    """Also where the slip makes another parameter of it, which is then known."""
    chance = random.Random(1)
    names = [name for name in kernel_params._NAMES.split(" ") if len(name) > 8]
    for name in chance.sample(names, 60):
        at = chance.randrange(1, len(name) - 1)
        for wrong in (name[:at] + name[at + 1 :], f"{name[:at]}{name[at]}{name[at:]}"):
            assert kernel_params.is_known(wrong) or kernel_params.meant(wrong), wrong


UNKNOWN = (
    'Unknown kernel command line parameters "isolcpu=6-7 splash BOOT_IMAGE=/vmlinuz no-such=1 bare", '
    "will be passed to user space."
)


@pytest.mark.parametrize(
    ("key", "words", "line"),
    [
        ("isolcpu", ["isolcpu=6-7"], UNKNOWN),
        ("no_such", ["no_such=1"], UNKNOWN),
        ("bare", ["bare"], UNKNOWN),
        ("numa_balancing", ["numa_balancing=off"], "Unable to parse numa_balancing="),
        ("transparent_hugepage", ["transparent_hugepage=on"], "transparent_hugepage= cannot parse, ignored"),
        ("isolcpus", ["isolcpus=nohzz,2-3"], "isolcpus: Invalid flag nohzz,"),
        ("mem", ["mem=x"], "Malformed early option 'mem'"),
        ("nosmt", ["nosmt=x"], "Malformed early option 'nosmt'"),
        (
            "intel_idle.max_cstate",
            ["intel_idle.max_cstate=x"],
            "intel_idle: `x' invalid for parameter `intel_idle.max_cstate'",
        ),
        ("pci", ["pci=confg_acs=1"], "PCI: Unknown option `confg_acs=1'"),
        ("intel_iommu", ["intel_iommu=yes"], "DMAR: Unknown option - 'yes'"),
    ],
)
def test_the_line_by_which_the_kernel_refuses(key: str, words: list[str], line: str) -> None:
    log = ["Linux version 6.12.0", "Kernel command line: " + " ".join(words), line, "Memory: 4 GiB"]
    assert kernel_params.ignored(key, words, log) == line


@cases.table
def test_lines_about_other_words(key: str, words: list[str]) -> None:
    assert (
        kernel_params.ignored(key, words, ["Linux version 6.12.0", UNKNOWN, "PCI: Unknown option `x'"]) == ""
    )


def test_values_that_no_kernel_takes() -> None:
    assert kernel_params.refused_value("numa_balancing", "off") == (
        "the kernel takes enable or disable, and ignores 'off'"
    )
    assert kernel_params.refused_value("numa_balancing", "disable") == ""
    assert kernel_params.refused_value("iommu", "off") == ""
