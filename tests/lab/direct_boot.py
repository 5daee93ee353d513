# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kernel and the initrd of a boot without GRUB.

To unpack those of the distribution, which the profile with GRUB has, takes a fifth of a boot.
"""

from __future__ import annotations

import lzma
import os
import pathlib
import shutil
import stat
import struct
import subprocess

from .build import Job, LabError
from .tools import Tools

#: That the disk can be mounted; crc32c is asked for by ext4, without being named as what it needs.
_MODULES = ("virtio_pci", "virtio_blk", "crc32c_generic", "ext4")

#: As initramfs-tools leaves it: /run is there, and the root file system needs no look at boot.
_INIT = """\
#!/busybox sh
/busybox mount -t devtmpfs dev /dev
for module in {modules}; do /busybox insmod /$module; done
/busybox mount -t ext4 -o ro /dev/vda1 /root
/busybox mount --move /dev /root/dev
/busybox mount -t tmpfs -o nosuid,nodev,mode=0755 run /root/run
/busybox mkdir /root/run/initramfs
: >/root/run/initramfs/fsck-root
exec /busybox switch_root /root /sbin/init
"""


def write_kernel(job: Job, root: pathlib.Path, packed: pathlib.Path) -> None:
    """vmlinux, which QEMU starts by its PVH entry; vmlinuz is as in Documentation/arch/x86/boot.rst."""
    image = packed.read_bytes()
    (sectors,) = struct.unpack_from("<B", image, 0x1F1)
    offset, length = struct.unpack_from("<II", image, 0x248)
    begin = (sectors + 1) * 512 + offset
    payload = image[begin : begin + length]
    if payload.startswith(b"\xfd7zXZ"):
        # Behind it stands its size.
        (job.out / "vmlinux").write_bytes(lzma.LZMADecompressor().decompress(payload))
        return
    if not payload.startswith(b"\x28\xb5\x2f\xfd"):
        raise LabError(f"{packed.name} is packed neither with zstd nor with xz: {payload[:6].hex()}")
    (job.out / "vmlinux.zst").write_bytes(payload[:-4])
    zstd = Tools(root).command("zstd")
    job.run(*zstd, "--quiet", "--rm", "--decompress", job.out / "vmlinux.zst")


def write_initrd(job: Job, root: pathlib.Path, kernel: str, busybox: pathlib.Path) -> None:
    """initrd.img, with a shell script and the modules between the kernel and its root file system."""
    folder = job.out / "initrd"
    for name in ("dev", "root"):
        (folder / name).mkdir(parents=True)
    os.mknod(folder / "dev/console", 0o600 | stat.S_IFCHR, os.makedev(5, 1))
    shutil.copy(busybox, folder)
    modules = _in_order(root, kernel)
    for module in modules:
        shutil.copy(module, folder)
    init = folder / "init"
    init.write_text(_INIT.format(modules=" ".join(module.name for module in modules)))
    init.chmod(0o755)
    cpio = Tools(root).command("cpio")
    words = ("--quiet", "--create", "--format=newc", "--owner=+0:+0", "--file=../initrd.img")
    job.run("sh", "-c", 'cd "$1" && shift && find . | "$@"', "sh", folder, *cpio, *words)
    shutil.rmtree(folder)


def _in_order(root: pathlib.Path, kernel: str) -> list[pathlib.Path]:
    """The files of the modules, each behind those that it needs."""
    words = ("modprobe", "--set-version", kernel, "--show-depends", "--all", *_MODULES)
    command = ["chroot", str(root), *words]
    shown = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    files = [line.split()[1] for line in shown.splitlines() if line.startswith("insmod ")]
    return [root / file.lstrip("/") for file in dict.fromkeys(files)]
