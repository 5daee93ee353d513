# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A disk that UEFI firmware starts through systemd-boot, beside a menu of GRUB that nothing reads."""

from __future__ import annotations

import pathlib
import shutil

from .build import Job, Part
from .parts import (
    _GENERATORS,
    _GRUB_CONFIG,
    _GRUB_DEFAULTS,
    _INITRD,
    _MASKED,
    COMMAND_LINE,
    NEWEST,
    TOOLS,
    _furnish,
    _unpack_modules,
    bootstrap,
    kernel_of,
    make_guest,
)
from .tools import Tools

_PACKAGES = (
    "linux-image-amd64,initramfs-tools,zstd,systemd-sysv,udev,dbus,openssh-server,python3,kmod,procps,"
    "iproute2,iputils-ping,ethtool,pciutils,numactl,less,irqbalance,grub-pc-bin,grub2-common,systemd-boot,"
    "systemd-boot-efi,systemd-ukify,dosfstools,mtools,ovmf"
)

_MEBIBYTE = 1 << 20
_ROOT, _ESP = 3 << 30, 256 * _MEBIBYTE
#: The same number in fstab keeps /dev/vda1 the root file system, as on the other disks
_PARTITIONS = f"label: gpt\nstart=1MiB, size={_ROOT >> 20}MiB, type=L\nsize={_ESP >> 20}MiB, type=U\n"
_FSTAB = "/dev/vda1 / ext4 defaults 0 1\n/dev/vda2 /boot/efi vfat umask=0077 0 2\n"
_MACHINE_ID = "6d6c6e6f64656c61626d616368696e65"
_LINE = f"root=/dev/vda1 ro {COMMAND_LINE}"
_ENTRY = """\
title Debian
version {kernel}
machine-id {machine}
linux /{machine}/{kernel}/linux
initrd /{machine}/{kernel}/initrd.img
options {line}
"""

FIRMWARE = "OVMF.fd"


def make_uefi_disk(job: Job) -> None:
    """A root file system and an EFI system partition, as kernel-install leaves them."""
    tools, guest = (Tools(part.path / "root") for part in job.part.needs)
    kernel = kernel_of(job.part.needs[1])
    root = job.out / "root"
    job.run("cp", "--archive", "--reflink=auto", guest.root, root)
    _furnish(job, root, kernel)
    (root / "etc/fstab").write_text(_FSTAB)
    (root / "etc/kernel/cmdline").write_text(f"{_LINE}\n")
    (root / "boot/efi").mkdir()
    (root / "usr/share/ovmf" / FIRMWARE).rename(job.out / FIRMWARE)
    shutil.rmtree(root / "usr/share/OVMF")
    _write_esp(job, root, kernel)
    disk = job.out / "disk.raw"
    with disk.open("wb") as stream:
        stream.truncate(_ROOT + _ESP + 2 * _MEBIBYTE)
    sfdisk = 'disk=$1; words=$2; shift 2; printf %s "$words" | "$@" --quiet "$disk"'
    job.run("sh", "-c", sfdisk, "sh", disk, _PARTITIONS, *tools.command("sfdisk"))
    offset = f"offset={_MEBIBYTE},lazy_itable_init=0,lazy_journal_init=0"
    words = ("-q", "-F", "-L", "lab", "-d", root, "-E", offset, disk, f"{_ROOT >> 10}k")
    job.run(*tools.command("mkfs.ext4"), *words)
    place = (f"seek={(_ROOT >> 20) + 1}", "bs=1M", "conv=notrunc,sparse")
    job.run("dd", f"if={job.out}/esp.img", f"of={disk}", *place, "status=none")
    (job.out / "esp.img").unlink()
    job.run("rm", "-rf", "--one-file-system", root)


def _write_esp(job: Job, root: pathlib.Path, kernel: str) -> None:
    esp = root / "esp"
    loader = next((root / "usr/lib/systemd/boot/efi").glob("systemd-bootx64.efi*"))
    files = {
        "EFI/BOOT/BOOTX64.EFI": loader,
        "EFI/systemd/systemd-bootx64.efi": loader,
        f"{_MACHINE_ID}/{kernel}/linux": root / f"boot/vmlinuz-{kernel}",
        f"{_MACHINE_ID}/{kernel}/initrd.img": root / f"boot/initrd.img-{kernel}",
    }
    for name, source in files.items():
        (esp / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, esp / name)
    entries = esp / "loader/entries"
    entries.mkdir(parents=True)
    text = _ENTRY.format(kernel=kernel, machine=_MACHINE_ID, line=_LINE)
    (entries / f"{_MACHINE_ID}-{kernel}.conf").write_text(text)
    (esp / "loader/loader.conf").write_text("timeout 0\n")
    (esp / "loader/entries.srel").write_text("type1\n")
    with (root / "esp.img").open("wb") as stream:
        stream.truncate(_ESP)
    job.run("chroot", root, "mkfs.vfat", "-F", "32", "-n", "ESP", "/esp.img")
    job.run("chroot", root, "sh", "-c", "mcopy -s -i /esp.img /esp/* ::")
    (root / "esp.img").rename(job.out / "esp.img")
    shutil.rmtree(esp)


UEFI_GUEST = Part(f"guest-{NEWEST}-uefi", (make_guest, bootstrap), (NEWEST, _PACKAGES, _INITRD))
UEFI_DISK = Part(
    f"disk-{NEWEST}-uefi",
    (make_uefi_disk, _write_esp, _furnish, _unpack_modules),
    (_PARTITIONS, _FSTAB, _LINE, _ENTRY, *_MASKED, *_GENERATORS, _GRUB_CONFIG, _GRUB_DEFAULTS),
    sources=("guest",),
    needs=(TOOLS, UEFI_GUEST),
)
