# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import errno
import os
import pathlib
from collections.abc import Sequence
from typing import Any

import pytest
from ansible_collections.mlnode.tuning.tests.unit import cases, door
from ansible_collections.mlnode.tuning.tests.unit.machine import RELEASE, Machine
from ansible_collections.mlnode.tuning.tests.unit.uefi_machine import LOADER_INFO, STUB_INFO
from mlnode.engine import engine, revert
from mlnode.engine.kind import Row
from mlnode.host.system import Finished
from mlnode.knobs.modules.kind import kind as modules
from mlnode.model.setting import BOTH_LAYERS, Layer, Status, Value

FILE = "/etc/modprobe.d/zz-mlnode-default.conf"
PARAMETER = "/sys/module/ib_core/parameters/netns_mode"
SHARED = {"options": {"ib_core": {"netns_mode": 0}}}
KEY = "module.ib_core.netns_mode"


@pytest.fixture
def machine(tmp_path: pathlib.Path) -> Machine:
    """The module is loaded, with its default."""
    found = Machine.debian(str(tmp_path / "node"))
    names = ("ib_core", "ib_uverbs", "nvidia", "nvidia_peermem")
    found.put(f"/lib/modules/{RELEASE}/modules.dep", "".join(f"kernel/{name}.ko:\n" for name in names))
    found.put(PARAMETER, "Y\n")
    return found


def rows(machine: Machine, spec: dict[str, Any], layers: tuple[Layer, ...] = BOTH_LAYERS) -> dict[str, Row]:
    machine.forget()
    return {
        row.setting.key: row
        for row in engine.evaluate(machine, door.request("default", "modules", spec, layers)).rows
    }


def applied(
    machine: Machine, spec: dict[str, Any], layers: tuple[Layer, ...] = BOTH_LAYERS
) -> dict[str, Row]:
    machine.forget()
    done = door.apply(machine, door.request("default", "modules", spec, layers))
    machine.forget()
    return {row.setting.key: row for row in done.rows}


def lines(machine: Machine) -> list[str]:
    return [line for line in machine.text(FILE).splitlines() if not line.startswith("#")]


def test_a_loaded_module_with_another_value_waits_and_is_never_reloaded(
    machine: Machine,
) -> None:
    found = applied(machine, SHARED)[KEY]
    assert found.status is Status.PENDING_REBOOT
    assert found.reason == "runtime is Y; the next boot brings 0"
    assert lines(machine) == ["options ib_core netns_mode=0"]
    assert machine.now(PARAMETER) == "Y"
    assert machine.writes == []
    machine.put(PARAMETER, "N\n")
    assert rows(machine, SHARED)[KEY].status is Status.OK


@cases.table
def test_a_value_is_compared_as_the_module_reads_it(machine: Machine, shown: str, want: str) -> None:
    machine.put(PARAMETER, f"{shown}\n")
    found = applied(machine, {"options": {"ib_core": {"netns_mode": want}}})[KEY]
    assert (found.status, found.reading.runtime.text) == (Status.CHANGED, want)


def test_several_parameters_of_a_module_are_one_line(machine: Machine) -> None:
    spec = {"options": {"nvidia": {"NVreg_A": 1, "NVreg_B": "x=1;y=2"}, "ib_core": {"netns_mode": 0}}}
    applied(machine, spec)
    assert lines(machine) == ["options nvidia NVreg_A=1 NVreg_B=x=1;y=2", "options ib_core netns_mode=0"]
    applied(machine, SHARED)
    assert lines(machine) == ["options ib_core netns_mode=0"]
    revert.revert(machine)
    assert not machine.exists(FILE)


def test_a_module_that_is_loaded_now_takes_what_its_file_will_give(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = {"modules": ["nvidia_peermem"], "options": {"nvidia_peermem": {"peerdirect_support": 1}}}
    ran: list[Sequence[str]] = []
    run = machine.run

    def noted(command: Sequence[str], seconds: float = 60) -> Finished:
        ran.append(command)
        return run(command, seconds)

    monkeypatch.setattr(machine, "run", noted)
    found = applied(machine, spec)
    assert ["modprobe", "--", "nvidia_peermem", "peerdirect_support=1"] in ran
    assert found["module.nvidia_peermem"].status is Status.CHANGED


def test_what_is_not_loaded_takes_it_when_it_is(machine: Machine) -> None:
    spec = {"options": {"ib_uverbs": {"disable_raw_qp_enforcement": 1}}}
    key = "module.ib_uverbs.disable_raw_qp_enforcement"
    assert rows(machine, spec)[key].status is Status.DRIFTED
    assert applied(machine, spec)[key].status is Status.CHANGED
    found = rows(machine, spec)[key]
    assert (found.status, found.reason) == (Status.OK, "ib_uverbs is not loaded, and takes it when it is")


def test_the_line_that_counts_last_wins_and_is_named(machine: Machine) -> None:
    machine.put("/etc/modprobe.d/zzz-site.conf", "# x\noptions ib-core netns_mode=1\n")
    found = applied(machine, SHARED)[KEY]
    assert found.status is Status.OVERRIDDEN
    assert "/etc/modprobe.d/zzz-site.conf:2 sets 1" in found.reason
    machine.remove("/etc/modprobe.d/zzz-site.conf")
    machine.put("/proc/cmdline", "ro ib_core.netns_mode=1\n")
    found = rows(machine, SHARED)[KEY]
    assert found.status is Status.OVERRIDDEN
    assert "kernel command line sets 1" in found.reason
    assert modules.boot_sources(KEY, machine) == [f"{FILE}:3 gives 0", "kernel command line gives 1"]


def test_a_line_that_comes_before_loses_and_is_named(machine: Machine) -> None:
    machine.put("/usr/lib/modprobe.d/vendor.conf", "options ib_core netns_mode=1\n")
    machine.put(PARAMETER, "N\n")
    applied(machine, SHARED)
    found = rows(machine, SHARED)[KEY]
    assert found.status is Status.OK
    assert found.reason == "/usr/lib/modprobe.d/vendor.conf:1 gives 1, and a later line counts"


@cases.table
def test_a_mode_in_octal_is_what_the_driver_shows_in_decimal(
    machine: Machine, shown: str, status: str
) -> None:
    machine.put("/sys/module/nvidia/initstate", "live\n")
    machine.put("/proc/driver/nvidia/params", f"DeviceFileMode: {shown}\n")
    spec = {"options": {"nvidia": {"NVreg_DeviceFileMode": "0660"}}}
    assert applied(machine, spec)["module.nvidia.NVreg_DeviceFileMode"].status is Status(status)


def test_what_the_driver_of_nvidia_was_given_is_read_from_its_own_file(machine: Machine) -> None:
    machine.put("/sys/module/nvidia/initstate", "live\n")
    machine.put("/proc/driver/nvidia/params", 'EnablePCIERelaxedOrderingMode: 0\nRegistryDwords: "a=1"\n')
    key = "module.nvidia.NVreg_EnablePCIERelaxedOrderingMode"
    found = applied(machine, {"options": {"nvidia": {"NVreg_EnablePCIERelaxedOrderingMode": 1}}})[key]
    assert (found.status, found.reading.runtime.text) == (Status.PENDING_REBOOT, "0")
    spec = {"options": {"nvidia": {"NVreg_RegistryDwords": "a=1", "NVreg_Nonsense": 1}}}
    found = applied(machine, spec)["module.nvidia.NVreg_RegistryDwords"]
    assert found.status is Status.CHANGED
    unknown = rows(machine, spec)["module.nvidia.NVreg_Nonsense"]
    assert unknown.status is Status.UNSUPPORTED
    assert "does not know NVreg_Nonsense" in unknown.reason


def test_a_parameter_that_is_not_shown_is_unsupported_and_its_line_is_written(machine: Machine) -> None:
    found = applied(machine, {"options": {"ib_core": {"hidden": 1}}})["module.ib_core.hidden"]
    assert found.status is Status.UNSUPPORTED
    assert "has no such parameter, or does not show it" in found.reason
    assert lines(machine) == ["options ib_core hidden=1"]


def test_a_module_that_is_built_in_reads_no_file(machine: Machine) -> None:
    machine.put(f"/lib/modules/{RELEASE}/modules.builtin", "kernel/drivers/nvme/host/nvme-core.ko\n")
    machine.put("/sys/module/nvme_core/parameters/multipath", "Y\n")
    spec = {"options": {"nvme-core": {"multipath": "N"}}}
    found = applied(machine, spec)["module.nvme_core.multipath"]
    assert found.status is Status.OVERRIDDEN
    assert (
        "nvme_core is built in, and takes nvme_core.multipath= from the kernel command line" in found.reason
    )
    machine.put("/proc/cmdline", "ro nvme_core.multipath=N\n")
    assert rows(machine, spec)["module.nvme_core.multipath"].status is Status.PENDING_REBOOT


def test_a_kernel_without_the_module_has_nothing_to_give_it_to(machine: Machine) -> None:
    found = applied(machine, {"options": {"mlx9_core": {"x": 1}}})["module.mlx9_core.x"]
    assert found.status is Status.UNSUPPORTED
    assert not machine.exists(FILE)


def test_in_a_container_it_is_the_hosts(machine: Machine) -> None:
    machine.put("/run/systemd/container", "docker\n")
    found = applied(machine, SHARED)[KEY]
    assert found.status is Status.UNSUPPORTED
    assert "container's host" in found.reason
    assert not machine.exists(FILE)


def test_an_image_gets_the_line_for_the_machines_that_boot_it(machine: Machine) -> None:
    found = applied(machine, SHARED, (Layer.BOOT,))[KEY]
    assert (found.status, lines(machine)) == (Status.CHANGED, ["options ib_core netns_mode=0"])
    machine.put("/etc/modprobe.d/zzz.conf", "options ib_core netns_mode\n")
    found = rows(machine, SHARED, (Layer.BOOT,))[KEY]
    assert (found.status, found.reason) == (Status.OVERRIDDEN, "boot: /etc/modprobe.d/zzz.conf:1 sets Y")


def test_a_file_that_cannot_be_read_may_say_anything(machine: Machine) -> None:
    applied(machine, SHARED)
    machine.put(PARAMETER, "N\n")
    machine.put("/etc/modprobe.d/zzz.conf", "x\n")
    machine.unreadable["/etc/modprobe.d/zzz.conf"] = 5
    found = rows(machine, SHARED)[KEY]
    assert found.status is Status.UNKNOWN
    assert "/etc/modprobe.d/zzz.conf" in found.reason


def test_the_reason_of_a_parameter_names_its_module() -> None:
    found = modules.info("modules.ib_core.netns_mode", Value())
    assert found.reason == "how ib_core was declared to work"
    assert found.source == "modprobe.d(5), modinfo -p ib_core"


# -- copies in an initramfs ----------------------------------------------------------------

IMAGE = f"/boot/initrd.img-{RELEASE}"
LISTER = "/usr/bin/lsinitramfs"
LISTED = """\
init
etc/modprobe.d/zz-mlnode-default.conf
usr/lib/modules/6.12.0-test/kernel/drivers/infiniband/core/ib_core.ko.xz
usr/lib/modules/6.12.0-test/kernel/net/ib-other.ko
"""
STALE = f"{IMAGE} loads ib_core, and has an older copy: run update-initramfs -u -k {RELEASE}"


#: In 3000, after every other time of these tests
LATER = 32503680000


def _modified(machine: Machine, path: str) -> float | None:
    """The time that a test can set, instead of that of the last change."""
    return os.stat(machine.real(path)).st_mtime if machine.exists(path) else None


def with_image(machine: Machine, monkeypatch: pytest.MonkeyPatch, finished: Finished) -> None:
    """A node whose image was made before anything was declared."""
    machine.put(IMAGE, "")
    os.utime(machine.real(IMAGE), (1, 1))
    machine.put(LISTER, "", 0o755)
    usual = machine.run

    def run(command: Sequence[str], seconds: float = 60) -> Finished:
        return finished if command[0] == LISTER else usual(command, seconds)

    monkeypatch.setattr(machine, "run", run)
    monkeypatch.setattr(machine, "changed", lambda path: _modified(machine, path))


def test_an_image_with_an_older_copy_overrides_until_it_is_made_again(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_image(machine, monkeypatch, Finished(0, LISTED, ""))
    row = applied(machine, SHARED)[KEY]
    assert (row.status, row.reason) == (Status.OVERRIDDEN, f"runtime is Y; boot: {STALE}")
    os.utime(machine.real(IMAGE), (LATER, LATER))
    assert rows(machine, SHARED)[KEY].status is Status.PENDING_REBOOT


def test_a_right_value_does_not_hide_an_older_copy(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    with_image(machine, monkeypatch, Finished(0, LISTED, ""))
    machine.put(PARAMETER, "0\n")
    assert applied(machine, SHARED)[KEY].status is Status.OVERRIDDEN
    # The boot was after the file, and brought the value.
    machine.put("/proc/stat", f"btime {LATER}\n")
    assert rows(machine, SHARED)[KEY].status is Status.OK


@pytest.mark.parametrize(
    ("listed", "status"),
    [
        (LISTED.replace("etc/modprobe.d/zz-mlnode-default.conf\n", ""), Status.OVERRIDDEN),
        (LISTED.replace("/modprobe.d/", "/sysctl.d/"), Status.OVERRIDDEN),
        (LISTED.replace("default.conf", "default.conf -> /srv/x"), Status.PENDING_REBOOT),
        (LISTED.replace("etc/", "squashfs-root/etc/"), Status.PENDING_REBOOT),
        (LISTED.replace("/ib_core.ko.xz", "/ib_cm.ko.xz"), Status.PENDING_REBOOT),
        (LISTED.replace("/ib_core.ko.xz", "/ib-core.ko.zst"), Status.PENDING_REBOOT),
    ],
)
def test_the_files_of_an_image_decide(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, listed: str, status: Status
) -> None:
    """dracut leaves /etc/modprobe.d out of an image that is not for one host."""
    with_image(machine, monkeypatch, Finished(0, listed, ""))
    applied(machine, SHARED)
    os.utime(machine.real(IMAGE), (LATER, LATER))
    assert rows(machine, SHARED)[KEY].status is status


@pytest.mark.parametrize(
    ("finished", "words"),
    [
        (Finished(1, "", "cpio: premature end of archive\n"), "premature end of archive"),
        (Finished(2, "Need 'zstd' to unpack the initramfs.\n", ""), "Need 'zstd' to unpack"),
        (Finished(3, "", ""), "exit status 3"),
        (Finished(0, "", ""), "shows no file init"),
        # Of dracut 106 in Debian 13, with a damaged header, and without skipcpio
        (Finished(0, LISTED, "cpio: warning: skipped 1352 bytes of junk\n"), "skipped 1352 bytes"),
        (Finished(0, "kernel/x86/microcode/GenuineIntel.bin\n", ""), "shows no file init"),
    ],
)
def test_an_image_that_cannot_be_listed_is_unknown(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, finished: Finished, words: str
) -> None:
    with_image(machine, monkeypatch, finished)
    row = applied(machine, SHARED)[KEY]
    assert (row.status, words in row.reason) == (Status.UNKNOWN, True)
    machine.remove(LISTER)
    assert "lsinitrd is installed" in rows(machine, SHARED)[KEY].reason


@pytest.mark.parametrize("folder", ["/boot/efi", "/efi", "/boot"])
def test_the_copy_that_an_entry_of_systemd_boot_starts_counts_too(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, folder: str
) -> None:
    with_image(machine, monkeypatch, Finished(0, LISTED, ""))
    applied(machine, SHARED)
    copy, entry = f"{folder}/a/{RELEASE}/initrd.img-x", f"{folder}/loader/entries/a.conf"
    machine.put(copy, "")
    machine.put(entry, f"linux /a/{RELEASE}/linux\ninitrd  /a/{RELEASE}/initrd.img-x\n")
    os.utime(machine.real(copy), (1, 1))
    os.utime(machine.real(IMAGE), (LATER, LATER))
    assert rows(machine, SHARED)[KEY].status is Status.PENDING_REBOOT, "GRUB starts the image"
    machine.put(LOADER_INFO, "\6\0\0\0" + "\0".join("systemd-boot 257") + "\0")
    row = rows(machine, SHARED)[KEY]
    assert row.status is Status.OVERRIDDEN
    assert f"{copy} loads ib_core, and has an older copy" in row.reason
    machine.remove(IMAGE)
    assert rows(machine, SHARED)[KEY].status is Status.OVERRIDDEN
    machine.unreadable[entry] = errno.EIO
    assert rows(machine, SHARED)[KEY].status is Status.UNKNOWN
    machine.unreadable.clear()
    machine.put(entry, f"linux /a/{RELEASE}/linux\n")
    assert rows(machine, SHARED)[KEY].status is Status.PENDING_REBOOT, "nothing starts it"


@pytest.mark.parametrize(
    ("path", "text", "words"),
    [
        (STUB_INFO, "\6\0\0\0" + "\0".join("systemd-stub 257") + "\0", "the unified kernel image: its"),
        ("/run/ostree-booted", "", "the deployment of ostree: its"),
        ("/proc/cmdline", "root=/dev/nfs initrd=node.img\n", "initrd=node.img: its"),
    ],
)
def test_an_image_in_another_place_is_unknown_until_a_boot(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, path: str, text: str, words: str
) -> None:
    monkeypatch.setattr(machine, "changed", lambda path: _modified(machine, path))
    machine.put(path, text)
    row = applied(machine, SHARED)[KEY]
    assert (row.status, words in row.reason) == (Status.UNKNOWN, True), row.reason
    machine.put(PARAMETER, "0\n")
    machine.put("/proc/stat", "btime 1000\n")
    monkeypatch.setattr(machine, "changed", lambda path: 999 if path == FILE else 2000)
    assert rows(machine, SHARED)[KEY].status is Status.OK


def test_a_unified_kernel_image_may_be_older_than_the_image_beside_it(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_image(machine, monkeypatch, Finished(0, LISTED, ""))
    applied(machine, SHARED)
    os.utime(machine.real(IMAGE), (LATER, LATER))
    machine.put(STUB_INFO, "\6\0\0\0" + "\0".join("systemd-stub 257") + "\0")
    assert rows(machine, SHARED)[KEY].status is Status.UNKNOWN


def test_dracut_s_image_names_its_command(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.put(f"/boot/initramfs-{RELEASE}.img", "")
    os.utime(machine.real(f"/boot/initramfs-{RELEASE}.img"), (1, 1))
    machine.put("/usr/bin/lsinitrd", "", 0o755)
    first = "lrwxrwxrwx 1 root root 23 Jan 1 2026 "
    listing = f"{first}init -> usr/lib/systemd/systemd\n{first}{LISTED.splitlines()[2]}\n"
    monkeypatch.setattr(machine, "run", lambda _command, _seconds=60: Finished(0, listing, ""))
    monkeypatch.setattr(machine, "changed", lambda path: _modified(machine, path))
    command = f"run dracut -f --kver {RELEASE}"
    assert applied(machine, SHARED)[KEY].reason.endswith(f"and has no copy: {command}")
    # That was done, and the file is not in the image.
    os.utime(machine.real(f"/boot/initramfs-{RELEASE}.img"), (LATER, LATER))
    reason = rows(machine, SHARED)[KEY].reason
    assert reason.endswith(f'add install_items+=" {FILE} " to dracut.conf.d and {command}')
