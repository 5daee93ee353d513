# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Lines of sysctl.d as the kernel takes them: the one that decides, and the value without mlnode."""

from __future__ import annotations

from ...engine.kind import Context
from ...linux import sysctl_aliases, sysctl_d, sysctl_values
from ...model import values
from ...model.errors import DeclarationError
from ...model.record import NamedTuple
from ...model.setting import Setting
from . import needed

#: Sorts after 99-sysctl.conf, which many systems link to /etc/sysctl.conf, and after any word that
#: people choose to be last, save those that begin with zz themselves.
DROP_IN_NAME = "zz-mlnode-"
DROP_IN = f"/etc/sysctl.d/{DROP_IN_NAME}"

#: The values that the kernel has at hand
AVAILABLE = {"net.ipv4.tcp_congestion_control": "/proc/sys/net/ipv4/tcp_available_congestion_control"}


class Ruling(NamedTuple):
    """The line that decides a key at boot. shown: what the kernel shows after it; None where it leaves the
    kernel as it is. words: where it is, or why it sets nothing. unknown: True if its effect is not known.
    name: the key's other name, if it is for that."""

    line: sysctl_d.Line
    shown: str | None
    words: str
    unknown: bool = False
    name: str = ""


def ruling(key: str, like: str | None, config: sysctl_d.BootConfig, context: Context) -> Ruling | None:
    """By whatever name of the variable. like: as in sysctl_values.effect()."""
    name = sysctl_d.slashed(key)
    found = config.decided(name, writes(key, like, context))
    if found is None:
        return None
    line, effect = found.line, found.effect
    if line.value is None:
        return Ruling(line, None, f"{line.where} excludes it")
    sets = f"{line.where} sets {line.value!r}"
    if found.name != name:  # this key is not found in it, so that the line names itself
        sets = f"{line.where} ({sysctl_d.dotted(found.name)})"
    if effect.refused:
        return Ruling(line, None, f"{sets}, which the kernel refuses (EINVAL)")
    if effect.text is None:
        return Ruling(line, None, f"{sets}, whose effect is unknown: {effect.unknown}", unknown=True)
    shown = " ".join(values.tokens(effect.text))
    if found.name != name:
        return Ruling(line, shown, sets, name=found.name)
    written = "" if values.same(line.value, shown) else f" (written as {line.value!r})"
    return Ruling(line, shown, f"{line.where}{written}")


def writes(key: str, like: str | None, context: Context) -> sysctl_d.Writes:
    """The kernel's view of a line for a key or another name of its variable."""
    alike = sysctl_aliases.variable(sysctl_d.slashed(key))

    def writes(name: str, text: str, before: str | None) -> sysctl_d.Effect:
        is_one = sysctl_aliases.variable(sysctl_d.slashed(name)) == alike
        known = text if _is_offered(name, text, context) else like if is_one else None
        return sysctl_values.effect(name, text, before=before, like=known, release=_release(context))

    return writes


def _release(context: Context) -> str:
    """Empty in an image build, whose kernel is another one."""
    return context.facts.kernel_release() if context.runtime else ""


def _is_offered(key: str, text: str, context: Context) -> bool:
    """True for the name of something that the kernel has, or that a module of it brings."""
    if not context.runtime or key not in needed.PREFIXES:
        return False
    if key in AVAILABLE and text in values.tokens(context.host.value(AVAILABLE[key]).text or ""):
        return True
    module = needed.module_of(key, text)
    if not module or "/" in module:
        return False
    return context.host.exists(f"/sys/module/{module}") or needed.is_loadable(module, context)


def is_ours(line: sysctl_d.Line) -> bool:
    return line.file.startswith(DROP_IN)


def foreign(config: sysctl_d.BootConfig) -> sysctl_d.BootConfig:
    return config._replace(lines=tuple(line for line in config.lines if not is_ours(line)))


def base_of(
    setting: Setting, origin: str | None, others: sysctl_d.BootConfig, context: Context
) -> str | None:
    """Value that a boot brings without mlnode; None where that is not known."""
    base = _value(setting.key, others, setting.want, context)
    return origin if base is None else base


def _value(key: str, config: sysctl_d.BootConfig, like: str | None, context: Context) -> str | None:
    """Value after all lines; None where that is not known, or none sets it."""
    found = ruling(key, like, config, context)
    return None if found is None else found.shown


def is_literal(setting: Setting, origin: str | None, config: sysctl_d.BootConfig, context: Context) -> bool:
    """True if a file may hold the value: it is what was declared, and nothing that was found out on this
    machine, which another boot, a crash kernel or another machine would read as well."""
    if setting.derived or not setting.raise_only:
        return not setting.derived
    floor = setting.want or ""
    base = base_of(setting, origin, foreign(config), context)
    return base is None or values.reaches(floor, base) or values.same(merged(floor, base), floor)


def merged(floor: str, other: str | None) -> str:
    """The greater of both; floor alone where the other is nothing that could be compared."""
    try:
        return values.raised(floor, other or "")
    except DeclarationError:
        return floor
