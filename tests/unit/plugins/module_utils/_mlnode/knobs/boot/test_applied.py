# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import errno
import json
from typing import Any

import pytest
from ansible_collections.mlnode.tuning.tests.unit import door
from ansible_collections.mlnode.tuning.tests.unit.grub_machine import (
    DEFAULTS,
    DROP_INS,
    MENU,
    MKCONFIG,
    GrubMachine,
)
from mlnode.agent import node as whole
from mlnode.agent import registry
from mlnode.engine import boot_run, engine
from mlnode.engine.engine import Outcome, Plan, Request
from mlnode.engine.revert import revert
from mlnode.engine.steps import Notify
from mlnode.knobs.boot.kind import kind as boot
from mlnode.model.errors import DeclarationError, RefusedError, TransactionError
from mlnode.model.setting import Layer, Status

DROP_IN = f"{DROP_INS}/zz-mlnode-default.cfg"
ISOLATE = {"cpus": "2-3,6-7"}
SPEC: dict[str, Any] = {
    "parameters": {"transparent_hugepage": "madvise", "console": ["tty0", "ttyS0,115200"]},
    "absent": ["quiet"],
    "isolate": ISOLATE,
}
LINE = (
    "isolcpus=managed_irq,domain,2-3,6-7 nohz_full=2-3,6-7 rcu_nocbs=2-3,6-7 irqaffinity=0-1,4-5 "
    "transparent_hugepage=madvise console=tty0 console=ttyS0,115200"
)


@pytest.fixture
def node(tmp_path: Any) -> GrubMachine:
    return GrubMachine.debian_with_grub(
        str(tmp_path / "node"),
        'GRUB_CMDLINE_LINUX="audit=0"\nGRUB_CMDLINE_LINUX_DEFAULT="quiet console=tty1"\n',
    )


def request(spec: dict[str, Any] | None = None, name: str = "default", **more: Any) -> Request:
    return Request(name, boot, SPEC if spec is None else spec, **more)


def statuses(found: Plan | Outcome) -> set[str]:
    return {str(row.status) for row in found.rows}


def reason(found: Plan | Outcome, key: str) -> str:
    return next(row.reason for row in found.rows if row.setting.key == f"boot.{key}")


ACS = "config_acs=xx000x0@0000:17:00.0;xx000x0@0000:18:08.0"


def _reads_no_drop_ins(machine: GrubMachine) -> None:
    machine.put("/usr/sbin/grub-mkconfig", MKCONFIG, 0o755)


@pytest.mark.parametrize("arrange", [lambda _machine: None, _reads_no_drop_ins], ids=["drop-in", "defaults"])
def test_a_semicolon_reaches_the_kernel_through_the_shell_and_grub(node: GrubMachine, arrange: Any) -> None:
    """GRUB ends a command at one that is not in quotes."""
    arrange(node)
    wanted = request({"parameters": {"pci": ["nomsi", ACS], "audit": "0"}})
    door.apply(node, wanted)
    assert f'pci="{ACS}"' in node.read(MENU)
    node.reboot()
    node.forget()
    assert node.read("/proc/cmdline").split().count(f"pci={ACS}") == 1
    found = door.apply(node, wanted)
    assert (found.changed, statuses(found)) == (False, {"ok"})
    assert "audit=0" in node.read("/proc/cmdline").split()
    revert(node)
    assert "config_acs" not in node.read(MENU)


def test_a_semicolon_that_stands_there_without_quotes_is_put_into_them(node: GrubMachine) -> None:
    _reads_no_drop_ins(node)
    node.put("/etc/default/grub", f'GRUB_CMDLINE_LINUX="pci={ACS} audit=0"\n')
    node.write_menu()
    node.reboot()
    wanted = request({"parameters": {"pci": ACS, "audit": "0"}})
    assert statuses(engine.evaluate(node, wanted)) == {"drifted"}
    node.forget()
    assert statuses(door.apply(node, wanted)) == {"pending_reboot"}
    assert node.read("/etc/default/grub") == f'GRUB_CMDLINE_LINUX="pci=\\"{ACS}\\" audit=0"\n'
    node.reboot()
    node.forget()
    found = door.apply(node, wanted)
    assert (found.changed, statuses(found)) == (False, {"ok"})


def test_the_words_of_rdma_topo_are_the_same(node: GrubMachine) -> None:
    """As `rdma_topo write-grub-acs` puts them into a drop-in, with quotes of its own."""
    node.put(
        f"{DROP_INS}/config-acs.cfg",
        f'GRUB_CMDLINE_LINUX="$GRUB_CMDLINE_LINUX pci={ACS[:11]}\\"{ACS[11:]}\\""\n',
    )
    node.write_menu()
    node.reboot()
    found = engine.evaluate(node, request({"parameters": {"pci": ACS}}))
    assert statuses(found) == {"ok"}


# -- from a declaration to a reboot and back -----------------------------------------------


def test_pending_before_a_reboot_right_after_it_and_gone_after_a_revert(node: GrubMachine) -> None:
    before, running = node.tree(), node.now("/proc/cmdline")

    first = door.apply(node, request())
    assert first.changed
    assert statuses(first) == {"pending_reboot"}
    assert reason(first, "quiet") == "runtime is quiet; the next boot brings absent"
    assert node.line() == f"root=UUID=1111 ro {LINE} audit=0"
    assert node.updates == 1
    assert node.now("/proc/cmdline") == running

    second = door.apply(node, request())
    assert (second.changed, second.plan.steps, statuses(second)) == (False, (), {"pending_reboot"})
    assert node.updates == 1

    node.reboot()
    third = door.apply(node, request())
    assert (third.changed, third.plan.steps, statuses(third)) == (False, (), {"ok"})

    revert(node)
    node.reboot()
    assert node.updates == 2
    assert node.tree() == before


def test_what_is_taken_out_of_a_declaration_is_as_it_was_at_the_next_boot(node: GrubMachine) -> None:
    door.apply(node, request())
    door.apply(node, request({"absent": ["quiet"]}))
    assert node.line() == "root=UUID=1111 ro audit=0 console=tty1"
    door.apply(node, request({}))
    assert node.line() == "root=UUID=1111 ro audit=0 quiet console=tty1"
    assert not node.exists(DROP_IN)


def test_two_declarations_share_the_command_line(node: GrubMachine) -> None:
    door.apply(node, request({"parameters": {"iommu": "pt"}, "absent": ["quiet"]}, "zulu"))
    door.apply(node, request({"parameters": {"nosmt": ""}, "absent": ["quiet"]}, "alpha"))
    assert sorted(node.line().split()) == sorted(
        ["root=UUID=1111", "ro", "iommu=pt", "nosmt", "audit=0", "console=tty1"]
    )
    with pytest.raises(
        DeclarationError, match=r"boot.iommu: declared as 'iommu=off' by alpha and as 'iommu=pt'"
    ):
        engine.evaluate(node, request({"parameters": {"iommu": "off"}}, "alpha"))


def test_a_menu_that_went_stale_is_written_anew_and_nothing_else(node: GrubMachine) -> None:
    """As after a restored backup, or a run that was killed before update-grub."""
    old = node.read(MENU)
    door.apply(node, request())
    node.put(MENU, old)
    node.forget()
    plan = engine.evaluate(node, request())
    assert plan.steps == (Notify(DROP_IN, "boot loader"),)
    assert statuses(plan) == {"drifted"}
    assert reason(plan, "isolcpus") == f"runtime is absent; boot: {MENU}:16 does not have it"
    outcome = door.apply(node, request())
    assert (outcome.changed, statuses(outcome)) == (True, {"pending_reboot"})


def test_an_override_is_reported_and_not_fought_with(node: GrubMachine) -> None:
    door.apply(node, request())
    node.put(f"{DROP_INS}/zzz.cfg", 'GRUB_CMDLINE_LINUX="$GRUB_CMDLINE_LINUX nohz-full=1"\n')
    node.write_menu()
    node.forget()
    outcome = door.apply(node, request())
    assert not outcome.changed
    assert {row.setting.key: row.status for row in outcome.rows}["boot.nohz_full"] is Status.OVERRIDDEN
    assert reason(outcome, "nohz_full") == (
        f"runtime is absent; boot: {DROP_INS}/zzz.cfg:1 sets nohz_full=2-3,6-7 nohz_full=1"
    )


def test_right_now_and_wrong_at_the_next_boot_is_drift(node: GrubMachine) -> None:
    node.put("/proc/cmdline", "BOOT_IMAGE=/vmlinuz iommu=pt\n")
    work = request({"parameters": {"iommu": "pt"}})
    plan = engine.evaluate(node, work)
    assert (statuses(plan), reason(plan, "iommu")) == ({"drifted"}, f"boot: {MENU}:16 does not have it")
    assert statuses(door.apply(node, work)) == {"changed"}


def test_defaults_that_are_edited_come_back_byte_for_byte(node: GrubMachine) -> None:
    node.put("/usr/sbin/grub-mkconfig", MKCONFIG)
    before = node.tree()
    door.apply(node, request())
    assert node.read(DEFAULTS) == (f'GRUB_CMDLINE_LINUX="{LINE} audit=0"\nGRUB_CMDLINE_LINUX_DEFAULT=""\n')
    assert not door.apply(node, request()).changed
    revert(node)
    assert node.tree() == before


# -- what goes wrong -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fault", "words"), [("broken", "Syntax errors are detected"), ("forgetful", "found no kernel")]
)
def test_a_failing_update_grub_leaves_nothing_behind(node: GrubMachine, fault: str, words: str) -> None:
    before = node.tree()
    setattr(node, fault, 1)
    with pytest.raises(TransactionError, match=words):
        door.apply(node, request())
    assert node.tree() == before


def test_where_update_grub_does_not_work_at_all_the_files_are_back_and_the_menu_is_named(
    node: GrubMachine,
) -> None:
    menu = node.read(MENU)
    node.broken = 2
    with pytest.raises(TransactionError, match=f"COULD NOT be put back: cannot write {MENU}"):
        door.apply(node, request())
    assert not node.exists(DROP_IN)
    assert node.read(MENU) == menu


def test_an_isolation_that_is_refused_is_left_out_as_a_whole(node: GrubMachine) -> None:
    with pytest.raises(RefusedError, match=r"boot.isolcpus: NUMA node 1 would keep 0 of its CPUs"):
        door.apply(node, request({**SPEC, "isolate": {"cpus": "1-3,5-7"}}))
    assert not {"isolcpus", "nohz_full", "rcu_nocbs", "irqaffinity"} & {
        word.partition("=")[0] for word in node.line().split()
    }
    assert "transparent_hugepage=madvise" in node.line()


def test_at_a_boot_the_rest_is_brought_about_all_the_same(
    node: GrubMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a guard refuses is left out, and so is what another kernel would know."""
    monkeypatch.setattr(registry, "KINDS", {"boot": boot})
    monkeypatch.setattr(whole, "KINDS", {"boot": boot})
    door.apply(node, request({"parameters": {"iommu": "pt"}}))
    kept = json.loads(node.read("/etc/mlnode/declared.d/default.json"))
    kept["kinds"]["boot"] = {**SPEC, "isolate": {"cpus": "1-3,5-7"}}
    node.put("/etc/mlnode/declared.d/default.json", json.dumps(kept))
    survey = whole.apply_all(node)
    assert survey.errors == ()
    assert node.line() == (
        "root=UUID=1111 ro transparent_hugepage=madvise console=tty0 console=ttyS0,115200 audit=0"
    )
    found = {item.row.setting.key: str(item.row.status) for item in survey.rows}
    assert found["boot.isolcpus"] == found["boot.rcu_nocbs"] == found["boot.irqaffinity"] == "refused"
    assert found["boot.console"] == "pending_reboot"


@pytest.mark.parametrize("path", [MENU, "/proc/cmdline", "/sys/devices/system/cpu/present"])
def test_what_cannot_be_read_this_once_stays_as_it_is(node: GrubMachine, path: str) -> None:
    door.apply(node, request())
    before = node.tree()
    node.unreadable[path] = errno.EIO
    node.forget()  # as another run would
    outcome = door.apply(node, request())
    assert not outcome.changed
    assert "unknown" in statuses(outcome)
    assert node.tree() == before


def test_where_nothing_can_be_written_nothing_is(node: GrubMachine) -> None:
    node.remove(MENU)
    outcome = door.apply(node, request())
    assert statuses(outcome) == {"unsupported"}
    assert not node.exists(DROP_IN)
    assert reason(outcome, "quiet").startswith("neither /boot/grub/grub.cfg nor /boot/grub2/grub.cfg exists")


# -- images --------------------------------------------------------------------------------


def test_an_image_gets_its_parameters_and_the_machine_that_boots_it_its_isolation(node: GrubMachine) -> None:
    node.enable_agent()
    work = request(layers=(Layer.BOOT,))
    outcome = door.apply(node, work)
    assert statuses(outcome) <= {"ok", "changed"}
    # In a chroot it would name the disk of the build host: who finishes the image has it written.
    assert node.updates == 0
    assert not door.apply(node, work).changed
    node.write_menu()
    assert node.line() == (
        "root=UUID=1111 ro transparent_hugepage=madvise console=tty0 console=ttyS0,115200 audit=0"
    )
    assert not door.apply(node, work).changed
    node.reboot()
    outcomes, errors = boot_run.apply_each(node, request())
    assert errors == []
    assert statuses(outcomes) == {"ok", "pending_reboot"}
    assert node.line() == f"root=UUID=1111 ro {LINE} audit=0"


# -- Red Hat's entries ---------------------------------------------------------------------

ENTRY = "/boot/loader/entries/0123-5.14.0.conf"


def test_entries_are_edited_in_place_and_come_back(node: GrubMachine) -> None:
    node.put(ENTRY, "linux /vmlinuz-5.14.0\noptions root=UUID=1111 ro quiet iommu=off\n")
    node.put(DEFAULTS, 'GRUB_ENABLE_BLSCFG=true\nGRUB_CMDLINE_LINUX="quiet"\n')
    node.put(MENU, 'set default="0"\nblscfg\n')
    work = request({"parameters": {"iommu": "pt"}, "absent": ["quiet"]})
    before = node.tree()
    assert statuses(door.apply(node, work)) == {"pending_reboot"}
    assert node.read(ENTRY) == "linux /vmlinuz-5.14.0\noptions iommu=pt root=UUID=1111 ro\n"
    assert node.read(DEFAULTS) == 'GRUB_ENABLE_BLSCFG=true\nGRUB_CMDLINE_LINUX="iommu=pt"\n'
    assert node.updates == 0
    assert not door.apply(node, work).changed
    # A kernel that was installed since
    node.put("/boot/loader/entries/0123-5.15.0.conf", "linux /vmlinuz-5.15.0\noptions root=UUID=1111 ro\n")
    node.forget()
    plan = engine.evaluate(node, work)
    assert reason(plan, "iommu") == (
        "runtime is absent; boot: /boot/loader/entries/0123-5.15.0.conf:2 does not have it"
    )
    node.remove("/boot/loader/entries/0123-5.15.0.conf")
    revert(node)
    assert node.tree() == before
