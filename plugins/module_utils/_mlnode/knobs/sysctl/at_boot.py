# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The boot layer of a key: sysctl.d, programs that set it later, and the agent."""

from __future__ import annotations

from ...engine import boot_service
from ...engine.kind import AGENT_UNIT, Context
from ...engine.units import NIC_SERVICE
from ...linux import crash_kernel, networkd, setters, sysctl_d, sysctl_owners, systemd_show
from ...model import values
from ...model.record import NamedTuple
from ...model.setting import Boot, Setting, Value
from . import guards, lines, pages

#: Source of a boot value that nothing sets: the value before mlnode
UNSET = "no file sets it"

#: Alternatives for keys whose number would be wrong in a crash kernel, which has less memory
_COMPUTED = {
    "vm.min_free_kbytes": "auto, which no file has",
    "vm.nr_hugepages": "{for_bytes: N}, which no file has",
}


class NextBoot(NamedTuple):
    """native: a file may hold the value. note: possible later changes."""

    boot: Boot
    native: bool
    note: str


def next_boot(
    setting: Setting,
    path: str,
    want: str | None,
    origin: str | None,
    config: sysctl_d.BootConfig,
    context: Context,
) -> NextBoot:
    """The boot layer on the machine itself. path: file of the key. origin: the original value, if known."""
    below = path.startswith("/proc/sys/") and path == setting.path
    native = below and lines.is_literal(setting, origin, config, context)
    if native:
        boot = of_files(setting, want, origin, config, context)
    elif below:
        boot = _by_agent(setting, want, origin, config, context)
    else:
        boot = context.boot_by_agent(setting, want)
    counted = ""
    if want is not None and pages.are_default(setting.key):
        boot, native, counted = pages.at_boot(setting, want, boot, native, context)
    crash = _in_crash_kernel(setting, config, context) if native else ""
    boot, note = _after_networkd(path, want, boot, setting, context)
    boot, later = _after_owners(setting, want, boot, context)
    return NextBoot(boot, native, "; ".join(filter(None, [counted, crash, note, *later])))


def of_files(
    setting: Setting,
    want: str | None,
    origin: str | None,
    config: sysctl_d.BootConfig,
    context: Context,
) -> Boot:
    """The boot layer of sysctl.d. origin: the original value, if known."""
    enough = setting.raise_only and values.reaches(setting.want or "", origin or "")
    off = boot_service.loader_off(context.host, systemd_show.SYSCTL_UNIT, context.runtime)
    if off and not enough:
        # Files do not count, and only the agent could set it.
        return context.boot_by_agent(setting, want, instead_of=off)
    if config.unreadable:
        return Boot(Value(unreadable="; ".join(config.unreadable)))
    ruling = lines.ruling(setting.key, want, config, context)
    if ruling is None or (ruling.shown is None and not ruling.unknown and enough):
        return _without_file(setting, want, origin, context)
    line = ruling.line
    # Our own drop-in overrides an earlier file, or a glob for this name.
    later = line.file.rsplit("/", 1)[-1] > f"{lines.DROP_IN_NAME}{context.name}.conf"
    foreign = later and not lines.is_ours(line) and (not line.is_glob or bool(ruling.name))
    if ruling.unknown:
        return Boot(Value(unreadable=ruling.words), line.where, foreign)
    if ruling.shown is None:
        return Boot(Value(absent=ruling.words), line.where, foreign)
    return Boot(Value(text=ruling.shown), ruling.words, foreign)


def _by_agent(
    setting: Setting, want: str | None, origin: str | None, config: sysctl_d.BootConfig, context: Context
) -> Boot:
    """The boot layer of a value that the agent sets. It runs after systemd-sysctl, and raises or replaces the
    files' value.
    """
    floor = setting.want
    if not setting.raise_only or floor is None:
        return context.boot_by_agent(setting, want)
    foreign = lines.foreign(config)
    base = lines.base_of(setting, origin, foreign, context)
    if base is None or not values.reaches(floor, base):
        return context.boot_by_agent(setting, lines.merged(floor, base))
    ruling = lines.ruling(setting.key, floor, foreign, context)
    source = ruling.words if ruling and ruling.shown is not None else UNSET
    return Boot(Value(text=" ".join(values.tokens(base))), source)


def _without_file(setting: Setting, want: str | None, origin: str | None, context: Context) -> Boot:
    if want is None or (setting.raise_only and origin is None):
        return context.boot_by_agent(setting, want)
    if setting.raise_only and values.reaches(setting.want or "", origin or ""):
        return Boot(Value(text=" ".join(values.tokens(origin or ""))), UNSET)
    return Boot(Value(absent="no file in sysctl.d sets it: the kernel's default comes back"))


def _in_crash_kernel(setting: Setting, config: sysctl_d.BootConfig, context: Context) -> str:
    """Note on a line with a value for this machine's memory, which a crash kernel reads as well."""
    if not guards.needs_hardware(setting.key):
        return ""
    taken_lines = crash_kernel.taken(context.host, context.facts.hugepage_kbytes(), config)
    return next(
        (f"{line}: declare {_COMPUTED[line.key]}" for line in taken_lines if line.key == setting.key), ""
    )


def _after_networkd(
    path: str, want: str | None, boot: Boot, setting: Setting, context: Context
) -> tuple[Boot, str]:
    """The boot layer after networkd has configured its interfaces, which is later than systemd-sysctl, and a
    note on a line that may change it.
    """
    assignment = networkd.sets(context.host, path) if path.startswith("/proc/sys/net/") and want else None
    if assignment is None or values.same(assignment.value, want or "") or boot.value.text is None:
        return boot, ""
    if setting.raise_only and values.reaches(want or "", assignment.value):
        return boot, ""
    if assignment.sure and context.agent_applies(setting):
        own = _agent_after(networkd.UNIT, context) if assignment.at_start else ""
        if own:
            note = f"{own} comes after networkd at boot; later {assignment.line.where} sets {assignment.text}"
            return context.boot_by_agent(setting, want), note
        words = f"neither networkd nor {AGENT_UNIT} waits for the other, and {assignment.line.where} sets"
        return Boot(Value(unreadable=f"{words} {assignment.text}"), assignment.line.where, foreign=True), ""
    if assignment.sure:
        return Boot(
            Value(text=assignment.value), f"{assignment.line.where} ({assignment.text})", foreign=True
        ), ""
    return boot, f"{assignment.line.where} may set {assignment.text}"


def _agent_after(unit: str, context: Context) -> str:
    """The agent's unit that sets parameters after another unit; empty if there is none."""
    host = context.host
    if sysctl_owners.comes_after(host, AGENT_UNIT, unit):
        return AGENT_UNIT
    waits = sysctl_owners.comes_after(host, NIC_SERVICE, unit)
    return NIC_SERVICE if waits and not boot_service.nic_faults(host, context.runtime) else ""


def _after_owners(setting: Setting, want: str | None, boot: Boot, context: Context) -> tuple[Boot, list[str]]:
    """The boot layer after programs with their own files, and notes on lines that set another value later.

    These programs run after systemd-sysctl, and before or after the agent.
    """
    notes: list[str] = []
    if want is None or not setting.path.startswith("/proc/sys/"):
        return boot, notes
    name = sysctl_d.slashed(setting.key)
    owners = sysctl_owners.load(context.host)
    unread = "; ".join(owner.unread for owner in owners if owner.unread)
    if unread and boot.value.text is not None:
        boot = Boot(Value(unreadable=unread))
    for owner in owners:
        decision = sysctl_owners.decided(owner, name, lines.writes(setting.key, want, context), want)
        if decision is None or decision.effect.refused or not owner.booted:
            continue
        shown = decision.effect.text
        enough = shown is not None and (
            values.reaches(want, shown) if setting.raise_only else values.same(shown, want)
        )
        if not owner.sure:
            words = f"{decision.line.where} may set {setters.words(owner, decision)}"
            notes += [] if enough else [words]
            continue
        boot, hint = _after_owner(setting, want, boot, context, owner, decision, enough)
        notes += [hint] if hint else []
    return boot, notes


def _after_owner(
    setting: Setting,
    want: str,
    boot: Boot,
    context: Context,
    owner: sysctl_owners.Owner,
    decision: sysctl_d.Decision,
    enough: bool,
) -> tuple[Boot, str]:
    """The boot layer after one owner, by its place in the boot order and by who sets the declared value.

    The latter is the agent, or else systemd-sysctl. enough: the owner's value satisfies the declaration.
    """
    other = AGENT_UNIT if context.agent_applies(setting) else systemd_show.SYSCTL_UNIT
    later: bool | None = True
    if owner.late:  # By events, which are not ordered with the agent
        later = None if other == AGENT_UNIT else True
    elif other == AGENT_UNIT and (own := _agent_after(owner.unit, context)):
        later, other = False, own
    else:
        later = sysctl_owners.comes_after(context.host, owner.unit, other)
    words = setters.words(owner, decision)
    if enough and boot.value.text is not None and values.same(boot.value.text, decision.effect.text or ""):
        return boot, ""
    if later is False and other != systemd_show.SYSCTL_UNIT:
        if enough or boot.foreign:
            return boot, ""
        note = f"{other} comes after {owner.unit} at boot; later {decision.line.where} sets {words}"
        return context.boot_by_agent(setting, want), note
    if later is None and not enough and (other == AGENT_UNIT or boot.value.text is not None):
        pair = f"neither {owner.unit or decision.line.file} nor {other} waits for the other"
        race = f"{pair}, and {decision.line.where} sets {words}"
        return Boot(Value(unreadable=race), decision.line.where, foreign=True), ""
    if decision.effect.text is None and (later or boot.value.text is None):
        unclear = f"{decision.line.where} sets {words}, and which value is not known"
        return Boot(Value(unreadable=unclear), decision.line.where, foreign=True), ""
    if later or boot.value.text is None:
        shown, where = Value(text=decision.effect.text), f"{decision.line.where} ({owner.unit})"
        return Boot(shown, where, foreign=not enough), ""
    return boot, ""
