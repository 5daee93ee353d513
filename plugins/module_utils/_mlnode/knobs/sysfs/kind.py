# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kind sysfs: values of files below /sys that no other area sets.

A pattern is declared, because devices have other names after a boot. The agent sets the files at boot, as no
system file can carry them. Source: Documentation/filesystems/sysfs.rst.
"""

from __future__ import annotations

from typing import Any

from ...engine.kind import Context, Facts
from ...host import places
from ...host.host import Host
from ...linux import drop_ins, glob3, setters
from ...model import values
from ...model.errors import DeclarationError, HostError
from ...model.record import regex
from ...model.schema import Checked, Option
from ...model.setting import KnobFile, Reading, Setting, Value, Write
from .. import rules
from ..summary import Files, Summary, Target
from . import paths
from .schema import OPTIONS

KIND = "sysfs"

#: Characters of names in sysfs and of glob(3). The first folder is a plain name: no pattern walks all
#: of sysfs.
_PATH = regex(r"/sys/[a-z]+(/[A-Za-z0-9_.,:;@+=!\[\]*?-]+)+\Z")
_SIGNS = "*?["
#: A text for one write(2): visible characters and single blanks
_VALUE = regex(r"[!-~]+( [!-~]+)*\Z")
#: An attribute has at most one page (sysfs.rst), which is 4 KiB on x86-64
_MOST_VALUE = 4095
#: A pattern is for the queues, ports or CPUs of a machine; the largest have some thousand
_MOST_FILES = 8192

#: Spelling of a module parameter of type bool (kernel/params.c: param_get_bool)
_SWITCH = {"1": "Y", "y": "Y", "0": "N", "n": "N"}

#: Lines of tmpfiles.d(5) that write to a file; the agent runs after them
_TMPFILES = tuple(
    f"{top}/tmpfiles.d"  # noqa: S108  # configuration
    for top in drop_ins.TOPS
)
_WRITES = regex(r"w[+!=~^$-]*\s+(\S+)")


def _setting(path: str, raw: Any) -> Setting:
    """Raises DeclarationError."""
    where = f"{KIND}.settings.{path}"
    names = path.split("/")
    if not _PATH.match(path) or not {".", "..", "**"}.isdisjoint(names):
        raise DeclarationError(
            f"{where}: must be a path below /sys, without links to a parent, such as "
            "/sys/kernel/mm/lru_gen/min_ttl_ms"
        )
    if isinstance(raw, bool) or not isinstance(raw, (str, int)):
        raise DeclarationError(f"{where}: must be a number or a text, got {raw!r}")
    text = str(raw)
    if not _VALUE.match(text) or len(text) > _MOST_VALUE:
        raise DeclarationError(
            f"{where}: must be visible characters and single blanks, at most {_MOST_VALUE}, got {text[:80]!r}"
        )
    _refuse(where, path)
    return Setting(KIND, f"{KIND}.{path[len(paths.TOP) + 1 :]}", path, text, text)


def _refuse(where: str, path: str) -> None:
    if area := paths.area(path):
        raise DeclarationError(f"{where}: declare it in the area {area}, which sets this file")
    if why := places.sysfs_fault(path):
        raise DeclarationError(f"{where}: is never set: {why}")


def _files(host: Host, setting: Setting, path: str) -> Files:
    """One file. Raises HostError."""
    files, real = Files(Target(_label(setting.path, path))), paths.real(host, path)
    why = places.sysfs_fault(real) if real.startswith(f"{paths.TOP}/") else "it is not below /sys"
    if area := paths.area(real):
        why = f"the area {area} sets it: declare it there"
    if why:
        files.invalid = f"{path} is {real}, and is never set: {why}"
        return files
    if not host.is_file(real):
        files.lacking = f"{path} is a folder, not a file"
        return files
    mode = host.mode(real) or 0
    if not mode & 0o444:
        files.invalid = f"{path} cannot be read back (mode {mode:04o}): it starts an action"
        return files
    now = host.value(real)
    if now.text is None:
        files.lacking, files.problems = now.absent or "", [now.unreadable] if now.unreadable else []
        return files
    if not mode & 0o222:
        files.lacking = f"{path} is read-only (mode {mode:04o})"
        return files
    _add(files, real, now.text, setting)
    files.blocked = host.blocked(real)
    return files


def _label(pattern: str, path: str) -> str:
    """The names that a pattern leaves open, such as package_00_die_00."""
    pairs = zip(pattern.split("/"), path.split("/"))
    return "/".join(name for part, name in pairs if any(sign in part for sign in _SIGNS))


def _add(files: Files, path: str, text: str, setting: Setting) -> None:
    if len(text) > _MOST_VALUE or "\0" in text or "\n" in text.strip():
        files.problems = [f"{path} holds more than one value, so a write cannot be checked"]
        return
    now, offered, want = values.chosen(text), values.choices(text), setting.want or ""
    if now in _SWITCH.values():
        want = _SWITCH.get(want.lower(), want)
    answer = f"{path} does not offer {want!r}, but {', '.join(offered)}" if offered else ""
    if want in offered:
        answer = ""
    part = KnobFile(0, path, now, want, (Write(path, now),), device=_device(path), answer=answer)
    files.parts = [part]
    files.offered = offered


def _device(path: str) -> str:
    """The folder that disappears with the device or module of a file; empty for the kernel itself."""
    names = path.split("/")
    if names[2] == "module":
        return "/".join(names[:4])
    permanent = names[2] == "kernel" or names[2:4] == ["devices", "system"]
    return "" if permanent else path.rpartition("/")[0]


class SysfsKind(rules.RuleKind):
    KIND = KIND
    OPTIONS = OPTIONS

    def parse(self, given: Checked, facts: Facts | None) -> list[Setting]:
        items = given.get("settings", {}).items()
        return rules.unique(_setting(path, raw) for path, raw in items if raw is not None)

    def read_one(self, setting: Setting, context: Context) -> Reading:
        host = context.host
        try:
            here = host.matching(setting.path)
            all_files = [_files(host, setting, path) for path in here[:_MOST_FILES]]
        except HostError as error:
            problem = Value(unreadable=str(error))
            return Reading(setting.path, problem, context.boot_by_agent(setting, setting.want))
        row = Summary(all_files)
        boot = context.boot_by_agent(setting, row.want or setting.want)
        if not all_files:
            return Reading(setting.path, Value(absent=_absent(setting.path)), boot, setting.want)
        mistakes = []
        if len(here) > _MOST_FILES:
            mistakes.append(f"{setting.path} matches {len(here)} files, and at most {_MOST_FILES} are set")
        reading = row.reading(setting.path, boot, context.origins, row.notes, mistakes)
        if not row.want:
            reading = reading._replace(want=setting.want)
        return setters.named(host, reading)

    def boot_sources(self, key: str, host: Host) -> list[str]:
        """Lines of tmpfiles.d that write to the same files."""
        path, lines = f"{paths.TOP}/{key.partition('.')[2]}", []
        for place in drop_ins.paths(host, _TMPFILES):
            for number, line in enumerate(drop_ins.text(host, place).split("\n"), start=1):
                match = _WRITES.match(line)
                if match and (glob3.matches(match.group(1), path) or glob3.matches(path, match.group(1))):
                    lines.append(f"{place}:{number}: {line.strip()}")
        return lines

    def option(self, key: str) -> Option:
        """The one option, whose reason is the operator's."""
        return self.OPTIONS["settings"]


def _absent(path: str) -> str:
    if any(sign in path for sign in _SIGNS):
        return f"no file matches {path}"
    return f"{path} does not exist: this kernel or its hardware does not have it"


kind = SysfsKind()
