# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs where somebody else has a say in the command line, or where a run sees only a part of it."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.mlnode.tuning.tests.unit import cases, door
from ansible_collections.mlnode.tuning.tests.unit.grub_machine import DROP_INS, MENU, GrubMachine
from ansible_collections.mlnode.tuning.tests.unit.machine import RELEASE
from mlnode.agent import node as whole
from mlnode.engine import boot_run
from mlnode.engine.engine import Outcome, Plan, Request
from mlnode.knobs.boot.kind import kind as boot
from mlnode.model.errors import DeclarationError, RefusedError
from mlnode.model.setting import Layer

PT: dict[str, Any] = {"parameters": {"iommu": "pt"}}
ISOLATE: dict[str, Any] = {"isolate": {"cpus": "6-7"}}
BOTH = {**PT, **ISOLATE}


@pytest.fixture
def node(tmp_path: Any) -> GrubMachine:
    machine = GrubMachine.debian_with_grub(str(tmp_path / "node"))
    machine.enable_agent()
    return machine


def apply(machine: GrubMachine, spec: dict[str, Any], name: str = "default", **more: Any) -> Outcome:
    return door.apply(machine, Request(name, boot, spec, **more))


def statuses(found: Plan | Outcome) -> dict[str, str]:
    return {row.setting.key[len("boot.") :]: str(row.status) for row in found.rows}


# -- what cannot be told this once stays ---------------------------------------------------


def test_a_kernel_that_was_started_without_grub_this_once_takes_nothing_away(node: GrubMachine) -> None:
    """kexec leaves BOOT_IMAGE= out, and the next cold boot is GRUB's again."""
    apply(node, PT)
    before = node.tree()
    node.put("/proc/cmdline", "root=UUID=1111 ro quiet\n")
    before["/proc/cmdline"] = node.tree()["/proc/cmdline"]

    found = whole.apply_all(node)

    assert (found.changed, found.errors) == (False, ())
    assert [str(item.row.status) for item in found.rows] == ["ok", "unsupported"], (
        "of the agent, and of the menu"
    )
    assert node.tree() == before


def test_another_kernel_that_lacks_an_option_takes_nothing_away(node: GrubMachine) -> None:
    apply(node, BOTH)
    node.put(f"/boot/config-{RELEASE}", "CONFIG_SMP=y\nCONFIG_CPU_ISOLATION=y\n")
    line = node.line()
    outcome = apply(node, BOTH)
    assert statuses(outcome)["rcu_nocbs"] == "unsupported"
    assert (outcome.changed, node.line()) == (False, line)


def test_an_image_build_over_a_tuned_tree_keeps_its_isolation(node: GrubMachine) -> None:
    apply(node, BOTH)
    line = node.line()
    assert "isolcpus=managed_irq,domain,6-7" in line
    outcome = apply(node, BOTH, layers=(Layer.BOOT,))
    assert (outcome.changed, node.line()) == (False, line)


def test_what_is_refused_or_cannot_be_is_not_kept(node: GrubMachine) -> None:
    apply(node, {"parameters": {"mitigations": "off", "iommu": "pt"}, "allow": ["mitigations"]})
    boot_run.apply_each(node, Request("default", boot, {"parameters": {"mitigations": "off", "iommu": "pt"}}))
    assert node.line() == "root=UUID=1111 ro iommu=pt quiet"


# -- somebody else's words -----------------------------------------------------------------


def late(machine: GrubMachine, text: str) -> None:
    machine.put(f"{DROP_INS}/zzz.cfg", text)
    machine.write_menu()


@cases.table
def test_a_later_file_that_undoes_it_is_named_and_not_fought_with(
    node: GrubMachine, text: str, spec: dict[str, Any]
) -> None:
    late(node, text)
    apply(node, spec)
    updates = node.updates
    outcome = apply(node, spec)
    assert (outcome.changed, node.updates) == (False, updates)
    assert [str(row.status) for row in outcome.rows] == ["overridden"]
    assert f"{DROP_INS}/zzz.cfg:1" in outcome.rows[0].reason


def test_a_later_file_that_says_the_same_is_none_to_fight_with(node: GrubMachine) -> None:
    """The advice for an override is to declare the value that it has."""
    late(node, 'GRUB_CMDLINE_LINUX="$GRUB_CMDLINE_LINUX iommu=pt"\n')
    node.reboot()
    assert statuses(apply(node, PT)) == {"iommu": "ok"}
    assert node.line().split().count("iommu=pt") == 2
    node.reboot()
    outcome = apply(node, PT)
    assert (outcome.changed, statuses(outcome)) == (False, {"iommu": "ok"})


def test_what_tuned_says_too_is_no_override(node: GrubMachine) -> None:
    apply(node, PT)
    text = node.read(MENU).replace("ro iommu=pt quiet", "ro iommu=pt quiet $tuned_params")
    node.put(MENU, f'set tuned_params="iommu=pt"\n{text}')
    node.put("/proc/cmdline", "BOOT_IMAGE=/boot/vmlinuz-6.12.0 root=UUID=1111 ro iommu=pt quiet iommu=pt\n")
    outcome = apply(node, PT)
    assert (outcome.changed, statuses(outcome)) == (False, {"iommu": "ok"})


# -- several declarations ------------------------------------------------------------------


def test_two_declarations_leave_enough_cpus_together(node: GrubMachine) -> None:
    apply(node, {"parameters": {"isolcpus": "2-3"}}, "first")
    with pytest.raises(RefusedError, match=r"NUMA node 0 would keep 1 of its CPUs 0,2,4,6"):
        apply(node, {"parameters": {"nohz_full": "4-7"}}, "second")
    apply(node, {"parameters": {"nohz_full": "6-7"}}, "second")


def test_who_takes_no_more_cpus_needs_no_guard_for_those_of_others(node: GrubMachine) -> None:
    apply(node, {"parameters": {"isolcpus": "1-7"}, "allow": ["housekeeping"]}, "first")
    assert statuses(apply(node, {"parameters": {"rcu_nocbs": "1-7"}}, "second")) == {
        "rcu_nocbs": "pending_reboot"
    }


def test_a_mistaken_declaration_beside_it_stops_nothing_at_boot(node: GrubMachine) -> None:
    node.put(
        "/etc/mlnode/declared.d/other.json",
        '{"format": 1, "name": "other", "kinds": {"boot": {"parameters": {"isolcpus": "x"}}}}',
    )
    outcome, errors = boot_run.apply_each(node, Request("default", boot, ISOLATE, alone=True))
    assert (errors, {*statuses(outcome).values()}) == ([], {"pending_reboot"})


# -- the length that a kernel reads --------------------------------------------------------

MANY: dict[str, Any] = {"parameters": {f"p{number}": "0123456789" for number in range(20)}}


@pytest.fixture
def long(tmp_path: Any) -> GrubMachine:
    words = " ".join(f"x{number}=0123456789" for number in range(125))
    return GrubMachine.debian_with_grub(str(tmp_path / "long"), f'GRUB_CMDLINE_LINUX="{words}"\n')


@pytest.mark.parametrize("layers", [(Layer.RUNTIME, Layer.BOOT), (Layer.BOOT,)])
def test_a_line_that_the_kernel_would_cut_is_an_error(long: GrubMachine, layers: Any) -> None:
    before = long.tree()
    words = rf"the command line of {MENU}:16 would have 2\d+ characters, and the kernel reads 2047 of them"
    with pytest.raises(DeclarationError, match=words):
        apply(long, MANY, layers=layers)
    assert long.tree() == before
    assert statuses(apply(long, PT, layers=layers)) != {}


def test_at_a_boot_a_line_that_would_be_cut_is_not_written(long: GrubMachine) -> None:
    line = long.line()
    outcome, errors = boot_run.apply_each(long, Request("default", boot, MANY))
    assert (errors, {*statuses(outcome).values()}) == ([], {"refused"})
    assert long.line() == line


def test_words_that_go_need_no_room(long: GrubMachine) -> None:
    long.put("/etc/default/grub", long.read("/etc/default/grub").replace('"\n', f' {"y" * 300}"\n'))
    long.write_menu()
    long.reboot()
    assert statuses(apply(long, {"absent": ["x1"]})) == {"x1": "pending_reboot"}
    assert " x1=" not in long.line()
