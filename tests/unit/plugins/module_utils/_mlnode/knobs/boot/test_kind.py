# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import errno
import shutil
from typing import Any

import pytest
from ansible_collections.mlnode.tuning.tests.unit import cases, door
from ansible_collections.mlnode.tuning.tests.unit.grub_machine import (
    CPU,
    DEFAULTS,
    DROP_INS,
    MENU,
    MKCONFIG,
    NODE,
    GrubMachine,
)
from ansible_collections.mlnode.tuning.tests.unit.machine import RELEASE, BuildHost, Machine
from mlnode.engine.kind import AGENT_UNIT, Context, Facts
from mlnode.knobs.boot.kind import kind as boot
from mlnode.loader import grub as boot_grub
from mlnode.model.setting import BOTH_LAYERS, Layer, Reading, Severity, Value

BOOT = (Layer.BOOT,)
PT = {"parameters": {"iommu": "pt"}}
OURS = {"iommu": ["iommu=pt"]}
#: CPUs 0, 4 and 1, 5 are left over: two on each of the two nodes, whole cores.
ISOLATE = {"isolate": {"cpus": "2-3,6-7"}}


def readings(
    machine: Machine, spec: dict[str, Any], layers: Any = BOTH_LAYERS, **how: Any
) -> dict[str, Reading]:
    machine.forget()
    settings = door.parse("boot", spec)
    claims = {setting.key: setting.claim for setting in settings}
    allow = tuple(spec.get("allow", ()))
    context = Context(machine, Facts(machine), layers=layers, on_disk=claims, allow=allow, **how)
    return {
        setting.key[len("boot.") :]: reading
        for setting, reading in zip(settings, boot.read(settings, context))
    }


def reading(machine: Machine, spec: dict[str, Any], **how: Any) -> Reading:
    (found,) = readings(machine, spec, **how).values()
    return found


def started(machine: GrubMachine, words: str) -> None:
    machine.started(f"/boot/vmlinuz-6.12.0 root=UUID=1111 ro {words}")


# -- runtime -------------------------------------------------------------------------------


@cases.table
def test_runtime_is_what_the_running_kernel_was_started_with(
    node: GrubMachine, line: str, spec: dict[str, Any], runtime: str
) -> None:
    started(node, line)
    found = reading(node, spec)
    assert found.runtime == Value(text=runtime)
    assert (found.path, found.at_boot, found.parts) == ("/proc/cmdline", True, ())


@cases.table
def test_other_spellings_of_the_same_are_shown_as_declared(
    node: GrubMachine, line: str, spec: dict[str, Any]
) -> None:
    started(node, line)
    node.put(DEFAULTS, f'GRUB_CMDLINE_LINUX="{line}"\n')
    node.write_menu()
    found = reading(node, spec)
    assert found.runtime.text == found.boot.value.text == found.want


def test_an_unreadable_command_line_is_not_an_empty_one(node: GrubMachine) -> None:
    node.unreadable["/proc/cmdline"] = errno.EIO
    for found in readings(node, {**PT, **ISOLATE}).values():
        assert found.runtime.text is None
        assert "EIO" in (found.runtime.unreadable or "")


# -- isolation -----------------------------------------------------------------------------


def test_isolation_is_made_of_one_list_and_the_cpus_of_the_machine(node: GrubMachine) -> None:
    found = readings(node, ISOLATE)
    assert {name: each.want for name, each in found.items()} == {
        "isolcpus": "isolcpus=managed_irq,domain,2-3,6-7",
        "nohz_full": "nohz_full=2-3,6-7",
        "rcu_nocbs": "rcu_nocbs=2-3,6-7",
        "irqaffinity": "irqaffinity=0-1,4-5",
    }
    for each in found.values():
        assert (each.invalid, each.refusal, each.blocked, each.note) == ("", "", "", "")


def test_offline_cpus_are_part_of_the_rest(node: GrubMachine) -> None:
    """They may come back, and their interrupts with them."""
    node.put(f"{CPU}/online", "0-4,6-7\n")
    assert readings(node, ISOLATE)["irqaffinity"].want == "irqaffinity=0-1,4-5"


@cases.table
def test_too_few_cpus_left_over_are_refused_however_they_are_declared(
    node: GrubMachine, spec: dict[str, Any]
) -> None:
    for found in readings(node, spec).values():
        assert found.refusal.startswith(
            "NUMA node 1 would keep 0 of its CPUs 1,3,5,7: at least 2 on each node"
        )
        assert found.refusal.endswith("to do it all the same: allow: [housekeeping]")
    for found in readings(node, {**spec, "allow": ["housekeeping"]}).values():
        assert found.refusal == ""


def test_cpu_0_is_refused(node: GrubMachine) -> None:
    assert (
        "CPU 0, on which the kernel keeps time"
        in readings(node, {"isolate": {"cpus": "0"}})["isolcpus"].refusal
    )


def test_what_runs_already_is_not_refused(node: GrubMachine) -> None:
    started(node, "nohz_full=1-3,5-7")
    found = readings(node, {"isolate": {"cpus": "1-3,5-7"}})
    assert found["nohz_full"].refusal == ""
    assert found["isolcpus"].refusal


def test_taking_isolation_away_needs_no_guard(node: GrubMachine) -> None:
    started(node, "isolcpus=1-7")
    found = reading(node, {"absent": ["isolcpus"]})
    assert (found.refusal, found.invalid, found.want) == ("", "", "absent")


def test_cpus_that_the_machine_does_not_have_are_invalid(node: GrubMachine) -> None:
    for spec in ({"isolate": {"cpus": "2-3,6-9"}}, {"parameters": {"irqaffinity": "0,8-9"}}):
        for found in readings(node, spec).values():
            assert found.invalid == "CPUs 8-9 are not on this machine, which has 0-7"


def test_no_cpu_left_for_interrupts_is_invalid_even_where_it_is_allowed(node: GrubMachine) -> None:
    found = readings(node, {"isolate": {"cpus": "0-7"}, "allow": ["housekeeping"]})
    assert found["irqaffinity"].invalid == "no CPU of this machine would be left for interrupts"
    assert found["irqaffinity"].want is None


def test_a_core_that_is_half_isolated_is_a_note(node: GrubMachine) -> None:
    found = readings(node, {"isolate": {"cpus": "2"}})
    assert found["isolcpus"].note.startswith("CPUs 2,6 share cores between isolated and other work")
    assert found["irqaffinity"].note == ""


@pytest.mark.parametrize("key", ["isolcpus", "nohz_full", "rcu_nocbs"])
def test_a_kernel_that_does_not_know_a_parameter_says_so(node: GrubMachine, key: str) -> None:
    node.put(f"/boot/config-{RELEASE}", "CONFIG_SMP=y\n")
    words = readings(node, ISOLATE)[key].runtime.absent or ""
    assert words.startswith("this kernel is built without CONFIG_")
    assert words.endswith(f"it ignores {key}=")
    # To take it away is possible on any kernel.
    assert reading(node, {"absent": [key]}).runtime.text == "absent"


@cases.table
def test_cpus_that_cannot_be_read_leave_the_question_open(node: GrubMachine, path: str) -> None:
    node.unreadable[path] = errno.EACCES
    for found in readings(node, ISOLATE).values():
        assert f"cannot read {path}: EACCES" in (found.runtime.unreadable or "")
    assert reading(node, PT).runtime.text == "absent"


# -- guards and obstacles ------------------------------------------------------------------


@pytest.mark.parametrize("layers", [BOTH_LAYERS, BOOT])
@pytest.mark.parametrize(("value", "refused"), [("off", True), ("auto,off", True), ("auto,nosmt", False)])
def test_mitigations_are_not_switched_off_unasked(
    node: GrubMachine, value: str, refused: bool, layers: Any
) -> None:
    spec: dict[str, Any] = {"parameters": {"mitigations": value}}
    found = reading(node, spec, layers=layers)
    assert found.refusal.endswith("allow: [mitigations]") is refused
    assert reading(node, {**spec, "allow": ["mitigations"]}, layers=layers).refusal == ""
    assert reading(node, {"absent": ["mitigations"]}, layers=layers).refusal == ""


def test_a_run_without_the_boot_layer_can_do_nothing(node: GrubMachine) -> None:
    assert reading(node, PT, layers=(Layer.RUNTIME,)).blocked.startswith(
        "the kernel reads its command line at boot only"
    )
    started(node, "iommu=pt")
    assert reading(node, PT, layers=(Layer.RUNTIME,)).blocked == ""


def test_a_kernel_that_grub_did_not_start_is_told(node: GrubMachine) -> None:
    """A machine whose disk has GRUB, started by its hypervisor with a kernel of its own."""
    node.put("/proc/cmdline", "root=/dev/vda1 ro\n")
    assert "not started by GRUB" in reading(node, PT).blocked


def test_a_container_has_the_command_line_of_its_host(node: GrubMachine) -> None:
    node.put("/run/systemd/container", "podman\n")
    assert reading(node, PT).blocked == "this is a container: the command line belongs to its host's kernel"


@pytest.mark.parametrize(("line", "text"), [("quiet", "absent"), ("iommu=pt", "iommu=pt")])
def test_where_somebody_else_starts_the_kernel_he_does_so_again(
    node: GrubMachine, line: str, text: str
) -> None:
    node.remove(MENU)
    started(node, line)
    found = reading(node, PT)
    assert bool(found.blocked) is (text == "absent")
    assert (found.boot.value.text, found.boot.source) == (text, "kernel command line")


# -- boot ----------------------------------------------------------------------------------


def grub_sets(machine: GrubMachine, line: str) -> None:
    machine.put(DEFAULTS, f'GRUB_CMDLINE_LINUX="{line}"\n')
    machine.write_menu()


@cases.table
def test_the_boot_layer_is_what_the_menu_says(
    node: GrubMachine, line: str, spec: dict[str, Any], boot_value: str | None, words: str
) -> None:
    grub_sets(node, line)
    found = reading(node, spec).boot
    assert (found.value.text, found.value.absent or "", found.foreign) == (boot_value, words, False)
    assert found.source == f"{MENU}:16"


def test_every_entry_has_to_have_it(node: GrubMachine) -> None:
    grub_sets(node, "iommu=pt")
    lines = node.read(MENU).splitlines(keepends=True)
    lines[21] = lines[21].replace("iommu=pt", "iommu=off")
    node.put(MENU, "".join(lines))
    found = reading(node, PT).boot
    assert (found.value.text, found.source, found.foreign) == ("iommu=off", f"{MENU}:22", False)


def test_an_unreadable_menu_leaves_the_question_open(node: GrubMachine) -> None:
    node.unreadable[MENU] = errno.EACCES
    assert f"cannot read {MENU}: EACCES" in (reading(node, PT).boot.value.unreadable or "")


@cases.table
def test_a_later_file_that_has_the_last_word_is_named(
    node: GrubMachine, late: str, boot_value: str | None, words: str
) -> None:
    node.put(f"{DROP_INS}/zzz.cfg", late)
    node.write_menu()
    # As long as our own file is not there, nothing is overridden.
    assert not reading(node, PT).boot.foreign
    node.put(f"{DROP_INS}/zz-mlnode-default.cfg", boot_grub.drop_in("default", OURS).decode())
    node.write_menu()
    found = reading(node, PT).boot
    assert (found.value.text, found.value.absent or "", found.foreign) == (boot_value, words, True)
    assert found.source == f"{DROP_INS}/zzz.cfg:1"


def test_a_later_file_that_cannot_be_read_leaves_the_question_open(node: GrubMachine) -> None:
    node.put(f"{DROP_INS}/zz-mlnode-default.cfg", boot_grub.drop_in("default", OURS).decode())
    node.put(f"{DROP_INS}/zzz.cfg", "")
    node.unreadable[f"{DROP_INS}/zzz.cfg"] = errno.EACCES
    assert "EACCES" in (reading(node, PT).boot.value.unreadable or "")


def test_what_tuned_brings_is_somebody_elses(node: GrubMachine) -> None:
    text = node.read(MENU).replace("ro  quiet", "ro iommu=pt $tuned_params")
    node.put(MENU, f'set tuned_params="iommu=off"\n{text}')
    found = reading(node, PT).boot
    assert (found.value.text, found.source, found.foreign) == ("iommu=pt iommu=off", f"{MENU}:1", True)


def test_what_cannot_be_edited_says_so_beside_what_is_wrong(node: GrubMachine) -> None:
    node.put("/usr/sbin/grub-mkconfig", MKCONFIG)
    node.put(DEFAULTS, 'GRUB_CMDLINE_LINUX="$(echo iommu=off)"\n')
    node.write_menu()
    started(node, "iommu=pt")
    assert f"{MENU}:16 ({DEFAULTS}:1 is not a plain" in reading(node, PT).boot.source
    assert "is not a plain" in (reading(node, {"parameters": {"nosmt": ""}}).boot.value.absent or "")
    assert "is not a plain" in reading(node, {"parameters": {"nosmt": ""}}).blocked


@pytest.mark.parametrize("agent", [True, False])
def test_an_image_build_looks_at_no_hardware_and_leaves_isolation_to_the_agent(
    node: GrubMachine, agent: bool
) -> None:
    grub_sets(node, "iommu=pt")
    found = readings(BuildHost(node.root), {**PT, **ISOLATE}, layers=BOOT, agent=agent)
    assert found["iommu"].boot.value.text == "iommu=pt"
    assert found["iommu"].want == "iommu=pt"
    for name in ("isolcpus", "nohz_full", "rcu_nocbs", "irqaffinity"):
        each = found[name]
        assert (each.want, each.runtime) == (None, Value())
        assert (each.boot.source == AGENT_UNIT) is agent
        assert agent or AGENT_UNIT in (each.boot.value.absent or "")


# -- the rest of a kind --------------------------------------------------------------------


def test_parameters_do_not_exclude_each_other() -> None:
    assert not boot.conflicts("boot.isolcpus", "boot.nohz_full")
    assert not boot.conflicts("boot.iommu", "boot.intel_iommu")


def test_an_explanation_names_every_line(node: GrubMachine) -> None:
    started(node, "iommu=off")
    grub_sets(node, "iommu=pt")
    found = boot.boot_sources("boot.iommu", node)
    assert found[0] == "/proc/cmdline: iommu=off"
    assert f"{MENU}:16:" in found[1]
    assert found[-1] == f'{DEFAULTS}:1: GRUB_CMDLINE_LINUX="iommu=pt"'
    assert boot.boot_sources("boot.nosmt", node) == []


@cases.table
def test_every_parameter_has_a_severity_a_reason_and_a_source(name: str, severity: str) -> None:
    found = boot.info(f"boot.{name}", Value(text="absent"))
    assert found.severity is Severity(severity)
    assert found.reason
    assert found.source


def test_a_machine_without_numa_folders_is_one_node(node: GrubMachine) -> None:
    shutil.rmtree(node.root + NODE)
    found = readings(node, {"isolate": {"cpus": "1-7"}})["isolcpus"]
    assert "would keep 1 of its CPUs 0-7" in found.refusal


def test_a_parameter_to_be_absent_has_the_reason_of_that() -> None:
    spec = {"parameters": {"quiet": "", "mitigations": "auto"}, "absent": ["splash", "nohz_full"]}
    reasons = {one.key: boot.info_of(one, Value()).reason for one in door.parse("boot", spec)}
    assert reasons["boot.quiet"] == "a parameter that this node was declared to boot with"
    assert reasons["boot.splash"] == "a parameter that this node was declared to boot without"
    assert reasons["boot.nohz_full"].startswith("CPUs that serve requests")
