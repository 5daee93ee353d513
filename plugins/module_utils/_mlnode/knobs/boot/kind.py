# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kind boot: the kernel's command line, which only a boot can change.

Runtime is /proc/cmdline. Boot is the command line that the loader's menu gives to the kernels of this system,
and apply corrects it there. New words wait for a reboot, which is up to the administrator.
"""

from __future__ import annotations

from typing import Any, Sequence

from ...engine import declared
from ...engine.judge import waits_for_boot
from ...engine.kind import Context, Facts, Info, Kind, Row
from ...host.host import Host
from ...linux import jobs
from ...loader import boot_loader, cmdline
from ...loader.boot_loader import Loader
from ...model import cpulist, values
from ...model.errors import HostError
from ...model.record import replace
from ...model.schema import Checked, Option, unless_allowed
from ...model.setting import Boot, BootFile, Reading, Setting, Status, Value
from ...topology import hardware
from . import info as boot_info
from . import isolation, known, loaders, menu, passthrough
from . import parse as boot_parse
from . import schema as own
from .menu import Node

KIND = boot_parse.KIND

_BOOT_ONLY = "the kernel reads its command line at boot only: declare it with the layer boot too"
_NOT_BY_GRUB = (
    "the running kernel was not started by GRUB, as its command line has no BOOT_IMAGE=: files for GRUB "
    "would have no effect; set parameters in the program that starts it (hypervisor, network boot, kexec)"
)
_MENU_LATER = (
    "the boot loader's menu does not include it yet: regenerate the menu when the image is finished, or the "
    "agent does so at the first boot, for the second one"
)
_CONTAINER = "this is a container: the command line belongs to its host's kernel"


def _resolved(setting: Setting, context: Context) -> Setting:
    """An automatic parameter with its word for this machine, or without a value if it needs no word here."""
    if not boot_parse.is_automatic(setting) or not context.runtime:
        return setting
    choice = passthrough.words(context.host, hardware.topology(context.host), context.facts)
    return replace(setting, want=choice.word or None)


def _isolated(settings: Sequence[Setting], others: Sequence[Setting]) -> tuple[int, ...]:
    """All CPUs that are isolated together. A declaration that isolates none is judged without the others,
    which were allowed or refused in their own run.
    """
    own, elsewhere = ({cpu for setting in some for cpu in _taken(setting)} for some in (settings, others))
    return tuple(sorted(own if own <= elsewhere else own | elsewhere))


def _others(context: Context) -> list[Setting]:
    """Settings of the node's other declarations."""
    pairs = declared.settings(context.host, KIND, own.OPTIONS, boot_parse.parse, but=context.name)
    return [setting for _declaration, setting in pairs]


def _too_long(settings: Sequence[Setting], node: Node) -> str:
    """Reason why the command line would be too long for the kernel, which silently drops the rest; empty if
    it fits.
    """
    texts = {
        setting: setting.want or (_wanted(setting, node) if node.context.runtime else None)
        for setting in settings
    }
    changes = {boot_parse.name_of(setting): cmdline.wanted(text) for setting, text in texts.items() if text}
    image = cmdline.parameter(node.line.text or "", "BOOT_IMAGE")
    for entry in (entry for entry in node.loader.entries if not entry.by_hand):
        (line,) = cmdline.merged([entry.line], changes, entry.quotes)
        length = len(" ".join([*image, line, *(text for text, _where in entry.added)]))
        if length > boot_parse.LONGEST:
            return (
                f"the command line of {entry.where} would have {length} characters, and the kernel reads "
                f"{boot_parse.LONGEST} of them"
            )
    return ""


def _names_cpus(setting: Setting) -> bool:
    """True for words that only the machine itself can judge."""
    return setting.key[len(KIND) + 1 :] in isolation.PARAMETERS and setting.want != cmdline.ABSENT


def _taken(setting: Setting) -> tuple[int, ...]:
    return isolation.taken(cmdline.wanted(setting.want or cmdline.ABSENT))


def _mistake(setting: Setting, want: str | None, node: Node) -> str:
    """Reason why no kernel takes the words; empty if one may. Words to remove may be any."""
    wanted = cmdline.wanted(want or cmdline.ABSENT)
    name = boot_parse.name_of(setting)
    if not node.context.runtime:
        return known.mistake(name, wanted, (), None)
    return known.mistake(name, wanted, cmdline.parameter(node.line.text or "", name), node.context.host)


def _mistaken(reading: Reading, mistake: str) -> Reading:
    """The reading of words that no kernel takes."""
    if not mistake:
        return reading
    if reading.missing:
        return reading._replace(invalid=mistake, runtime=Value(absent=f"{reading.runtime.absent}; {mistake}"))
    unknown = Value(unreadable=mistake)
    return reading._replace(runtime=unknown, boot=Boot(unknown), invalid=mistake)


def _not_taken(reading: Reading, name: str, node: Node) -> Reading:
    """The reading of words that are on the command line, but without effect."""
    words = cmdline.parameter(node.line.text or "", name)
    reason = known.ignored(name, words, node.context.host) if words else ""
    if not reason:
        return reading
    boot = reading.boot
    if boot.value.text == reading.want:
        boot = Boot(Value(absent=reason), boot.source, foreign=True)
    return reading._replace(runtime=Value(absent=reason), boot=boot, missing=True)


def _read_unseen(setting: Setting, node: Node) -> Reading:
    """The boot layer alone, as in an image build, which reads nothing of this machine."""
    want = setting.want
    if want is None or _names_cpus(setting):
        # The agent checks the remaining CPUs, on the machine that has them.
        boot = node.context.boot_by_agent(setting, None)
        return Reading(cmdline.COMMAND_LINE, Value(), boot, None, at_boot=True)
    boot, note = menu.boot_layer(setting, want, Value(), node), ""
    if boot.value.text is None or not values.same(boot.value.text, want):
        try:
            path = _menu_source(setting, want, node)
        except HostError as error:
            path, boot = "", Boot(Value(unreadable=str(error)))
        if path:
            boot, note = Boot(Value(text=want), path), _MENU_LATER
    reading = Reading(
        cmdline.COMMAND_LINE, Value(), boot, want,
        refusal=_refusal(setting, want, node), at_boot=True, note=note,
    )  # fmt: skip
    mistake = _mistake(setting, want, node)
    return reading._replace(invalid=mistake or (node.too_long if cmdline.wanted(want) else ""))


def _menu_source(setting: Setting, want: str, node: Node) -> str:
    context, words = node.context, cmdline.wanted(want)
    return loaders.menu_source(node.loader, context.host, context.name, boot_parse.name_of(setting), words)


# -- runtime -------------------------------------------------------------------------------


def _runtime(setting: Setting, node: Node) -> Value:
    """The words of a parameter, or why they are unknown."""
    if node.line.text is None:
        return node.line
    name = boot_parse.name_of(setting)
    if _names_cpus(setting):
        context = node.context
        key = cmdline.key_of(name)
        lacking = isolation.lacking(key, context.host, context.facts.kernel_release())
        if lacking:
            return Value(absent=lacking)
        unclear = isolation.unclear(node.topology, context.host)
        if unclear:
            return Value(unreadable=unclear)
    return Value(text=cmdline.shown(cmdline.parameter(node.line.text, name)))


def _wanted(setting: Setting, node: Node) -> str | None:
    """The wanted words; None if an automatic list would be empty."""
    cpus = boot_parse.all_but(setting)
    if cpus is None:
        return setting.want
    left = isolation.rest(cpus, node.topology.cpus)
    return f"{boot_parse.name_of(setting)}={cpulist.render(left)}" if left else None


def _named_cpus(setting: Setting, want: str) -> tuple[int, ...]:
    """The CPUs that a parameter's words name; none for parameters that name none."""
    cpus: set[int] = set(boot_parse.all_but(setting) or ())
    for word in cmdline.wanted(want):
        name, equals, value = word.partition("=")
        key = cmdline.key_of(name)
        if key in isolation.PARAMETERS and equals:
            cpus.update(isolation.named(key, value)[1])
    return tuple(sorted(cpus))


def _invalid(setting: Setting, want: str, node: Node) -> str:
    cpus = _named_cpus(setting, want)
    return isolation.missing(cpus, node.topology.cpus) if cpus else ""


def _note(setting: Setting, want: str, node: Node) -> str:
    split = isolation.split_cores(node.isolated, node.topology.cpus) if _taken(setting) else ""
    return "; ".join(filter(None, (_repeated(setting, want, node), split)))


def _repeated(setting: Setting, want: str, node: Node) -> str:
    """Words about repetitions on the command line; empty if there are none.

    The kernel accepts them, but two places may come to differ, and the length of the line is limited.
    """
    wanted = len(cmdline.wanted(want))
    times = (
        len(cmdline.parameter(node.line.text or "", boot_parse.name_of(setting))) // wanted if wanted else 0
    )
    return f"given {times} times in {cmdline.COMMAND_LINE}" if times > 1 else ""


def _blocked(setting: Setting, want: str, node: Node) -> str:
    """Reason why differing words cannot be corrected here; empty if they can, or wait for a reboot."""
    if not node.context.boot:
        return _BOOT_ONLY
    if node.loader.lacks or node.loader.unreadable:
        return "" if _is_in_menu(setting, want, node) else node.loader.lacks
    if node.loader.name == "GRUB" and not cmdline.parameter(node.line.text or "", "BOOT_IMAGE"):
        return _NOT_BY_GRUB
    return _CONTAINER if node.topology.machine.kind == "container" else ""


def _is_in_menu(setting: Setting, want: str, node: Node) -> bool:
    """True if a file of another owner has brought the words to the loader's entries."""
    name, wanted = boot_parse.name_of(setting), cmdline.wanted(want)
    entries = node.loader.entries
    return bool(entries) and all(isolation.alike(entry.parameter(name)[0], wanted) for entry in entries)


def _refusal(setting: Setting, want: str, node: Node) -> str:
    """The guard that refuses this; empty if none does or it is switched off."""
    words = cmdline.wanted(want)
    if setting.key == f"{KIND}.mitigations" and any("off" in _flags(word) for word in words):
        reason = "it opens the machine to every attack on its CPUs that is known"
        return unless_allowed("mitigations", reason, node.context.allow)
    if not _names_cpus(setting):
        return ""
    reason = isolation.too_few_left(node.isolated, node.topology)
    return unless_allowed("housekeeping", reason, node.context.allow)


def _flags(word: str) -> list[str]:
    return word.partition("=")[2].split(",")


# -- boot layer ----------------------------------------------------------------------------


def _words(row: Row) -> tuple[str, ...]:
    return cmdline.wanted(row.reading.want or cmdline.ABSENT)


def _is_carried(row: Row) -> bool:
    reading = row.reading
    stopped = reading.invalid or reading.refusal or reading.blocked or row.status is Status.UNSUPPORTED
    return not stopped and reading.want is not None


def _kept(row: Row, loader: Loader, name: str, host: Host) -> dict[str, tuple[str, ...]]:
    """Words to keep in mlnode's own file, as this run cannot determine them: a kernel started in another way
    this time (kexec), a GPU that did not come up, or an image build, which reads no CPUs.
    """
    if row.reading.invalid or row.reading.refusal or loader.style not in ("drop-in", "deployment"):
        return {}
    parameter = boot_parse.name_of(row.setting)
    # An automatic parameter without words for this machine may have been given under either name.
    names = passthrough.names(parameter) if boot_parse.is_automatic(row.setting) else (parameter,)
    parameters = {alias: loaders.given(loader, host, name, alias) for alias in names}
    return {alias: words for alias, words in parameters.items() if words is not None}


def _is_stale(row: Row) -> bool:
    """True if the menu has to be regenerated, and that would help."""
    boot, want = row.reading.boot, row.reading.want or ""
    right = boot.value.text is not None and values.same(boot.value.text, want)
    return not right and not boot.foreign


class BootKind(Kind):
    KIND = KIND
    OPTIONS = own.OPTIONS
    MOUNTS = hardware.MOUNTS

    def parse(self, given: Checked, facts: Facts | None) -> list[Setting]:
        return boot_parse.parse(given)

    def look(self, settings: Sequence[Setting], context: Context) -> Node:
        """The running command line and the loader's menu."""
        line = context.host.value(cmdline.COMMAND_LINE) if context.runtime else Value()
        settings = [_resolved(setting, context) for setting in settings]
        isolated = _isolated(settings, _others(context))
        node = Node(boot_loader.find(context.host, not context.runtime), line, isolated, context)
        return node._replace(too_long=_too_long(settings, node))

    def read_one(self, setting: Setting, node: Node) -> Reading:
        setting = _resolved(setting, node.context)
        if not node.context.runtime:
            return _read_unseen(setting, node)
        runtime = _runtime(setting, node)
        if boot_parse.is_automatic(setting):
            choice = passthrough.words(node.context.host, node.topology, node.context.facts)
            absent = Value(absent=choice.reason)
            return Reading(cmdline.COMMAND_LINE, absent, Boot(absent), elsewhere=choice.needless)
        want = _wanted(setting, node) if runtime.text is not None else setting.want
        reading = Reading(cmdline.COMMAND_LINE, runtime, Boot(runtime), want, at_boot=True)
        if runtime.text is None:
            return reading
        if want is None:
            return reading._replace(invalid="no CPU of this machine would be left for interrupts")
        wanted = cmdline.wanted(want)
        if isolation.alike(cmdline.wanted(runtime.text), wanted):
            runtime = Value(text=want)  # The spelling that is compared
        else:
            reading = reading._replace(
                refusal=_refusal(setting, want, node),
                blocked=_blocked(setting, want, node),
                invalid=node.too_long if wanted else "",
            )
        reading = reading._replace(
            runtime=runtime,
            boot=menu.boot_layer(setting, want, runtime, node),
            invalid=_invalid(setting, want, node) or reading.invalid,
            note=_note(setting, want, node),
        )
        if runtime.text == want:
            reading = _not_taken(reading, boot_parse.name_of(setting), node)
        return _mistaken(reading, _mistake(setting, want, node))

    def boot_files(self, name: str, rows: Sequence[Row], context: Context) -> list[BootFile]:
        """The loader's files as these rows require them."""
        loader = boot_loader.find(context.host, not context.runtime)
        if loader.unreadable or any(row.reading.runtime.unreadable is not None for row in rows):
            return []  # A temporary read error must not remove the present content
        changes: dict[str, tuple[str, ...]] = {}
        for row in rows:
            if _is_carried(row):
                changes[boot_parse.name_of(_resolved(row.setting, context))] = _words(row)
            else:
                changes.update(_kept(row, loader, name, context.host))
        stale = any(_is_stale(row) for row in rows if _is_carried(row))
        return loaders.files(loader, name, changes, stale, context.host)

    def conflicts(self, key: str, other: str) -> bool:
        """True only for the two names of an automatic iommu; all other parameters have their own words."""
        return {key, other} == {f"{KIND}.{name}" for name in passthrough.names(passthrough.PARAMETER)}

    def facts(self, host: Host, rows: Sequence[Row]) -> dict[str, Any]:
        """Jobs that a reboot would end. Inspects every process, so only if a reboot is due."""
        if not waits_for_boot(rows):
            return {}
        try:
            return {"running": jobs.running(host)}
        except HostError as error:  # Unseen jobs may still run
            return {"running": [f"processes that cannot be looked at: {error}"]}

    def boot_sources(self, key: str, host: Host) -> list[str]:
        """The words of the running kernel, and every line of a loader's file that names the parameter."""
        lines = []
        for name in passthrough.names(key[len(KIND) + 1 :]):
            words = cmdline.parameter(host.value(cmdline.COMMAND_LINE).text or "", name)
            lines += [f"{cmdline.COMMAND_LINE}: {cmdline.shown(words)}"] if words else []
            lines += boot_loader.boot_sources(host, name)
        return lines

    def option(self, key: str) -> Option:
        return self.OPTIONS["parameters"]

    def info_of(self, setting: Setting, runtime: Value) -> Info:
        """Facts about a setting. A parameter to remove has its own reason, or else the general one."""
        absent = self.OPTIONS["absent"]
        of_absent = Info(absent.severity, absent.reason, absent.source)
        known = boot_info.info(setting.key[len(KIND) + 1 :])
        return known or (of_absent if setting.want == cmdline.ABSENT else self.info(setting.key, runtime))

    def info(self, key: str, runtime: Value) -> Info:
        return boot_info.info(key[len(KIND) + 1 :]) or super().info(key, runtime)


kind = BootKind()
