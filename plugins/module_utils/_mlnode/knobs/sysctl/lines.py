# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Lines of sysctl.d as the kernel takes them: the line in force, and the value without mlnode."""

from __future__ import annotations

from ...engine.kind import Context
from ...linux import sysctl_aliases, sysctl_d, sysctl_values
from ...model import values
from ...model.errors import DeclarationError
from ...model.record import NamedTuple
from ...model.setting import Setting
from . import needed

#: Sorts after 99-sysctl.conf, which many systems link to /etc/sysctl.conf, and after the usual last names,
#: except those that begin with zz.
DROP_IN_NAME = "zz-mlnode-"
DROP_IN = f"/etc/sysctl.d/{DROP_IN_NAME}"

#: File with the values that the kernel has available
AVAILABLE = {"net.ipv4.tcp_congestion_control": "/proc/sys/net/ipv4/tcp_available_congestion_control"}


class Ruling(NamedTuple):
    """The line that decides a key at boot.

    shown: the kernel's text after it; None if it sets nothing. words: its place, or why it sets nothing.
    unknown: its effect is not known. name: the key's other name, if the line uses it.
    """

    line: sysctl_d.Line
    shown: str | None
    words: str
    unknown: bool = False
    name: str = ""


def ruling(key: str, like: str | None, config: sysctl_d.BootConfig, context: Context) -> Ruling | None:
    """The line in force for any name of the variable. like: as in sysctl_values.effect()."""
    name = sysctl_d.slashed(key)
    decision = config.decided(name, writes(key, like, context))
    if decision is None:
        return None
    line, effect = decision.line, decision.effect
    if line.value is None:
        return Ruling(line, None, f"{line.where} excludes it")
    sets = f"{line.where} sets {line.value!r}"
    if decision.name != name:  # The line is for another name of the key, so include it
        sets = f"{line.where} ({sysctl_d.dotted(decision.name)})"
    if effect.refused:
        return Ruling(line, None, f"{sets}, which the kernel refuses (EINVAL)")
    if effect.text is None:
        return Ruling(line, None, f"{sets}, whose effect is unknown: {effect.unknown}", unknown=True)
    shown = " ".join(values.tokens(effect.text))
    if decision.name != name:
        return Ruling(line, shown, sets, name=decision.name)
    written = "" if values.same(line.value, shown) else f" (written as {line.value!r})"
    return Ruling(line, shown, f"{line.where}{written}")


def writes(key: str, like: str | None, context: Context) -> sysctl_d.Writes:
    """The kernel's reading of a line for a key or another name of its variable."""
    alike = sysctl_aliases.variable(sysctl_d.slashed(key))

    def writes(name: str, text: str, before: str | None) -> sysctl_d.Effect:
        is_one = sysctl_aliases.variable(sysctl_d.slashed(name)) == alike
        known = text if _is_offered(name, text, context) else like if is_one else None
        return sysctl_values.effect(name, text, before=before, like=known, release=_release(context))

    return writes


def _release(context: Context) -> str:
    """The kernel's release; empty in an image build, whose kernel differs."""
    return context.facts.kernel_release() if context.runtime else ""


def _is_offered(key: str, text: str, context: Context) -> bool:
    """True for the name of an algorithm that the kernel or one of its modules provides."""
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
    """Value at boot without mlnode; None if unknown."""
    base = _value(setting.key, others, setting.want, context)
    return origin if base is None else base


def _value(key: str, config: sysctl_d.BootConfig, like: str | None, context: Context) -> str | None:
    """Value after all lines; None if it is unknown or no line sets it."""
    line_in_force = ruling(key, like, config, context)
    return None if line_in_force is None else line_in_force.shown


def is_literal(setting: Setting, origin: str | None, config: sysctl_d.BootConfig, context: Context) -> bool:
    """True if a file may hold the value: a declared value that does not depend on this machine.

    Another boot, a crash kernel or another machine may read the file as well.
    """
    if setting.derived or not setting.raise_only:
        return not setting.derived
    floor = setting.want or ""
    base = base_of(setting, origin, foreign(config), context)
    return base is None or values.reaches(floor, base) or values.same(merged(floor, base), floor)


def merged(floor: str, other: str | None) -> str:
    """The greater of both; floor alone if the other cannot be compared."""
    try:
        return values.raised(floor, other or "")
    except DeclarationError:
        return floor
