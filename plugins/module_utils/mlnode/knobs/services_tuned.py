# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the active profile of tuned sets, line by line, in the names of our own settings.

By the rules of tuned.conf(5) and of tuned's sources (tuned/profiles/{locator,loader,merger}.py): a profile
comes after those that it includes, a name in /etc hides the same one in /usr/lib, and one that includes its
own name means the next of that name. What a script of a profile does, nobody can read.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Iterator, Mapping, NamedTuple

from .. import sysctl_d
from ..errors import HostError
from ..host import Host
from ..kind import Facts

_ACTIVE = "/etc/tuned/active_profile"
#: `manual` where somebody has chosen, also to have none; `auto` where tuned does at each of its starts
_MODE = "/etc/tuned/profile_mode"
_MAIN = "/etc/tuned/tuned-main.conf"
#: Newer versions have the profiles one folder deeper
_FOLDERS = ("/etc/tuned/profiles", "/etc/tuned", "/usr/lib/tuned/profiles", "/usr/lib/tuned")

_NAME = re.compile(r"[A-Za-z0-9_.-]{1,100}\Z", re.ASCII)
_THP = "/sys/kernel/mm/transparent_hugepage/"
#: What tuned-main.conf takes for no
_FALSE = ("0", "false", "no", "off")
#: What a profile takes for yes (tuned/profiles/unit.py)
_TRUE = ("1", "true", "True")
#: Options of a section that say when and how it counts
_ABOUT = frozenset(
    (
        *("type", "enabled", "replace", "drop", "priority", "devices", "devices_udev_regex"),
        *("cpuinfo_regex", "uname_regex", "script_pre", "script_post"),
    )
)
_VARIABLE = re.compile(r"(?<!\\)\$\{([A-Za-z0-9_]{1,100})\}", re.ASCII)

#: Option of the plugin cpu → our setting. no_turbo is the opposite of boost.
_CPU = {
    "governor": "cpu.governor",
    "energy_performance_preference": "cpu.energy_performance_preference",
    "energy_perf_bias": "cpu.energy_perf_bias",
    "min_perf_pct": "cpu.min_perf_pct",
}
#: Option of the plugin vm → our setting (tuned/plugins/plugin_vm.py)
_VM = {
    "transparent_hugepages": "thp.enabled",
    "transparent_hugepage": "thp.enabled",
    "transparent_hugepage.defrag": "thp.defrag",
}
_DIRTY = ("dirty_bytes", "dirty_ratio", "dirty_background_bytes", "dirty_background_ratio")


class Line(NamedTuple):
    """What a profile sets one of our settings to. value: as the profile has it."""

    key: str
    value: str
    file: str
    number: int

    @property
    def where(self) -> str:
        return f"{self.file}:{self.number}"


class Profile(NamedTuple):
    """name: of the active profiles, empty where none is. problem: why nobody can tell all of it.
    script: whether it runs one. recommended: at its next start tuned takes the profile that it recommends for
    this machine, whatever is active now."""

    name: str = ""
    lines: tuple[Line, ...] = ()
    problem: str = ""
    script: bool = False
    recommended: bool = False


@dataclass
class _Section:
    """One section of all profiles together: option → value and place."""

    plugin: str
    options: dict[str, tuple[str, str, int]] = field(default_factory=dict)


def read(host: Host) -> Profile:
    """The active profile. Never raises: what cannot be read is its problem."""
    name = ""
    try:
        name = " ".join(host.text(_ACTIVE).split())
        # daemon.py: _get_startup_profile(); without a mode it is manual where a profile is active.
        mode = host.text(_MODE).strip()
        recommended = mode != "manual" if mode or not name else False
        if not name:
            return Profile(recommended=recommended)
        sections: dict[str, _Section] = {}
        _load(host, name.split(), sections, set())
        lines = tuple(_lines(host, sections))
        script = any(one.plugin == "script" for one in sections.values())
        return Profile(name, lines, script=script, recommended=recommended)
    except HostError as error:
        return Profile(name, problem=str(error))


def keeps_sysctl_files(host: Host) -> bool:
    """Whether tuned sets what /etc/sysctl.d and /run/sysctl.d say once more after its own values, as it does
    by default (plugin_sysctl.py: reapply_sysctl). Raises HostError."""
    value = "1"
    for line in host.text(_MAIN).splitlines():
        option, equals, text = line.partition("=")
        if equals and option.strip() == "reapply_sysctl":
            value = text.partition("#")[0].strip().lower()
    return value not in _FALSE


# -- loading -------------------------------------------------------------------------------


def _load(host: Host, names: list[str], sections: dict[str, _Section], done: set[str]) -> None:
    """Raises HostError where a profile cannot be found or read."""
    for name in names:
        if not _NAME.match(name):
            raise HostError("find", f"the profile {name[:60]!r}", None, "it is no name of a profile of tuned")
        places = (f"{folder}/{name}/tuned.conf" for folder in _FOLDERS)
        path = next((place for place in places if place not in done and host.exists(place)), "")
        if not path:
            raise HostError("find", f"the profile {name}", None, f"it is in none of {', '.join(_FOLDERS)}")
        done.add(path)
        found = _parse(host.read(path), path)
        include = found.get("main", _Section("main")).options.get("include")
        if include:
            _load(host, [word for word in re.split(r"\s*[,;]\s*", include[0]) if word], sections, done)
        for title, section in found.items():
            if title != "main":
                _merge(sections, title, section)


def _parse(text: str, path: str) -> dict[str, _Section]:
    found: dict[str, _Section] = {}
    here: _Section | None = None
    for number, raw in enumerate(text.split("\n"), start=1):
        line = re.sub(r"(^|\s)#.*", "", raw).strip()
        if line.startswith("[") and line.endswith("]"):
            title = line[1:-1].strip()
            here = found.setdefault(title, _Section(title))
            continue
        option, equals, value = line.partition("=")
        if here is not None and equals and not line.startswith(";"):
            here.options[option.strip()] = (value.strip(), path, number)
            if option.strip() == "type":
                here.plugin = value.strip()
    return found


def _merge(sections: dict[str, _Section], title: str, new: _Section) -> None:
    if _is_true(new, "replace") or title not in sections:
        sections[title] = new
        return
    old = sections[title]
    if "type" in new.options:
        old.plugin = new.plugin
    for option in re.split(r"\s*[,;]\s*", new.options.get("drop", ("", "", 0))[0]):
        old.options.pop(option, None)
    old.options.update(new.options)


def _is_true(section: _Section, option: str) -> bool:
    return option in section.options and section.options[option][0] in _TRUE


# -- in our own names ----------------------------------------------------------------------


def _lines(host: Host, sections: dict[str, _Section]) -> Iterator[Line]:
    """Raises HostError."""
    thp_by_kernel = bool(Facts(host).command_line("transparent_hugepage"))
    words = sections.get("variables", _Section("variables")).options
    for section in sections.values():
        if not _counts(host, section, words):
            continue
        for option, (value, file, number) in section.options.items():
            if option in _ABOUT:
                continue
            text = _expanded(value.strip("\"'"), words)
            key, text = _ours(section.plugin, option, text)
            # tuned leaves it alone where the kernel command line says something (plugin_vm.py).
            if key and not (key == "thp.enabled" and section.plugin == "vm" and thp_by_kernel):
                yield Line(key, text, file, number)


def _counts(host: Host, section: _Section, words: Mapping[str, tuple[str, str, int]]) -> bool:
    """Whether a section is for this machine. Raises HostError."""
    if "enabled" in section.options and not _is_true(section, "enabled"):
        return False
    texts = {"cpuinfo_regex": "/proc/cpuinfo", "uname_regex": "/proc/version"}
    for option, path in texts.items():
        if option in section.options:
            text = host.text(path)
            if option == "uname_regex":  # which has the name of the machine's kind at its end
                text += "aarch64" if "CPU implementer" in host.text("/proc/cpuinfo") else "x86_64"
            try:
                if not re.search(_expanded(section.options[option][0], words), text, re.MULTILINE):
                    return False
            except re.error:
                return False
    return True


def _expanded(text: str, words: Mapping[str, tuple[str, str, int]]) -> str:
    """With the variables of the profiles in place. What tuned would have to compute stays as it is."""
    return _VARIABLE.sub(lambda match: words.get(match.group(1), (match.group(0), "", 0))[0], text)


def _ours(plugin: str, option: str, value: str) -> tuple[str, str]:
    """The name and value of our setting; no name where there is none."""
    if plugin == "sysctl":
        return sysctl_d.dotted(sysctl_d.slashed(option)), value
    if plugin == "vm" and option in _DIRTY:
        if value.endswith("%"):
            return f"vm.{option.replace('_bytes', '_ratio')}", value[:-1].strip()
        return f"vm.{option}", value
    if plugin == "vm":
        return _VM.get(option, ""), value
    if plugin == "cpu" and option == "no_turbo":
        return "cpu.boost", {"1": "off", "0": "on"}.get(value, value)
    if plugin == "cpu":
        # The first of several that the CPU has: whoever declares one wants that one.
        return _CPU.get(option, ""), value
    if plugin == "sysfs" and option.startswith(_THP):
        return f"thp.{option[len(_THP) :].replace('/', '.')}", value
    return "", value
