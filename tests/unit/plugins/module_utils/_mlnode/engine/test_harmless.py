# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What others set for a unit of ours: listed as harmless, a change of what was installed, or not judged."""

from __future__ import annotations

import pathlib
import shutil
from collections.abc import Callable

import pytest
from ansible_collections.mlnode.tuning.tests.unit import cases
from ansible_collections.mlnode.tuning.tests.unit import drop_in_lines as lines
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine
from mlnode.engine import boot_service, units
from mlnode.engine.boot_manager import NOT_JUDGED, Fault
from mlnode.engine.kind import AGENT_LINK, AGENT_UNIT
from mlnode.host.places import AGENT_COMMAND, CHECK_SERVICE, CHECK_TIMER
from mlnode.linux import systemd_show
from mlnode.model.errors import HostError

ETC, RUN, USR = "/etc/systemd/system", "/run/systemd/system", "/usr/lib/systemd/system"


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> str:
    machine = Machine.debian(str(tmp_path_factory.mktemp("template") / "node"))
    machine.put(f"{USR}/sysinit.target", "[Unit]\nWants=local-fs.target\n")
    machine.put(f"{USR}/local-fs.target", "[Unit]\nDefaultDependencies=no\n")
    machine.put(f"{USR}/basic.target", "[Unit]\nRequires=sysinit.target\nWants=timers.target\n")
    machine.put(f"{USR}/timers.target", "[Unit]\n")
    machine.put(f"{USR}/multi-user.target", "[Unit]\nRequires=basic.target\n")
    machine.put(f"{USR}/graphical.target", "[Unit]\nRequires=multi-user.target\nAfter=multi-user.target\n")
    machine.link(f"{USR}/default.target", "graphical.target")
    for unit in (systemd_show.SYSCTL_UNIT, systemd_show.MODULES_UNIT):
        text = f"[Unit]\nConditionPathExists=/x\n[Service]\nExecStart=/usr/lib/systemd/{unit[:-8]}\n"
        machine.put(f"{USR}/{unit}", text)
        machine.link(f"{USR}/sysinit.target.wants/{unit}", f"../{unit}")
    machine.enable_agent()
    machine.put("/proc/self/mountinfo", "21 1 8:1 / / rw - ext4 /dev/sda1 rw\n")
    return machine.root


@pytest.fixture
def node(template: str, tmp_path: pathlib.Path) -> Machine:
    return Machine(str(shutil.copytree(template, tmp_path / "node", symlinks=True)))


@pytest.fixture(scope="module")
def shared(template: str, tmp_path_factory: pytest.TempPathFactory) -> Machine:
    """For tests that write one drop-in only, each over that of another one."""
    path = tmp_path_factory.mktemp("shared") / "node"
    return Machine(str(shutil.copytree(template, path, symlinks=True)))


def faults(machine: Machine, running: bool = False) -> list[Fault]:
    machine.forget()
    return [fault for fault in boot_service.boot_faults(machine, running) if fault.stops]


def put(machine: Machine, line: str, unit: str = AGENT_UNIT) -> str:
    path = f"{ETC}/{unit}.d/x.conf"
    machine.put(path, lines.text(line))
    return path


@pytest.mark.parametrize("line", lines.HARMLESS)
def test_what_is_listed_is_no_fault(shared: Machine, line: str) -> None:
    put(shared, line)
    assert faults(shared) == []


@pytest.mark.parametrize("line", lines.CHANGES)
def test_what_changes_the_installed_unit_is_one_with_its_line(shared: Machine, line: str) -> None:
    path = put(shared, line)
    [fault] = faults(shared)
    assert (fault.theirs, fault.judged) == (True, True)
    assert fault.words.startswith(f"{path}:2 sets {line.partition('] ')[2]}")
    assert path in boot_service.stopped(shared)


@pytest.mark.parametrize("line", lines.NOT_JUDGED)
def test_all_else_is_reported_and_not_judged(shared: Machine, line: str) -> None:
    path = put(shared, line)
    [fault] = faults(shared)
    assert (fault.theirs, fault.judged) == (True, False)
    assert fault.words == f"{path}:2 sets {line.partition('] ')[2]}, {NOT_JUDGED}"
    with pytest.raises(HostError, match=r"x\.conf:2 sets"):
        boot_service.stopped(shared)


@pytest.mark.parametrize("unit", [units.NIC_SERVICE, CHECK_SERVICE])
def test_it_is_the_same_for_the_other_services(node: Machine, unit: str) -> None:
    for line in (*lines.CHANGES, *lines.NOT_JUDGED):
        if unit == CHECK_SERVICE and line in _AS_CHECKED:
            continue
        path = put(node, line, unit)
        node.forget()
        found = [*boot_service.nic_faults(node, False), *boot_service.timer_faults(node, [unit], False)]
        assert any(f"{path}:2 sets " in str(fault) for fault in found), line


#: What the service of the check has, or more
_AS_CHECKED = ("[Service] ProtectSystem=full", "[Service] TimeoutStartSec=6min", "[Service] ReadWritePaths=")


@pytest.mark.parametrize("unit", [systemd_show.SYSCTL_UNIT, systemd_show.MODULES_UNIT])
def test_it_is_the_same_for_what_reads_our_files(node: Machine, unit: str) -> None:
    for line in (*lines.CHANGES, *lines.NOT_JUDGED):
        path = put(node, line, unit)
        node.forget()
        off = boot_service.loader_off(node, unit, False)
        # It has nothing that the first ones take back, and 90 seconds.
        fits = line.endswith(("CapabilityBoundingSet=", "ReadWritePaths=", "TimeoutStartSec=6min"))
        assert off.startswith(f"{path}:2 sets ") != fits, line
    for line in lines.HARMLESS:
        if not line.endswith(("Type=oneshot", "PrivateTmp=true")):  # which this one has not
            put(node, line, unit)
            node.forget()
            assert boot_service.loader_off(node, unit, False) == "", line


def test_a_copy_of_what_the_distribution_ships_is_no_fault(node: Machine) -> None:
    unit = systemd_show.SYSCTL_UNIT
    text = node.read(f"{USR}/{unit}")
    node.put(f"{ETC}/{unit}", text)
    assert boot_service.loader_off(node, unit, False) == ""
    node.put(f"{ETC}/{unit}", text.partition("ExecStart=")[0])
    node.forget()
    assert boot_service.loader_off(node, unit, False).startswith(f"{ETC}/{unit} lacks ExecStart=")


@cases.table
@pytest.mark.parametrize("place", [ETC, f"{ETC}.control", RUN, "/run/systemd/generator", USR])
def test_every_place_of_a_drop_in_counts(node: Machine, place: str, folder: str) -> None:
    name = "alias-of.service" if folder == "alias-.service.d" else "alias.service"
    if folder == "alias-.service.d":
        # An alias has drop-ins of its own, too, or systemd would be asked about every link.
        node.put(f"{USR}/{name}.d/x.conf", "")
    node.link(f"{ETC}/{name}", f"{ETC}/{AGENT_UNIT}")
    node.put(f"{place}/{folder}/y.conf", "[Service]\nReadOnlyPaths=/sys\n")
    assert f"{place}/{folder}/y.conf:2 sets ReadOnlyPaths=/sys" in str(faults(node)[0])


def test_a_drop_in_that_is_linked_to_nothing_hides_that_of_its_name(node: Machine) -> None:
    node.put(f"{USR}/{AGENT_UNIT}.d/x.conf", "[Service]\nReadOnlyPaths=/sys\n")
    node.link(f"{ETC}/{AGENT_UNIT}.d/x.conf", "/dev/null")
    assert faults(node) == []


def test_a_dependency_is_not_taken_back_by_an_empty_line(node: Machine) -> None:
    node.put(f"{ETC}/{AGENT_UNIT}.d/x.conf", "[Unit]\nRequires=gone.service\nRequires=\n")
    assert "x.conf:2 sets Requires=gone.service" in str(faults(node)[0])


# -- timers --------------------------------------------------------------------------------


@cases.table
def test_another_period_of_a_timer_is_harmless_and_none_is_not(
    node: Machine, line: str, harmless: bool
) -> None:
    path = put(node, line, CHECK_TIMER)
    found = boot_service.timer_faults(node, [CHECK_TIMER, CHECK_SERVICE], False)
    assert [f"{path}:2" in str(fault) for fault in found] == ([] if harmless else [True])


def test_timers_do_not_run_where_their_target_is_masked(node: Machine) -> None:
    node.link(f"{ETC}/timers.target", "/dev/null")
    [fault] = boot_service.timer_faults(node, [CHECK_TIMER, CHECK_SERVICE], False)
    assert fault.words == f"{ETC}/timers.target masks timers.target"


# -- other units ---------------------------------------------------------------------------


def enabled(machine: Machine, text: str, target: str = "multi-user.target", path: str = "") -> None:
    machine.put(path or f"{ETC}/other.service", text)
    machine.link(f"{ETC}/{target}.wants/other.service", f"{ETC}/other.service")


def test_a_unit_that_a_boot_starts_may_not_conflict(node: Machine) -> None:
    node.put(f"{ETC}/other.service", f"[Unit]\nConflicts=x.service {AGENT_UNIT}\n")
    assert faults(node) == [], "nothing starts it"
    enabled(node, node.read(f"{ETC}/other.service"))
    [fault] = faults(node)
    assert fault.words == f"{ETC}/other.service:2 (other.service) sets Conflicts=x.service {AGENT_UNIT}"
    node.put(f"{ETC}/other.service", "[Unit]\n")
    node.put(f"{RUN}/other.service.d/z.conf", f"[Unit]\nConflicts={AGENT_UNIT}\n")
    assert "/z.conf:2 (other.service) sets Conflicts" in faults(node)[0].words
    node.put(f"{RUN}/other.service.d/z.conf", f"[Unit]\nConflicts=not-{AGENT_UNIT}\n")
    assert faults(node) == []


def test_a_service_that_one_of_the_boot_starts_counts_too(node: Machine) -> None:
    enabled(node, "[Unit]\nWants=third.service\n")
    node.put(f"{ETC}/third.service", f"[Unit]\nConflicts={AGENT_UNIT}\n")
    assert len(faults(node)) == 1


@cases.table
def test_a_cycle_of_the_order_is_a_fault(node: Machine, own: str, other: str, cycle: bool) -> None:
    """systemd breaks it by leaving one of its units out."""
    enabled(node, f"[Unit]\n{other}\n")
    node.put(f"{USR}/slurmd.service", "[Unit]\n")
    node.link(f"{ETC}/multi-user.target.wants/slurmd.service", f"{USR}/slurmd.service")
    if own:
        node.put(f"{ETC}/{AGENT_UNIT}.d/x.conf", f"[Unit]\n{own}\n")
    assert ["closes a cycle" in fault.words for fault in faults(node)] == ([True] if cycle else [])


@pytest.mark.parametrize("name", ["sysinit.target", "basic.target", "multi-user.target"])
def test_no_unit_is_started_without_the_targets_before_it(node: Machine, name: str) -> None:
    node.link(f"{ETC}/{name}", "/dev/null")
    assert faults(node)


# -- the kernel command line ---------------------------------------------------------------


@cases.table
def test_words_of_the_kernel_command_line(node: Machine, words: str, stops: bool) -> None:
    node.put(f"{RUN}/.keep", "")
    node.put("/proc/cmdline", f"BOOT_IMAGE=/vmlinuz ro quiet {words}\n")
    found = faults(node, running=True)
    assert bool(found) == stops
    assert all("the kernel command line has " in str(fault) for fault in found)


def test_a_reader_of_our_files_may_be_masked_there(node: Machine) -> None:
    node.put(f"{RUN}/.keep", "")
    node.put("/proc/cmdline", "systemd.mask=systemd-sysctl.service\n")
    off = boot_service.loader_off(node, systemd_show.SYSCTL_UNIT)
    assert off == "the kernel command line has systemd.mask=systemd-sysctl.service"


def test_the_environment_of_all_services_counts(node: Machine) -> None:
    node.put("/etc/systemd/system.conf.d/x.conf", "[Manager]\nDefaultEnvironment=NCCL_DEBUG=WARN\n")
    assert faults(node) == []
    node.put("/etc/systemd/system.conf.d/x.conf", "[Manager]\nDefaultEnvironment=LD_PRELOAD=/x.so\n")
    [fault] = faults(node)
    assert "system.conf.d/x.conf:2 sets DefaultEnvironment=LD_PRELOAD=/x.so" in fault.words


# -- where the command is ------------------------------------------------------------------


def fstab(line: str) -> Callable[[Machine], None]:
    return lambda machine: machine.put("/etc/fstab", f"/dev/vda1 / ext4 defaults 0 1\n{line}\n")


def mount_unit(options: str, path: str = f"{ETC}/usr-local.mount") -> Callable[[Machine], None]:
    def made(machine: Machine) -> None:
        text = f"[Mount]\nWhat=/dev/vdb\nWhere=/usr/local\nOptions={options}\n"
        machine.put(path, f"[Unit]\n{text}[Install]\nWantedBy=local-fs.target\n")
        machine.link(f"{ETC}/local-fs.target.wants/usr-local.mount", path)

    return made


@pytest.mark.parametrize(
    ("made", "where"),
    [
        (fstab("/dev/vdb /usr/local ext4 noexec 0 2"), "/etc/fstab:2 mounts /usr/local noexec"),
        (fstab("/dev/vdb /usr/local/ ext4 rw,noexec,nodev 0 2"), "/etc/fstab:2 mounts /usr/local noexec"),
        (fstab("/dev/vdb /usr/local ext4 defaults,user 0 2"), "/etc/fstab:2"),
        (fstab("/dev/vdb /usr/local/bin ext4 noexec"), "/etc/fstab:2 mounts /usr/local/bin noexec"),
        (fstab("/dev/vdb /usr/local ext4 user,exec 0 2"), ""),
        (fstab("/dev/vdb /usr/local ext4 noexec,noauto 0 2"), ""),
        (fstab("/dev/vdb /usr/local ext4 noexec 0 2\n/dev/vdc /usr/local/bin ext4 defaults 0 2"), ""),
        (fstab("#/dev/vdb /usr/local ext4 noexec 0 2"), ""),
        (fstab("/dev/vdb /home ext4 noexec 0 2"), ""),
        (mount_unit("nodev,noexec"), f"{ETC}/usr-local.mount:5 mounts /usr/local noexec"),
        (mount_unit("nodev"), ""),
    ],
)
def test_a_command_on_a_mount_without_exec_is_not_started(
    node: Machine, made: Callable[[Machine], None], where: str
) -> None:
    made(node)
    found = faults(node)
    assert [fault.words.startswith(where) for fault in found] == ([True] if where else [])


def test_what_is_mounted_now_counts_where_the_command_is_started_now(node: Machine) -> None:
    row = "30 21 8:2 / /usr/local rw,noexec - ext4 /dev/sdb1 rw\n"
    node.put("/proc/self/mountinfo", node.read("/proc/self/mountinfo") + row)
    assert faults(node) == []
    [fault] = faults(node, running=True)
    assert fault.words.startswith("/proc/self/mountinfo:2 mounts /usr/local noexec")
    assert AGENT_COMMAND in fault.words


def test_the_link_that_starts_it_counts_as_before(node: Machine) -> None:
    assert faults(node) == []
    node.remove(AGENT_LINK)
    assert len(faults(node)) == 1
