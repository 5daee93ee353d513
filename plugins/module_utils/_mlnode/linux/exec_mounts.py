# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Mounts that forbid starting programs: noexec of mount(8), in fstab(5), in units of systemd.mount(5) and in
the present mounts."""

from __future__ import annotations

from typing import Sequence

from ..host import mountinfo
from ..host.host import Host
from . import mounts, systemd_unit

FSTAB = "/etc/fstab"
_LOCAL_FS = "local-fs.target"
#: Units that systemd generates from fstab; the next boot generates them from the present fstab
_OF_FSTAB = "/run/systemd/generator"

#: Options after which a later `exec` is needed (mount(8), FILESYSTEM-INDEPENDENT MOUNT OPTIONS)
_OFF, _ON = ("noexec", "user", "users"), ("exec", "defaults")


def next_boot(host: Host, path: str) -> tuple[str, str]:
    """Source and folder of the next boot's mount on a program's folder, if it is without exec; otherwise
    empty. Raises HostError."""
    for folder in _folders(mountinfo.resolved(host, path)):
        unit, where, options = _unit(host, folder)
        if not unit:
            where, options = _fstab(host, folder)
        if where:
            return (where, folder) if _forbids(options) else ("", "")
    return "", ""


def now(host: Host, path: str) -> tuple[str, str]:
    """As next_boot(), for the present mount. Raises HostError."""
    known = [*mountinfo.parse(mounts.table(host))]
    mount = mountinfo.carrying(known, mountinfo.resolved(host, path))
    return (mount.where, mount.point) if mount and "noexec" in mount.options else ("", "")


def _folders(path: str) -> list[str]:
    """Folders above a file, the deepest first."""
    parts = path.strip("/").split("/")[:-1]
    return [f"/{'/'.join(parts[:number])}" for number in range(len(parts), -1, -1)]


def _forbids(options: Sequence[str]) -> bool:
    last = [option for option in options if option in (*_OFF, *_ON)][-1:]
    return bool(last) and last[0] in _OFF


def _unit(host: Host, folder: str) -> tuple[str, str, list[str]]:
    """Unit, source and options of a mount that has a unit file."""
    name = f"{_escaped(folder)}.mount"
    unit = systemd_unit.load(host, name)
    if unit.masked or not unit.fragment or unit.fragment.startswith(_OF_FSTAB):
        return "", "", []
    targets = (systemd_unit.start(host, name, _LOCAL_FS).by, systemd_unit.start(host, name).by)
    given = unit.counting("[Mount]", "Options")
    where = given[-1].where if given else unit.fragment
    options = [word for line in given for word in line.value.split(",")]
    return (name, where, options) if any(targets) else ("", "", [])


def _escaped(folder: str) -> str:
    """systemd.unit(5), string escaping for inclusion in unit names."""
    text = folder.strip("/").replace("-", r"\x2d")
    return text.replace("/", "-") or "-"


def _fstab(host: Host, folder: str) -> tuple[str, list[str]]:
    for number, line in enumerate(host.text(FSTAB).split("\n"), start=1):
        fields = line.split()
        if len(fields) < 2 or fields[0].startswith("#"):
            continue
        options = fields[3].split(",") if len(fields) > 3 else []
        point = mountinfo.plain(fields[1])
        if (point.rstrip("/") or "/") == folder and "noauto" not in options:
            return f"{FSTAB}:{number}", options
    return "", []
