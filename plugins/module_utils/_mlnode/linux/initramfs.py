# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Copies of sysctl.d in an initramfs, whose systemd-sysctl sets the files' former content at the next boot.
The root file system's own then sets the keys of its present files again. Therefore only keys that have left
these files get an old value back.

dracut copies the folder with its module systemd-sysctl, most versions only if hostonly is yes.
initramfs-tools copies it with hooks of others.

Both copy modprobe.d, dracut only if hostonly is yes. A module that is loaded from the initramfs takes the
parameters of that copy, and keeps them.
"""

from __future__ import annotations

import re
from typing import Sequence

from ..host import image_mode
from ..host.host import Host
from ..model.errors import HostError
from ..model.record import NamedTuple, regex
from . import drop_ins, modules_load, systemd_boot

#: Name for findings about them
NAME = "initramfs"

#: Paths of distributions and kernel-install: Fedora and RHEL, Debian and Ubuntu, SUSE, type 1 entries
_IMAGES = (
    "/boot/initramfs-*.img",
    "/boot/initrd.img-*",
    "/boot/initrd-*",
    "/boot/*/*/initrd",
    "/boot/efi/*/*/initrd",
    "/efi/*/*/initrd",
)
#: Images for another purpose, and leftovers of tools
_OTHERS = regex(r"kdump|rescue|fallback|\.(?:bak|old|dpkg-\w+|new|tmp)$")

_DRACUT_CONF = "/etc/dracut.conf"
_DRACUT_FOLDERS = ("/etc/dracut.conf.d", "/usr/lib/dracut/dracut.conf.d")
_DRACUT_MODULE = "/usr/lib/dracut/modules.d/*systemd-sysctl/module-setup.sh"
_HOOKS = ("/etc/initramfs-tools/hooks", "/usr/share/initramfs-tools/hooks")
#: The folder, and the variable of dracut with its name
_FOLDER = regex(r"/etc/sysctl\.d\b|\$\{?sysctlconfdir\b")
_ASSIGNMENT = regex(r"""\s*(hostonly|omit_dracutmodules)(\+?)=["']?([^"'#\n]*)""")


class Maker(NamedTuple):
    """The tool that copies the folder. remedy: the command that makes the images again."""

    name: str
    remedy: str


_DRACUT = Maker("dracut", "dracut -f --regenerate-all")
_INITRAMFS_TOOLS = Maker("initramfs-tools", "update-initramfs -u -k all")


#: Images of one kernel, in the order of the patterns above
_OF_KERNEL = ("/boot/initramfs-{0}.img", "/boot/initrd.img-{0}", "/boot/initrd-{0}")
#: Partitions with entries of systemd-boot, and the line of an entry with an image there
_PARTITIONS = ("/boot", "/efi", "/boot/efi")
_ENTRIES = "loader/entries/*.conf"
_INITRD = regex(r"^[ \t]*initrd[ \t]+(\S+)", re.MULTILINE)
#: Program that lists the files of an image → command that makes the image again
_LISTERS = {
    "/usr/bin/lsinitramfs": "update-initramfs -u -k {0}",
    "/usr/bin/lsinitrd": "dracut -f --kver {0}",
}
#: Seconds to unpack an image of 200 MB on a busy machine
_LIST_SECONDS = 60.0


def older_copy(host: Host, release: str, module: str, file: str) -> str:
    """The image of a kernel that loads a module without the present content of a file of modprobe.d, and the
    remedy; empty if there is none. Raises HostError.
    """
    images = [path for path in (name.format(release) for name in _OF_KERNEL) if host.exists(path)]
    images += _of_entries(host, release) if systemd_boot.is_started(host) else ()
    if host.changed(file) is None:
        return ""
    stale = _older_of(host, release, module, file, images) if images else ""
    place = "" if stale else _elsewhere(host, images)
    if place:
        detail = f"its initramfs is not looked into, and may have no copy of {file}: the next boot shows it"
        raise HostError("list", place, None, detail)
    return stale


def _elsewhere(host: Host, images: Sequence[str]) -> str:
    """A start of this kernel with an initramfs outside these images; empty if no sign points to one. Raises
    HostError.
    """
    if systemd_boot.started(host)[1]:
        return "the unified kernel image"
    if host.exists(image_mode.OSTREE_BOOTED):
        return "the deployment of ostree"
    words = [word for word in host.text("/proc/cmdline").split() if word.startswith("initrd=")]
    return words[0] if words and not images else ""


def _older_of(host: Host, release: str, module: str, file: str, images: Sequence[str]) -> str:
    """As older_copy(), of these images."""
    lister = next((path for path in _LISTERS if host.exists(path)), None)
    if lister is None:
        raise HostError("list", images[0], None, f"neither {' nor '.join(_LISTERS)} is installed")
    command = _LISTERS[lister].format(release)
    words = (_older(host, lister, image, module, file, command) for image in dict.fromkeys(images))
    return next(filter(None, words), "")


def _of_entries(host: Host, release: str) -> list[str]:
    """Images that entries of systemd-boot start with a kernel; Debian's are copies of those in /boot."""
    entries = {path: folder for folder in _PARTITIONS for path in host.matching(f"{folder}/{_ENTRIES}")}
    images = [
        f"{folder}/{name.lstrip('/')}"
        for path, folder in entries.items()
        for name in _INITRD.findall(host.read(path))
        if release in name.split("/")
    ]
    return [path for path in images if host.exists(path)]


def _older(host: Host, lister: str, image: str, module: str, file: str, command: str) -> str:
    """As older_copy(), for one image."""
    listed = host.once(f"files of {image}", lambda: _files(host, lister, image), of_files=True)
    names = {path.rpartition("/")[2] for path in listed}
    if module not in {modules_load.underscored(name.partition(".ko")[0]) for name in names if ".ko" in name}:
        return ""
    is_newer = (host.changed(file) or 0) < (host.changed(image) or 0)
    # Drop-ins of sysctl.d have the same names.
    if any(path.endswith(file) for path in listed):
        return "" if is_newer else f"{image} loads {module}, and has an older copy: run {command}"
    # dracut leaves /etc out of an image that is not for one host.
    advice = (
        f'add install_items+=" {file} " to dracut.conf.d and ' if is_newer and "dracut" in command else ""
    )
    return f"{image} loads {module}, and has no copy: {advice}run {command}"


def _files(host: Host, lister: str, image: str) -> frozenset[str]:
    """Absolute paths in an image; a file system within it has a separate folder. Raises HostError."""
    done = host.run((lister, image), _LIST_SECONDS)
    # lsinitrd ends with 0 after a damaged header, which cpio skips with a warning.
    if done.rc != 0 or done.err.strip():
        said = done.err.strip().splitlines() or done.out.strip().splitlines()
        raise HostError("list", image, None, f"{lister}: {said[-1] if said else f'exit status {done.rc}'}")
    paths = (line.partition(" -> ")[0].split()[-1:] for line in done.out.splitlines())
    listed = frozenset(f"/{path}" for words in paths for path in words)
    # The kernel starts it (init/main.c). Without skipcpio, lsinitrd lists the microcode before it alone.
    if "/init" not in listed:
        raise HostError("list", image, None, f"{lister} shows no file init, and so not the whole image")
    return listed


def maker(host: Host) -> Maker | None:
    """The tool of this system, if it copies sysctl.d, or may. Raises HostError."""
    return host.once("maker of the initramfs", lambda: _maker(host), of_files=True)


def images(host: Host, before: float | None = None) -> list[str]:
    """Images that may have a copy, older than `before` if given. Raises HostError."""
    if maker(host) is None:
        return []
    paths = [path for pattern in _IMAGES for path in host.matching(pattern) if not _OTHERS.search(path)]
    times = {path: host.changed(path) for path in dict.fromkeys(paths)}
    return [path for path, time in times.items() if time is not None and (before is None or time < before)]


def words(host: Host, paths: Sequence[str], keys: Sequence[str]) -> str:
    """The warning about these images, with the remedy; empty without any. Raises HostError."""
    tool = maker(host)
    if tool is None or not paths:
        return ""
    return (
        f"{', '.join(paths)} may have a copy of /etc/sysctl.d from before {', '.join(keys)} left it, as "
        f"{tool.name} makes one, and the next boot sets that: run {tool.remedy}"
    )


def _maker(host: Host) -> Maker | None:
    scripts = host.matching(_DRACUT_MODULE)
    if any(_copies(host, path, _options(host)) for path in scripts):
        return _DRACUT
    hooks = drop_ins.paths(host, _HOOKS, ("",))
    return _INITRAMFS_TOOLS if any(_FOLDER.search(_code(host, path)) for path in hooks) else None


def _copies(host: Host, path: str, options: dict[str, str]) -> bool:
    """True if a module of dracut copies the folder of this host, or may: without a line, the default of
    hostonly depends on the version."""
    name = path.split("/")[-2].lstrip("0123456789")
    if name in options.get("omit_dracutmodules", "").split():
        return False
    code = _code(host, path)
    before = _FOLDER.split(code, 1)[0] if _FOLDER.search(code) else None
    if before is None:
        return False
    return "hostonly" not in before or options.get("hostonly", "yes").strip() == "yes"


def _options(host: Host) -> dict[str, str]:
    """The options of dracut.conf(5) that decide it; the file itself is read before the folders."""
    options: dict[str, str] = {}
    for path in [_DRACUT_CONF, *drop_ins.paths(host, _DRACUT_FOLDERS)]:
        for line in drop_ins.text(host, path).splitlines():
            match = _ASSIGNMENT.match(line)
            if match:
                key, adds, value = match.groups()
                options[key] = f"{options.get(key, '')} {value}" if adds else value
    return options


def _code(host: Host, path: str) -> str:
    return re.sub(r"^\s*#.*$", "", host.text(path), flags=re.MULTILINE)
