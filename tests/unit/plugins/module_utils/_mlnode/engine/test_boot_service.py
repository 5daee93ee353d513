# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether the next boot runs the agent, and what a node says about itself if it does not."""

from __future__ import annotations

import errno
import json
import os
import pathlib
import shutil
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from ansible_collections.mlnode.tuning.tests.unit import cases, door
from ansible_collections.mlnode.tuning.tests.unit.machine import RELEASE, Machine
from mlnode.agent import install as agent
from mlnode.agent import node
from mlnode.agent.explain import explain
from mlnode.engine import boot_manager, boot_service, engine
from mlnode.engine import units as agent_files
from mlnode.engine.engine import Request
from mlnode.engine.kind import AGENT_FILE, AGENT_LINK, AGENT_UNIT, Row
from mlnode.host.places import AGENT_COMMAND
from mlnode.host.system import Finished
from mlnode.knobs.modules.kind import kind as modules
from mlnode.knobs.sysctl.kind import kind as sysctl
from mlnode.knobs.thp.kind import kind as thp
from mlnode.linux import systemd_show
from mlnode.model.errors import HostError
from mlnode.model.setting import Severity, Status

ETC, RUN, USR = "/etc/systemd/system", "/run/systemd/system", "/usr/lib/systemd/system"
SWAPPINESS = "/proc/sys/vm/swappiness"


class Booted(Machine):
    """A machine whose systemd answers `systemctl show`. said: unit → its properties."""

    def __init__(self, root: str) -> None:
        super().__init__(root)
        self.said: dict[str, dict[str, str]] = {}
        self.asked = 0

    def run(self, command: Sequence[str], seconds: float = 60) -> Finished:
        if list(command[:2]) != ["systemctl", "show"]:
            return super().run(command, seconds)
        self.asked += 1
        units = [word for word in command[2:] if not word.startswith("--")]
        blocks = ["".join(f"{name}={text}\n" for name, text in self._of(unit).items()) for unit in units]
        return Finished(0, "\n".join(blocks), "")

    def _of(self, unit: str) -> dict[str, str]:
        usual = {"Id": unit, "LoadState": "loaded", "ActiveState": "active", "NeedDaemonReload": "no"}
        return {**usual, **self.said.get(unit, {})}


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The folder of a node as declared, whose distribution has systemd's own units."""
    machine = Booted.debian(str(tmp_path_factory.mktemp("template") / "node"))
    machine.put(f"{USR}/multi-user.target", "[Unit]\nDescription=Multi-User System\n")
    machine.put(
        f"{USR}/graphical.target", "[Unit]\nRequires=multi-user.target\nWants=display-manager.service\n"
    )
    machine.put(f"{USR}/rescue.target", "[Unit]\nRequires=sysinit.target rescue.service\n")
    machine.link(f"{USR}/default.target", "graphical.target")
    machine.put(f"{USR}/sysinit.target", "[Unit]\n")
    machine.put(f"{USR}/basic.target", "[Unit]\nRequires=sysinit.target\n")
    machine.put(f"{USR}/multi-user.target", "[Unit]\nRequires=basic.target\n")
    for unit in (systemd_show.SYSCTL_UNIT, systemd_show.MODULES_UNIT):
        program = unit.partition(".")[0]
        machine.put(
            f"{USR}/{unit}",
            f"[Unit]\nConditionPathExists=/x\n[Service]\nExecStart=/usr/lib/systemd/{program}\n",
        )
        machine.link(f"{USR}/sysinit.target.wants/{unit}", f"../{unit}")
    machine.enable_agent()
    door.apply(machine, Request("one", thp, {"enabled": "madvise", "defrag": "defer"}))
    door.apply(machine, Request("one", sysctl, {"settings": {"vm.swappiness": 1}}))
    return machine.root


@pytest.fixture
def tuned(template: str, tmp_path: pathlib.Path) -> Booted:
    return Booted(str(shutil.copytree(template, tmp_path / "node", symlinks=True)))


def survey(machine: Machine) -> dict[str, Row]:
    machine.forget()
    found = node.survey(machine)
    assert found.errors == ()
    return {item.row.setting.key: item.row for item in found.rows}


def drop_in(folder: str, text: str, name: str = f"{AGENT_UNIT}.d/x.conf") -> Callable[[Machine], None]:
    return lambda machine: machine.put(f"{folder}/{name}", text)


def link(path: str, target: str) -> Callable[[Machine], None]:
    def made(machine: Machine) -> None:
        if machine.is_link(path) or machine.exists(path):
            machine.remove(path)
        machine.link(path, target)

    return made


def edited(old: str, new: str) -> Callable[[Machine], None]:
    return lambda machine: machine.put(AGENT_FILE, machine.read(AGENT_FILE).replace(old, new))


def wrong_target(machine: Machine) -> None:
    machine.remove(AGENT_LINK)
    machine.link(f"{ETC}/graphical.target.requires/{AGENT_UNIT}", "/dev/null")


def hidden(machine: Machine) -> None:
    machine.link(f"/run/systemd/transient/multi-user.target.wants/{AGENT_UNIT}", "/dev/null")


def not_executable(machine: Machine) -> None:
    os.chmod(machine.root + AGENT_COMMAND, 0o644)


FAULTS = [
    (link(AGENT_FILE, "/dev/null"), f"{AGENT_FILE} masks {AGENT_UNIT}: systemctl unmask {AGENT_UNIT}"),
    (lambda machine: machine.put(AGENT_FILE, ""), f"{AGENT_FILE} masks {AGENT_UNIT}: systemctl unmask"),
    (link(f"/run/systemd/generator.early/{AGENT_UNIT}", "/dev/null"), "/run/systemd/generator.early/"),
    (lambda machine: machine.put(f"{ETC}.control/{AGENT_UNIT}", "[Service]\n"), "takes the place of"),
    (drop_in(ETC, "[Service]\nExecStart=\nExecStart=/bin/true\n"), "x.conf:3 sets ExecStart=/bin/true: take"),
    (drop_in(ETC, "[Service]\nExecStart=\n"), "x.conf:2 sets ExecStart=: take"),
    (drop_in(ETC, "[Service]\nExecStartPre=/bin/false\n"), "x.conf:2 sets ExecStartPre=/bin/false"),
    (drop_in(ETC, "[Service]\nExecCondition=/bin/false\n"), "x.conf:2 sets ExecCondition=/bin/false"),
    (drop_in(ETC, "[Unit]\nConditionPathExists=/nowhere\n"), f"{ETC}/{AGENT_UNIT}.d/x.conf:2 sets Condition"),
    (drop_in(RUN, "[Unit]\nConditionHost=other\n"), f"{RUN}/{AGENT_UNIT}.d/x.conf:2 sets ConditionHost"),
    (drop_in(USR, "[Unit]\nAssertPathExists=/nowhere\n"), "x.conf:2 sets AssertPathExists=/nowhere"),
    (drop_in(ETC, "[Service]\nExecStart=\n", "mlnode-.service.d/y.conf"), "mlnode-.service.d/y.conf:2 sets"),
    (drop_in(ETC, "[Unit]\nConditionHost=other\n", "service.d/y.conf"), "/service.d/y.conf:2 sets Condition"),
    (edited(f"ExecStart={AGENT_COMMAND} apply", "ExecStart=/bin/true"), f"{AGENT_FILE}:"),
    (edited(f"ExecStart={AGENT_COMMAND} apply\n", ""), f"{AGENT_FILE} lacks ExecStart={AGENT_COMMAND} apply"),
    (edited("[Service]\n", "ConditionHost=x\n[Service]\n"), f"{AGENT_FILE}:"),
    (link(AGENT_LINK, "/dev/null"), f"{AGENT_LINK} leads to /dev/null and not to {AGENT_UNIT}"),
    (link(AGENT_LINK, "/etc/other.service"), f"{AGENT_LINK} leads to /etc/other.service and not to"),
    (lambda machine: machine.remove(AGENT_LINK), f"is not enabled, as {AGENT_LINK} does not lead to it"),
    (wrong_target, f"{AGENT_UNIT} is not enabled, as {AGENT_LINK} does not lead to it"),
    (hidden, f"/run/systemd/transient/multi-user.target.wants/{AGENT_UNIT} leads to /dev/null and not to"),
    (link(f"{ETC}/default.target", f"{USR}/rescue.target"), "the next boot ends in rescue.target ("),
    (link(f"{ETC}/default.target", "/etc/mine.target"), "does not start multi-user.target: systemctl set"),
    (not_executable, f"{AGENT_COMMAND} is not executable: run site.yml"),
    (lambda machine: machine.put(AGENT_COMMAND, "#!/bin/sh\n", 0o755), f"{AGENT_COMMAND} is not the agent"),
    (lambda machine: machine.remove(AGENT_COMMAND), f"{AGENT_COMMAND} does not exist: install the agent"),
]  # fmt: skip


@pytest.mark.parametrize(("damage", "words"), FAULTS)
def test_a_boot_service_that_will_not_run_is_one_drifted_row_and_the_others_refer_to_it(
    tuned: Booted, damage: Callable[[Machine], None], words: str
) -> None:
    assert {row.status for row in survey(tuned).values()} == {Status.OK}
    damage(tuned)
    rows = survey(tuned)
    assert next(iter(rows)) == "agent.boot"
    boot = rows["agent.boot"]
    assert (boot.status, boot.info.severity) == (Status.DRIFTED, Severity.HIGH)
    assert boot.reason.startswith("boot: ")
    assert words in boot.reason
    others = [row for key, row in rows.items() if key != "agent.boot"]
    assert {row.status for row in others} == {Status.OK}
    assert rows["thp.enabled"].reason == "boot: see agent.boot"
    assert rows["thp.enabled"].reading.boot.value.text is None, "as nothing brings it"
    # A drop-in brings it all the same, unless the fault is one of all services.
    assert rows["vm.swappiness"].reason == ("boot: see agent.boot" if "/service.d/" in words else "")

    before = [str(fault) for fault in boot_service.boot_faults(tuned) if fault.theirs]
    agent.install(tuned)
    tuned.forget()
    left = boot_service.left(tuned)
    assert left == before, "an installation mends what is the agent's own"
    assert [str(fault) for fault in boot_service.boot_faults(tuned)] == left
    assert not left or words in left[0]


@pytest.mark.parametrize(("damage", "words"), FAULTS[::5])
def test_a_module_that_has_no_such_row_says_it_of_each_setting(
    tuned: Booted, damage: Callable[[Machine], None], words: str
) -> None:
    """On a machine that runs, and not in an image as above."""
    tuned.put(f"{RUN}/.keep", "")
    damage(tuned)
    tuned.forget()
    [row, _other] = engine.evaluate(
        tuned, Request("one", thp, {"enabled": "madvise", "defrag": "defer"})
    ).rows
    assert row.status is Status.DRIFTED
    assert row.reason.startswith("boot: nothing brings it back, as ")
    assert words in row.reason


@pytest.mark.parametrize("answers", [True, False])
def test_an_agent_that_selinux_does_not_let_run_is_a_fault(
    tuned: Booted, monkeypatch: pytest.MonkeyPatch, answers: bool
) -> None:
    words = f"SELinux does not let init_t run {AGENT_COMMAND}, a file of type var_lib_t"

    def refusal(_host: Machine, programs: Sequence[str]) -> str:
        assert list(programs) == [AGENT_COMMAND]
        if answers:
            return words
        raise HostError("ask", "/sys/fs/selinux/access", errno.EACCES)

    monkeypatch.setattr(boot_service.selinux_access, "refusal", refusal)
    boot = survey(tuned)["agent.boot"]
    assert boot.status is (Status.DRIFTED if answers else Status.UNKNOWN)
    said = f"{words}: restorecon -v {AGENT_COMMAND}" if answers else "ask /sys/fs/selinux/access: EACCES"
    assert said in boot.reason


def test_a_line_that_is_not_judged_makes_unknown_what_depends_on_it(tuned: Booted) -> None:
    """test_harmless.py has many of them."""
    tuned.put(f"{ETC}/{AGENT_UNIT}.d/x.conf", "[Service]\nReadOnlyPaths=/sys\n")
    rows = survey(tuned)
    boot = rows["agent.boot"]
    assert (boot.status, boot.info.severity) == (Status.UNKNOWN, Severity.HIGH)
    words = f"{ETC}/{AGENT_UNIT}.d/x.conf:2 sets ReadOnlyPaths=/sys, {boot_manager.NOT_JUDGED}"
    assert words in boot.reason
    assert boot.reading.boot.value.unreadable is not None
    assert (rows["thp.enabled"].status, rows["thp.enabled"].reason) == (Status.OK, "boot: see agent.boot")
    assert rows["vm.swappiness"].reason == ""
    request = Request("one", thp, {"enabled": "madvise", "defrag": "defer"})
    [row, _other] = engine.evaluate(tuned, request).rows
    assert row.status is Status.UNKNOWN
    assert words in row.reason
    assert [words in line for line in boot_service.left(tuned)] == [True]


@pytest.mark.parametrize(
    "damage",
    [
        drop_in(ETC, "[Service]\nNice=5\nTimeoutStartSec=900\nEnvironment=LANG=C\n[Unit]\nAfter=x.service\n"),
        drop_in(ETC, "[Unit]\nConditionPathExists=\n"),
        drop_in(RUN, "[Service]\nProtectKernelTunables=no\n", "service.d/zzz-lxc-service.conf"),
        drop_in(USR, "[Service]\nTimeoutStopFailureMode=abort\n", "service.d/10-timeout-abort.conf"),
        link(f"{RUN}/{AGENT_UNIT}", "/dev/null"),  # hidden by the unit in /etc
        link(f"{ETC}/default.target", "/lib/systemd/system/multi-user.target"),
        link(f"{ETC}/default.target", f"{USR}/runlevel5.target"),
        link(AGENT_LINK, f"../{AGENT_UNIT}"),
        lambda machine: machine.put("/proc/cmdline", "systemd.unit=rescue.target\n"),  # of another system
    ],
)
def test_what_does_not_keep_it_from_running_is_no_fault(
    tuned: Booted, damage: Callable[[Machine], None]
) -> None:
    tuned.link(f"{USR}/runlevel5.target", "graphical.target")
    damage(tuned)
    assert {row.status for row in survey(tuned).values()} == {Status.OK}


@pytest.mark.parametrize("word", ["systemd.unit=rescue.target", "single", "emergency", "1"])
def test_the_kernel_command_line_of_a_running_system_chooses_the_target(tuned: Booted, word: str) -> None:
    tuned.put(f"{RUN}/.keep", "")
    tuned.put("/proc/cmdline", f"ro {word}\n")
    reason = survey(tuned)["agent.boot"].reason
    assert f"(the kernel command line has {word}), which does not start multi-user.target" in reason
    tuned.put("/run/systemd/container", "lxc\n")
    assert survey(tuned)["agent.boot"].status is Status.OK, "as that is the host's"


def test_the_entry_of_the_boot_loader_counts_for_the_next_boot(tuned: Booted) -> None:
    """A word that was given by hand is gone with the next boot, and one in the menu comes with it."""
    menu = "menuentry 'Debian' {\n\tlinux /vmlinuz root=/dev/vda1 ro WORD\n}\n"
    tuned.put(f"{RUN}/.keep", "")
    tuned.put("/proc/cmdline", "ro single\n")
    tuned.put("/usr/sbin/grub-mkconfig", "", 0o755)
    tuned.put("/boot/grub/grub.cfg", menu.replace("WORD", "quiet"))
    assert survey(tuned)["agent.boot"].status is Status.OK
    tuned.put("/boot/grub/grub.cfg", menu.replace("WORD", 'systemd.mask="mlnode-apply.service"'))
    assert survey(tuned)["agent.boot"].reason.startswith(
        "boot: /boot/grub/grub.cfg:2 has systemd.mask=mlnode-apply.service"
    )


def test_an_edited_unit_that_still_runs_is_drift_of_its_own_row_alone(tuned: Booted) -> None:
    tuned.put(AGENT_FILE, tuned.read(AGENT_FILE) + "# mine\n")
    rows = survey(tuned)
    assert rows["agent.boot"].reason.startswith(
        f"boot: {AGENT_FILE} differs from the file of this mlnode version"
    )
    assert rows["agent.boot"].reading.boot.value.text == "runs"
    assert rows["thp.enabled"].reason == ""


def test_a_setting_with_a_fault_of_its_own_keeps_its_status(tuned: Booted) -> None:
    tuned.remove(AGENT_LINK)
    tuned.put(SWAPPINESS, "60\n")
    tuned.write_kernel("/sys/kernel/mm/transparent_hugepage/defrag", "always")
    rows = survey(tuned)
    assert (rows["vm.swappiness"].status, rows["vm.swappiness"].reason) == (Status.DRIFTED, "runtime is 60")
    assert rows["thp.defrag"].status is Status.DRIFTED
    assert rows["thp.defrag"].reason == "runtime is always; boot: see agent.boot"
    assert rows["thp.enabled"].status is Status.OK


def test_a_node_without_an_agent_has_no_row_for_it_and_says_so_of_each_setting(machine: Machine) -> None:
    door.apply(machine, Request("one", thp, {"enabled": "madvise"}))
    rows = survey(machine)
    assert [*rows] == ["thp.enabled"]
    assert rows["thp.enabled"].status is Status.DRIFTED
    assert rows["thp.enabled"].reason.endswith(f"{AGENT_UNIT} is not enabled (install the agent)")


def test_what_cannot_be_read_is_unknown_and_no_drift(tuned: Booted) -> None:
    tuned.put(f"{ETC}/{AGENT_UNIT}.d/x.conf", "[Unit]\n")
    tuned.unreadable[f"{ETC}/{AGENT_UNIT}.d/x.conf"] = errno.EACCES
    rows = survey(tuned)
    assert rows["agent.boot"].status is Status.UNKNOWN
    assert "EACCES" in rows["agent.boot"].reason
    assert rows["thp.enabled"].reason == "boot: see agent.boot"
    [row, _other] = engine.evaluate(
        tuned, Request("one", thp, {"enabled": "madvise", "defrag": "defer"})
    ).rows
    assert row.status is Status.UNKNOWN


def test_it_is_explained_with_the_files_of_the_agent(tuned: Booted) -> None:
    tuned.remove(agent_files.UDEV_FILE)
    facts = explain(tuned, "agent.boot")
    assert (facts["status"], facts["declared_by"]) == ("ok", ["one (/etc/mlnode/declared.d/one.json)"])
    assert AGENT_COMMAND in facts["boot_lines"]
    assert f"{agent_files.UDEV_FILE} (missing)" in facts["boot_lines"]


# -- what systemd itself says --------------------------------------------------------------


def test_systemd_is_asked_once_for_all(tuned: Booted) -> None:
    tuned.put(f"{RUN}/.keep", "")
    survey(tuned)
    assert tuned.asked == 1


@cases.table
def test_what_systemd_has_loaded_counts_where_it_runs(
    tuned: Booted, said: dict[str, str], words: str
) -> None:
    tuned.put("/run/odd/place.conf", "[Unit]\nConditionHost=x\n")
    tuned.said[AGENT_UNIT] = said
    assert survey(tuned)["agent.boot"].status is Status.OK
    tuned.put(f"{RUN}/.keep", "")
    assert words in survey(tuned)["agent.boot"].reason
    tuned.said[AGENT_UNIT] = {"ExecStart": f"{{ path={AGENT_COMMAND} ; argv[]={AGENT_COMMAND} apply ; }}"}
    assert survey(tuned)["agent.boot"].status is Status.OK


def test_how_a_command_is_run_is_no_part_of_what_systemd_shows_of_it(tuned: Booted) -> None:
    """As systemd 257 answers for the unit as it is installed."""
    declare(tuned, irq={"rules": [{"name": "all", "strategy": "spread"}]})
    tuned.put(f"{RUN}/.keep", "")
    lines = [
        line.partition("=")[2] for line in agent_files.NIC_UNIT.splitlines() if line[:10] == "ExecStart="
    ]
    argv = [line.lstrip("+").replace("'", "") for line in lines]
    assert argv != lines
    shown = [f"{{ path={one.split()[0]} ; argv[]={one} ; ignore_errors=no ; status=0/0 }}" for one in argv]
    tuned.said[agent_files.NIC_SERVICE] = {"ExecStart": "\nExecStart=".join(shown)}
    assert survey(tuned)["agent.nics"].status is Status.OK
    tuned.forget()
    tuned.said[agent_files.NIC_SERVICE] = {"ExecStart": shown[0]}
    assert "systemd would run" in survey(tuned)["agent.nics"].reason


def test_what_it_has_loaded_before_the_files_changed_says_nothing_about_the_next_boot(tuned: Booted) -> None:
    tuned.put(f"{RUN}/.keep", "")
    tuned.said[AGENT_UNIT] = {"LoadState": "masked", "NeedDaemonReload": "yes"}
    assert survey(tuned)["agent.boot"].status is Status.OK


# -- the arrival of NICs -------------------------------------------------------------------


def declare(machine: Machine, **kinds: Any) -> None:
    machine.put("/etc/mlnode/declared.d/two.json", json.dumps({"format": 1, "name": "two", "kinds": kinds}))


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda machine: machine.remove(agent_files.UDEV_FILE), f"{agent_files.UDEV_FILE} does not exist"),
        (link(agent_files.UDEV_FILE, "/dev/null"), f"{agent_files.UDEV_FILE} is a link to /dev/null"),
        (
            lambda machine: machine.put(agent_files.UDEV_FILE, "# nothing\n"),
            "differs from the file of this mlnode version",
        ),
        (lambda machine: machine.remove(agent_files.NIC_PATH_LINK), "mlnode-nic.path is not enabled"),
        (link(agent_files.NIC_PATH_FILE, "/dev/null"), "masks mlnode-nic.path: systemctl unmask"),
        (drop_in(ETC, "[Path]\nPathExists=\n", "mlnode-nic.path.d/x.conf"), "x.conf:2 sets PathExists="),
        (
            drop_in(ETC, "[Service]\nExecStart=\nExecStart=/bin/true\n", "mlnode-nic.service.d/x.conf"),
            "/bin/true",
        ),
        (lambda machine: machine.remove(agent_files.NIC_SERVICE_LINK), "mlnode-nic.service is not enabled"),
    ],
)
def test_what_notices_nics_has_a_row_where_nics_are_declared(
    tuned: Booted, damage: Callable[[Machine], None], words: str
) -> None:
    damage(tuned)
    assert "agent.nics" not in survey(tuned)
    declare(tuned, nccl={"variables": {"NCCL_DEBUG": "WARN"}})
    rows = survey(tuned)
    assert (rows["agent.nics"].status, rows["agent.nics"].info.severity) == (Status.DRIFTED, Severity.MEDIUM)
    assert words in rows["agent.nics"].reason
    assert rows["agent.boot"].status is Status.OK


def test_a_path_unit_that_was_stopped_is_started_by_the_next_installation(tuned: Booted) -> None:
    agent.install(tuned)
    tuned.put(f"{RUN}/.keep", "")
    declare(tuned, nccl={"variables": {"NCCL_DEBUG": "WARN"}})
    tuned.said[agent_files.NIC_PATH_UNIT] = {"ActiveState": "inactive"}
    assert "mlnode-nic.path does not run" in survey(tuned)["agent.nics"].reason
    assert agent.plan(tuned, notify=False) == []
    assert [step.key for step in agent.install(tuned)] == [agent_files.NIC_PATH_UNIT]
    assert agent_files.NIC_PATH_UNIT in tuned.active


# -- the services that read drop-ins -------------------------------------------------------


@pytest.mark.parametrize("unit", [systemd_show.SYSCTL_UNIT, systemd_show.MODULES_UNIT])
@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda unit: link(f"{ETC}/{unit}", "/dev/null"), "masks"),
        (lambda unit: link(f"{ETC}/sysinit.target.wants/{unit}", "/dev/null"), "keeps"),
        (lambda unit: lambda machine: machine.remove(f"{USR}/sysinit.target.wants/{unit}"), "nothing starts"),
        (
            lambda unit: drop_in(ETC, "[Service]\nExecStart=\nExecStart=/bin/true\n", f"{unit}.d/x.conf"),
            "sets Exec",
        ),
        (lambda unit: drop_in(ETC, "[Unit]\nConditionHost=x\n", f"{unit}.d/x.conf"), "sets ConditionHost=x"),
    ],
)
def test_a_drop_in_that_nothing_reads_is_brought_by_the_agent_or_not_at_all(
    tuned: Booted, unit: str, damage: Callable[[str], Callable[[Machine], None]], words: str
) -> None:
    tuned.put("/sys/module/x/initstate", "live\n")
    tuned.put(f"/lib/modules/{RELEASE}/modules.dep", "kernel/x.ko:\n")
    tuned.put(f"/lib/modules/{RELEASE}/modules.builtin", "")
    door.apply(tuned, Request("one", modules, {"modules": ["x"]}))
    key = "vm.swappiness" if unit == systemd_show.SYSCTL_UNIT else "module.x"
    assert survey(tuned)[key].reading.boot.source.startswith("/etc/")
    damage(unit)(tuned)
    tuned.forget()
    assert words in boot_service.loader_off(tuned, unit)
    row = survey(tuned)[key]
    assert (row.status, row.reading.boot.source) == (Status.OK, AGENT_UNIT)
    tuned.remove(AGENT_LINK)
    assert survey(tuned)[key].reason == "boot: see agent.boot"
    request = Request("one", sysctl, {"settings": {"vm.swappiness": 1}})
    if key != "vm.swappiness":
        request = Request("one", modules, {"modules": ["x"]})
    [row] = engine.evaluate(tuned, request).rows
    assert row.status is Status.DRIFTED
    assert words in row.reason
    assert f"and {AGENT_UNIT} is not enabled" in row.reason


def test_what_stops_the_agent_is_no_fault_of_what_notices_nics(tuned: Booted) -> None:
    declare(tuned, nccl={"variables": {"NCCL_DEBUG": "WARN"}})
    assert survey(tuned)["agent.nics"].reading.boot.value.text == "runs"
    link(f"{ETC}/default.target", f"{USR}/rescue.target")(tuned)
    rows = survey(tuned)
    assert rows["agent.boot"].status is Status.DRIFTED
    assert (rows["agent.nics"].status, rows["agent.nics"].reason) == (Status.OK, "boot: see agent.boot")
