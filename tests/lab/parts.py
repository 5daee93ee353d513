# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The parts of the lab: root file systems, ACPI tables, netdevsim, and the disks that machines boot from."""

from __future__ import annotations

import lzma
import pathlib
import shutil

from . import acpi, direct_boot
from .build import HERE, Job, LabError, Part, StaleError
from .tools import Tools

NEWEST = "trixie"

TOOLS_PACKAGES = "qemu-system-x86,qemu-utils,acpica-tools,busybox-static,e2fsprogs,fdisk"
WORKSHOP_PACKAGES = "linux-headers-amd64,linux-source,gcc,libc6-dev,make,xz-utils,kmod"
GUEST_PACKAGES = (
    "linux-image-amd64,initramfs-tools,zstd,grub-pc,systemd-sysv,udev,dbus,openssh-server,python3,"
    "kmod,procps,iproute2,iputils-ping,ethtool,pciutils,numactl,rdma-core,ibverbs-utils,perftest,less,irqbalance,ufw,"
    "kdump-tools"
)
#: Runtimes of containers with what `podman run` and `docker run` need by default, and Slurm
RUNTIME_PACKAGES = (
    "podman,crun,netavark,nftables,docker.io,docker-cli,containerd,iptables,"
    "slurmctld,slurmd,slurm-client,munge"
)
#: Programs that manage networks; systemd-networkd is in every guest
MANAGER_PACKAGES = "network-manager,netplan.io,ifupdown"
#: Both security modules, as the words for the kernel choose between them, and a log of what they deny
SECURITY_PACKAGES = (
    "selinux-policy-default,selinux-utils,policycoreutils,auditd,apparmor,apparmor-utils,"
    "prometheus-node-exporter,cron"
)

_SELINUX_CONFIG = "SELINUX=enforcing\nSELINUXTYPE=default\n"
#: Debian's policy does not let it write the key that the machine is given (machine.py) below /root.
_SELINUX_MODULE = "(typepermissive systemd_tmpfiles_t)\n"
_FILE_CONTEXTS = "etc/selinux/default/contexts/files/file_contexts"

#: Where the partition begins: room for GRUB before it
_OFFSET = 1 << 20
_FILE_SYSTEM = 3 << 30

#: Work of their own that would run in the middle of a test, or that no test needs at each boot
_MASKED = (
    "apt-daily.timer", "apt-daily-upgrade.timer", "dpkg-db-backup.timer", "e2scrub_all.timer",
    "fstrim.timer", "man-db.timer", "serial-getty@ttyS0.service", "getty@tty1.service",
    "systemd-networkd-wait-online.service", "grub-common.service", "systemd-binfmt.service",
    "proc-sys-fs-binfmt_misc.automount", "modprobe@drm.service", "modprobe@fuse.service",
    "modprobe@efi_pstore.service", "rdma-ndd.service", "systemd-random-seed.service",
    "sys-kernel-tracing.mount", "dev-mqueue.mount", "run-lock.mount", "kmod-static-nodes.service",
    "systemd-tmpfiles-setup-dev-early.service", "systemd-tmpfiles-setup-dev.service",
    "systemd-user-sessions.service", "systemd-network-generator.service",
    "systemd-networkd-persistent-storage.service", "systemd-udev-load-credentials.service",
    "kdump-tools.service",
)  # fmt: skip

#: Each would run at a boot and at each reload of the units, a third of which they take. The two that are left
#: are for /etc/fstab and for words such as systemd.mask= (systemd.generator(7)).
_GENERATORS = tuple(
    f"systemd-{name}-generator" for name in
    ("getty", "gpt-auto", "hibernate-resume", "rc-local", "run", "ssh", "system-update", "sysv", "tpm2")
)  # fmt: skip

#: Words for each kernel. An emulated CPU forgets all its address translations whenever page tables are
#: exchanged, and isolation from Meltdown does that at every system call: a third of the time went there.
#: Security modules are asked at every system call on a file, and systemd compiles a program for BPF at each
#: boot. Ciphers are not tried out when they are registered. audit=0 is for a test to take away. The kernel
#: panics if its timer is late at the start, as an emulated one is on a busy machine (no_timer_check in
#: admin-guide/kernel-parameters).
COMMAND_LINE = "console=ttyS0 mitigations=off lsm=capability cryptomgr.notests no_timer_check audit=0"

_GRUB_CONFIG = """\
set timeout=0
menuentry "lab" {{
    linux /boot/vmlinuz-{kernel} root=/dev/vda1 ro {words}
    initrd /boot/initrd.img-{kernel}
}}
"""

_GRUB_DEFAULTS = f"""\
GRUB_TIMEOUT=0
GRUB_CMDLINE_LINUX="{COMMAND_LINE}"
GRUB_CMDLINE_LINUX_DEFAULT=""
GRUB_TERMINAL=serial
GRUB_DISABLE_OS_PROBER=true
"""

#: Only what the disk needs, and not every driver there is: a third of the size to unpack at each boot. And no
#: udev, which would look at every device twice in a boot: the kernel makes the node of the disk itself.
_INITRD = r"""
mkdir -p "$1/etc/initramfs-tools" && cd "$1/etc/initramfs-tools"
mkdir -p conf.d hooks scripts/init-top scripts/init-bottom
echo MODULES=list >conf.d/lab
{
    printf '%s\n' '#!/bin/sh' '[ "$1" = prereqs ] && exit' '. /usr/share/initramfs-tools/hook-functions'
    printf 'force_load %s\n' virtio_pci virtio_blk ext4
} >hooks/lab
printf '%s\n' '#!/bin/sh' 'exit 0' | tee scripts/init-top/udev >scripts/init-bottom/udev
chmod +x hooks/lab scripts/init-top/udev scripts/init-bottom/udev
"""


def bootstrap(job: Job, *options: str) -> None:
    """A root file system. In a mount namespace of its own, so that nothing stays mounted if it is killed."""
    suite, packages = job.part.parameters[:2]
    left_out = [f"--dpkgopt=path-exclude=/usr/share/{name}/*" for name in ("doc", "info", "locale", "man")]
    job.run(
        *("unshare", "--mount", "--propagation", "private", "mmdebstrap", "--variant=apt", *left_out),
        *('--aptopt=APT::Install-Recommends "false"', f"--include={packages}", *options),
        *(suite, job.out / "root"),
    )


def make_root(job: Job) -> None:
    bootstrap(job)


def make_guest(job: Job) -> None:
    bootstrap(job, f"--essential-hook={_INITRD}")


def make_runtimes(job: Job) -> None:
    # A test configures Slurm and starts it; without a configuration, its daemon hangs as the node boots.
    bootstrap(
        job,
        f"--essential-hook={_INITRD}",
        '--customize-hook=chroot "$1" systemctl disable slurmctld slurmd munge',
    )


def make_managers(job: Job) -> None:
    # A test starts the one that it is about.
    bootstrap(
        job,
        f"--essential-hook={_INITRD}",
        '--customize-hook=chroot "$1" systemctl disable NetworkManager NetworkManager-wait-online networking',
    )


def make_security(job: Job) -> None:
    bootstrap(job, f"--essential-hook={_INITRD}")
    root = job.out / "root"
    (root / "etc/selinux/config").write_text(_SELINUX_CONFIG)
    (root / "root/lab.cil").write_text(_SELINUX_MODULE)
    job.run("chroot", root, "semodule", "--noreload", "--install=/root/lab.cil")


def make_acpi(job: Job) -> None:
    iasl = Tools(job.part.needs[0].path / "root").command("iasl")
    tables = {f"pss-{cpus}": acpi.p_states(cpus) for cpus in range(1, len(acpi.SCRATCH_PORTS) + 1)}
    tables.update({f"cpc-{cpus}": acpi.cppc(cpus) for cpus in range(1, 9)})
    for name, source in tables.items():
        (job.out / f"{name}.asl").write_text(source)
        job.run(*iasl, "-p", job.out / name, job.out / f"{name}.asl")


def make_netdevsim(job: Job) -> None:
    """The module for exactly the kernel that the guest has, from the source of that very package."""
    workshop, guest = job.part.needs
    kernel = kernel_of(guest)
    if not (workshop.path / "root/usr/src" / f"linux-headers-{kernel}").exists():
        raise StaleError(f"the archive has moved on from the kernel {kernel}", workshop, guest)
    _in_workshop(
        job,
        "tar --extract --xz --file=$(echo /usr/src/linux-source-*.tar.xz) --directory=/mnt "
        "--strip-components=4 --wildcards '*/drivers/net/netdevsim/*'",
    )
    for name in ("dcb.c", "dcb.h"):
        shutil.copy(HERE / "netdevsim" / name, job.out)
    _replace(job.out / "Makefile", "health.o", "health.o dcb.o")
    _replace(
        job.out / "netdevsim.h",
        "struct netdevsim {\n",
        '#include "dcb.h"\n\nstruct netdevsim {\n\tstruct nsim_dcb dcb;\n',
    )
    _replace(
        job.out / "netdev.c",
        "static void nsim_setup(struct net_device *dev)\n{\n",
        "static void nsim_setup(struct net_device *dev)\n{\n\tdev->dcbnl_ops = &nsim_dcbnl_ops;\n",
    )
    _in_workshop(
        job,
        f"make -j$(nproc) -C /usr/src/linux-headers-{kernel} M=/mnt CONFIG_NETDEVSIM=m modules "
        "&& strip --strip-debug /mnt/netdevsim.ko",
    )


def _in_workshop(job: Job, script: str) -> None:
    """A shell script in the workshop's root file system, with the folder of the job as /mnt."""
    inside = 'mount --bind "$1" "$2/mnt" && mount -t proc proc "$2/proc" && mount --bind /dev "$2/dev" && '
    root = job.part.needs[0].path / "root"
    job.run(
        *(
            "unshare",
            "--mount",
            "--propagation",
            "private",
            "sh",
            "-c",
            f'{inside} exec chroot "$2" sh -c "$3"',
        ),
        *("sh", job.out, root, script),
    )


def _replace(path: pathlib.Path, old: str, new: str) -> None:
    text = path.read_text()
    if text.count(old) != 1:
        raise LabError(
            f"{path.name} of this kernel's netdevsim has {old.strip()!r} {text.count(old)} times, not once"
        )
    path.write_text(text.replace(old, new))


def kernel_of(guest: Part) -> str:
    return next((guest.path / "root/lib/modules").iterdir()).name


def make_disk(job: Job) -> None:
    """A disk with GRUB and one partition, and the kernel and initrd for a boot without GRUB."""
    tools, guest, *modules = job.part.needs
    kernel = kernel_of(guest)
    root = job.out / "root"
    job.run("cp", "--archive", "--reflink=auto", guest.path / "root", root)
    for module in modules:
        folder = root / "lib/modules" / kernel / "updates"
        folder.mkdir()
        shutil.copy(module.path / "netdevsim.ko", folder)
    _furnish(job, root, kernel)
    if (root / _FILE_CONTEXTS).exists():
        job.run("chroot", root, "setfiles", "-F", f"/{_FILE_CONTEXTS}", "/")
    direct_boot.write_kernel(job, root, root / f"boot/vmlinuz-{kernel}")
    direct_boot.write_initrd(job, root, kernel, tools.path / "root/usr/bin/busybox")
    _write_disk(job, Tools(tools.path / "root"), root)
    job.run("rm", "-rf", "--one-file-system", root)


def _furnish(job: Job, root: pathlib.Path, kernel: str) -> None:
    """What makes a root file system a lab machine."""
    shutil.copytree(HERE / "guest", root, dirs_exist_ok=True)
    job.run(
        "chown",
        "--recursive",
        "root:root",
        root / "etc/systemd",
        root / "etc/ssh/sshd_config.d",
        root / "etc/modprobe.d/lab.conf",
        root / "usr/lib/lab",
    )
    texts = {
        "etc/hostname": "lab\n",
        "etc/hosts": "127.0.0.1 localhost lab\n",
        "etc/resolv.conf": "",
        "etc/machine-id": "6d6c6e6f64656c61626d616368696e65\n",
        "etc/fstab": "/dev/vda1 / ext4 defaults 0 1\n",
        "etc/default/grub.d/lab.cfg": _GRUB_DEFAULTS,
        # Newer than /usr: nothing is to be done as after an update (systemd-update-done.service(8)).
        "etc/.updated": "",
        "var/.updated": "",
        "boot/grub/grub.cfg": _GRUB_CONFIG.format(kernel=kernel, words=COMMAND_LINE),
    }
    # A story that wants a crash kernel reserves its memory.
    (root / "etc/default/grub.d/kdump-tools.cfg").unlink(missing_ok=True)
    for name, text in texts.items():
        (root / name).unlink(missing_ok=True)
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    # All connections come from one address, and on a busy machine some are given up before the login.
    if b"persourcepenalties" in (root / "usr/sbin/sshd").read_bytes():
        (root / "etc/ssh/sshd_config.d/penalties.conf").write_text("PerSourcePenalties no\n")
    shutil.copytree(root / "usr/lib/grub/i386-pc", root / "boot/grub/i386-pc")
    _unpack_modules(root / "lib/modules" / kernel)
    job.run("chroot", root, "depmod", kernel)
    job.run("chroot", root, "systemctl", "enable", "systemd-networkd.service", "lab-devices.service")
    job.run("chroot", root, "systemctl", "mask", *_MASKED)
    generators = root / "etc/systemd/system-generators"
    generators.mkdir()
    for name in _GENERATORS:
        (generators / name).symlink_to("/dev/null")
    # For the tests that want it: beside all others it would move interrupts under their hands.
    job.run("chroot", root, "systemctl", "disable", "irqbalance.service")


def _unpack_modules(folder: pathlib.Path) -> None:
    """An emulated CPU takes seconds of each boot to unpack what it loads. Debian 12 does not pack them."""
    for packed in folder.rglob("*.ko.xz"):
        packed.with_suffix("").write_bytes(lzma.decompress(packed.read_bytes()))
        packed.unlink()


def _write_disk(job: Job, tools: Tools, root: pathlib.Path) -> None:
    modules = ("biosdisk", "part_msdos", "ext2")
    job.run(
        "chroot",
        root,
        "grub-mkimage",
        "-O",
        "i386-pc",
        "-o",
        "/core.img",
        "-p",
        "(hd0,msdos1)/boot/grub",
        *modules,
    )
    core = (root / "core.img").read_bytes()
    (root / "core.img").unlink()
    disk = job.out / "disk.raw"
    with disk.open("wb") as stream:
        stream.truncate(_OFFSET + _FILE_SYSTEM)
    job.run(
        "sh",
        "-c",
        'disk=$1; shift; echo "start=2048, type=83, bootable" | "$@" --quiet "$disk"',
        "sh",
        disk,
        *tools.command("sfdisk"),
    )
    # What grub-install does: boot code before the partition table, core.img behind it. boot.img looks for
    # core.img in sector 1 and core.img for its rest in sector 2 unless told otherwise.
    with disk.open("r+b") as stream:
        stream.write((root / "usr/lib/grub/i386-pc/boot.img").read_bytes()[:440])
        stream.seek(512)
        stream.write(core)
    # Nothing is left to be initialised in the background while a test measures.
    extended = f"offset={_OFFSET},lazy_itable_init=0,lazy_journal_init=0"
    job.run(
        *tools.command("mkfs.ext4"),
        "-q",
        "-F",
        "-L",
        "lab",
        "-d",
        root,
        "-E",
        extended,
        disk,
        f"{_FILE_SYSTEM >> 10}k",
    )


def root_part(name: str, suite: str, packages: str) -> Part:
    return Part(name, (make_root, bootstrap), (suite, packages))


def guest_part(suite: str) -> Part:
    return Part(f"guest-{suite}", (make_guest, bootstrap), (suite, GUEST_PACKAGES, _INITRD))


TOOLS = root_part("tools", NEWEST, TOOLS_PACKAGES)
WORKSHOP = root_part("workshop", NEWEST, WORKSHOP_PACKAGES)
ACPI = Part("acpi", (make_acpi,), sources=("acpi.py",), needs=(TOOLS,))


def netdevsim_part(guest: Part, kind: str = "") -> Part:
    recipe = (make_netdevsim, _in_workshop)
    return Part(f"netdevsim{kind}", recipe, sources=("netdevsim",), needs=(WORKSHOP, guest))


NETDEVSIM = netdevsim_part(guest_part(NEWEST))


def disk_part(suite: str, *modules: Part, guest: Part | None = None, kind: str = "") -> Part:
    return Part(
        f"disk-{suite}{kind}",
        (make_disk, _furnish, _unpack_modules, _write_disk),
        (str(_OFFSET), str(_FILE_SYSTEM), *_MASKED, *_GENERATORS, _GRUB_CONFIG, _GRUB_DEFAULTS),
        sources=("guest", "direct_boot.py"),
        needs=(TOOLS, guest or guest_part(suite), *modules),
    )


DISK = disk_part(NEWEST, NETDEVSIM)
OLDER_DISK = disk_part("bookworm")
RUNTIMES = Part(
    f"guest-{NEWEST}-runtimes",
    (make_runtimes, bootstrap),
    (NEWEST, f"{GUEST_PACKAGES},{RUNTIME_PACKAGES}", _INITRD),
)
RUNTIMES_DISK = disk_part(NEWEST, guest=RUNTIMES, kind="-runtimes")
MANAGERS = Part(
    f"guest-{NEWEST}-managers",
    (make_managers, bootstrap),
    (NEWEST, f"{GUEST_PACKAGES},{MANAGER_PACKAGES}", _INITRD),
)
MANAGERS_DISK = disk_part(NEWEST, netdevsim_part(MANAGERS, "-managers"), guest=MANAGERS, kind="-managers")
SECURITY = Part(
    f"guest-{NEWEST}-security",
    (make_security, bootstrap),
    (NEWEST, f"{GUEST_PACKAGES},{SECURITY_PACKAGES}", _INITRD, _SELINUX_CONFIG, _SELINUX_MODULE),
)
SECURITY_DISK = disk_part(NEWEST, guest=SECURITY, kind="-security")
