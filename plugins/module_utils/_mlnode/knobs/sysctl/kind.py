# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kind sysctl: /proc/sys at run time, a drop-in that sorts last at boot."""

from __future__ import annotations

from typing import Mapping, Sequence, Tuple

from ...engine import declared
from ...engine.kind import Context, Facts, Info, Kind, Row
from ...host.host import Host
from ...linux import (
    setters,
    sysctl_aliases,
    sysctl_d,
    sysctl_keys,
    sysctl_owners,
    sysctl_values,
)
from ...model import values
from ...model.errors import DeclarationError, HostError
from ...model.schema import Checked
from ...model.setting import EXACTLY, Boot, BootFile, KnobFile, Reading, Setting, Value, Write
from .. import own_file
from . import at_boot, cgroup1, copies, guards, needed, of_module
from . import info as sysctl_info
from . import lines as own_lines
from . import parse as sysctl_parse
from . import schema as own

KIND = "sysctl"

DROP_IN = own_lines.DROP_IN
MODULES_FILE = "/etc/modules-load.d/mlnode-"

_Node = Tuple[sysctl_d.BootConfig, Context]

#: Location of the scheduler's knob since 5.13 (commit 8a99b6833c88); debugfs, so lockdown may hide it
_DEBUG_MIGRATION_COST = "/sys/kernel/debug/sched/migration_cost_ns"


def _with_moved(settings: Sequence[Setting], readings: Sequence[Reading]) -> list[Reading]:
    """The readings, with files that are right now but change with the write of another setting of this
    declaration.
    """
    writes = {
        sysctl_d.slashed(setting.key): part
        for setting, reading in zip(settings, readings)
        for part in reading.parts
        if part.differs and sysctl_aliases.moves_others(sysctl_d.slashed(setting.key))
    }
    return [_moved(setting, reading, writes) for setting, reading in zip(settings, readings)]


def _moved(setting: Setting, reading: Reading, writes: Mapping[str, KnobFile]) -> Reading:
    for name, shows, _one in sysctl_aliases.sources(sysctl_d.slashed(setting.key))[1:] if writes else ():
        mover = writes.get(name)
        if mover is None or not reading.parts or reading.parts[0].differs:
            continue
        shown = shows(mover.want, mover.runtime)
        if shown is not None and not values.same(shown, reading.parts[0].want):
            moved = f"{sysctl_d.dotted(name)} moves it"
            part = reading.parts[0]._replace(moved=moved, mover=Write(mover.path, mover.want))
            return reading._replace(parts=(part,), runtime=Value(text=f"{part.runtime} ({moved})"))
    return reading


def _refuse_other_names(settings: Sequence[Setting], context: Context) -> None:
    """Refuse two declarations with different values for one variable under two names: each would undo the
    other. The engine itself refuses two values for the same key.
    """
    by_key = {setting.key: setting for setting in settings}
    others = declared.settings(
        context.host, KIND, own.OPTIONS, lambda given: kind.parse(given, None), but=context.name
    )
    for declaration, theirs in others:
        for twin in sysctl_parse.twins(theirs, by_key):
            raise DeclarationError(
                f"{twin.key} ({twin.claim!r}, declared by {context.name}) and {theirs.key} "
                f"({theirs.claim!r}, declared by {declaration.name}, {declaration.path}) are two names of "
                "one variable of the kernel: the two must agree, or one must leave it out"
            )


def _refuse_same_pool(settings: Sequence[Setting], readings: Sequence[Reading], context: Context) -> None:
    """Refuse a second value for one pool: vm.nr_hugepages@node0 and @node0/2048kB are the same if 2048 kB is
    the default.
    """
    seen: dict[str, str] = {}
    default = f"/hugepages-{context.facts.hugepage_kbytes()}kB/" if context.runtime else ""
    for setting, reading in zip(settings, readings):
        pools = [reading.path]
        if default and default in reading.path and "vm.nr_hugepages" in seen.values():
            pools.append("/proc/sys/vm/nr_hugepages")
        for pool in pools:
            if pool in seen:
                raise DeclarationError(f"{seen[pool]} and {setting.key} are the same pool here: declare one")
        seen[reading.path] = setting.key


def _read_one(setting: Setting, config: sysctl_d.BootConfig, context: Context) -> Reading:
    if not context.runtime:
        return _read_unseen(setting, config, context)
    path = _path_here(setting, context)
    runtime = _runtime(setting, path, context)
    native = _is_below(setting, path) and not setting.derived
    if runtime.text is None:
        return _read_absent(setting, path, runtime, native, context)
    try:
        want = _wanted(setting, runtime.text)
        known = runtime.text if _is_below(setting, path) else None
        sysctl_values.require(setting.key, want, known, context.facts.kernel_release())
    except DeclarationError as error:
        return Reading(path, runtime, Boot(Value(absent=str(error))), native=native, invalid=str(error))
    return _read_present(setting, path, runtime.text, want, config, context)


def _is_below(setting: Setting, path: str) -> bool:
    """True for the key's own file, which sysctl.d can set."""
    return path.startswith("/proc/sys/") and path == setting.path


def _read_absent(setting: Setting, path: str, runtime: Value, native: bool, context: Context) -> Reading:
    mistake = _misspelt(setting) if runtime.absent else ""
    if mistake:
        return Reading(path, Value(unreadable=mistake), Boot(Value(unreadable=mistake)), invalid=mistake)
    # An interface or a module may bring the file later, and udev then reads the line again. The line
    # therefore stays, as it does after a temporary read error.
    want = None if setting.raise_only else setting.want
    module = needed.owner(setting.key) if runtime.absent else ""
    if needed.to_load(module, context):
        invalid = _out_of_range(setting, context.facts.kernel_release())
        return of_module.to_come(setting, module, path, invalid, context)
    listed = (module,) if module and needed.is_loadable(module, context) else ()
    return Reading(path, runtime, Boot(runtime), want, native=native, modules=listed)


def _read_present(
    setting: Setting, path: str, runtime: str, want: str | None, config: sysctl_d.BootConfig, context: Context
) -> Reading:
    origin = context.origins.get(path, runtime)
    next_boot = at_boot.next_boot(setting, path, want, origin, config, context)
    offered, load, modules, lack = of_module.offer(setting.key, want, context)
    bar = needed.barred(setting.key, want, context)
    boot = next_boot.boot
    if needed.module_of(setting.key, want):
        boot = of_module.at_boot(setting, want, boot, bar, context)
    unloaded = ""
    if bar is not None:
        # modprobe would have no effect either.
        unloaded, load = (f"{want}: {bar}", ()) if load and bar.bar.for_all else ("", load)
    now, undo = " ".join(values.tokens(runtime)), _undo(setting.key, path, runtime, context)
    try:
        of_cgroups = cgroup1.parts(setting, want, context.host)
    except HostError as error:
        return Reading(path, Value(unreadable=str(error)), boot, want, native=next_boot.native)
    shown, slices = now, ""
    if of_cgroups:
        shown = cgroup1.summary(now, of_cgroups)
        boot = cgroup1.boot(boot, setting, want, context)
        slices = f"cgroup v1: counts for {len(of_cgroups)} slices and services, too"
    # The kernel allocates as many huge pages as it has contiguous memory for.
    file = KnobFile(0, path, now, want or "", undo, partial="nr_hugepages" in path)
    return Reading(
        path=path,
        runtime=Value(text=shown),
        boot=boot,
        want=want,
        offered=offered,
        blocked=context.host.blocked(path),
        refusal=guards.refusal(setting.key, path, runtime, want, context),
        native=next_boot.native and not lack,
        load=load,
        modules=modules,
        note="; ".join(filter(None, (next_boot.note, slices, _combined(setting.key, want, context)))),
        parts=(file._replace(answer=lack or unloaded, place=setting.key), *of_cgroups),
        lowers=_lowers(setting.key, now, want),
        # A greater value is kept, so the cap has no effect.
        clamped=setting.clamped if want is not None and values.same(want, setting.want or "") else "",
    )


def _combined(key: str, want: str | None, context: Context) -> str:
    """Note on a value for all interfaces that overrides the one for this interface."""
    combination = sysctl_aliases.combined(sysctl_d.slashed(key))
    numbers = values.integers(want or "")
    if combination is None or numbers is None:
        return ""
    name, greater = combination
    of_all = values.integers(context.host.value(f"/proc/sys/{name}").text or "")
    if of_all is None or numbers[0] == (max if greater else min)(numbers[0], of_all[0]):
        return ""
    every = sysctl_d.dotted(name)
    which = "greater" if greater else "lesser"
    return f"{every} is {of_all[0]}, and the {which} counts: declare {every} as {numbers[0]}, too"


def _lowers(key: str, runtime: str, want: str | None) -> str:
    """The present value and a reason, if the declared one is lower and higher values are acceptable; else
    empty.
    """
    if not sysctl_info.is_capacity(key) or want is None or not values.lowers(runtime, want):
        return ""
    return f"{runtime}, {EXACTLY}"


def _read_unseen(setting: Setting, config: sysctl_d.BootConfig, context: Context) -> Reading:
    """The boot layer alone, as in an image build, which reads nothing of this kernel."""
    # The agent decides values that need a guard with knowledge of the hardware.
    native = not guards.needs_hardware(setting.key) and own_lines.is_literal(setting, None, config, context)
    if native:
        boot = at_boot.of_files(setting, setting.want, None, config, context)
    else:
        boot = context.boot_by_agent(setting, setting.want)
    if needed.module_of(setting.key, setting.want):
        bar = needed.barred(setting.key, setting.want, context)
        boot = of_module.at_boot(setting, setting.want, boot, bar, context)
    module = needed.owner(setting.key)
    return Reading(
        path=setting.path,
        runtime=Value(),
        boot=boot,
        want=setting.want,
        refusal=guards.refusal_anywhere(setting.key, setting.want, context),
        native=native,
        modules=(module,) if module and needed.is_loadable(module, context) else (),
        invalid=_misspelt(setting) or _out_of_range(setting, ""),
    )


def _misspelt(setting: Setting) -> str:
    """The known key that was probably meant by a key that this kernel lacks, or without a kernel to ask."""
    if not setting.path.startswith("/proc/sys/"):
        return ""
    meant = sysctl_keys.meant(sysctl_d.slashed(setting.key))
    return f"no kernel has this key; did you mean {sysctl_d.dotted(meant)}?" if meant else ""


def _out_of_range(setting: Setting, release: str) -> str:
    """Reason why no kernel, or not this release, accepts the value; empty if it may."""
    try:
        sysctl_values.require(setting.key, setting.want, release=release)
    except DeclarationError as error:
        return str(error)
    return ""


def _path_here(setting: Setting, context: Context) -> str:
    """The kernel's file of the setting."""
    host = context.host
    if setting.key == sysctl_parse.MIGRATION_COST and not host.exists(setting.path):
        return _DEBUG_MIGRATION_COST
    if "hugepages-@kB" in setting.path:
        return setting.path.replace("@", str(context.facts.hugepage_kbytes() or "@"))
    return setting.path


def _runtime(setting: Setting, path: str, context: Context) -> Value:
    value = context.host.value(path)
    if path == _DEBUG_MIGRATION_COST and (value.absent or _locked_down(value, context)):
        why = f"lockdown denies {path}" if value.absent is None else f"{path} does not exist (is it mounted?)"
        return Value(absent=f"moved to debugfs in Linux 5.13, and {why}")
    if value.absent is None:
        return value
    if "/hugepages-" in path:
        return Value(absent=f"{path} does not exist: no such NUMA node or page size here")
    if setting.path.startswith("/proc/sys/net/"):
        return Value(absent=f"{path} does not exist: not built, its module not loaded, or the network "
                            "namespace of a container")  # fmt: skip
    return Value(absent=f"{path} does not exist: this kernel has no such setting")


def _locked_down(value: Value, context: Context) -> bool:
    """True if even root is denied: kernel lockdown closes debugfs (kernel_lockdown(7))."""
    return context.host.is_superuser() and any(name in value.problem for name in ("EPERM", "EACCES"))


def _wanted(setting: Setting, runtime: str) -> str | None:
    if setting.want is None or not setting.raise_only:
        return setting.want
    return values.raised(setting.want, runtime)


def _undo(key: str, path: str, runtime: str, context: Context) -> tuple[Write, ...]:
    """The writes that restore this state, with the side effects of a change."""
    other = sysctl_parse.sibling(key)
    if other and values.same(runtime, "0"):
        # A 0 here means that the other half is in force, and 0 itself may be refused (vm.dirty_bytes).
        other_path = sysctl_parse.path_of(other)
        ruling = context.host.value(other_path).text
        if ruling is not None and not values.same(ruling, "0"):
            return (Write(other_path, ruling),)
    if key == "vm.nr_hugepages":
        shares = context.host.matching(
            "/sys/devices/system/node/node*/hugepages/"
            f"hugepages-{context.facts.hugepage_kbytes()}kB/nr_hugepages"
        )
        if len(shares) > 1:  # A write to the total would spread the pool evenly
            return tuple(Write(share, context.host.read(share).strip()) for share in shares)
    return (Write(path, runtime),)


# -- boot layer ----------------------------------------------------------------------------


def _drop_in_line(row: Row, foreign: sysctl_d.BootConfig, context: Context) -> list[str]:
    setting, value = row.setting, row.reading.want or ""
    if setting.raise_only:
        origin = context.origins.get(row.reading.path, row.reading.runtime.text)
        base = own_lines.base_of(setting, origin, foreign, context)
        # The node's own value suffices, or is unknown in an image build: mlnode's line could only lower a
        # default that grows with memory.
        if base is None or values.reaches(setting.want or "", base):
            return []
        value = own_lines.merged(setting.want or "", base)
    return [f"{setting.key} = {value}"]


def _kept(key: str, name: str, present: sysctl_d.BootConfig) -> list[str]:
    """mlnode's present line, if this run cannot determine the wanted value."""
    own = [line for line in present.statements(sysctl_d.slashed(key)) if line.file == f"{DROP_IN}{name}.conf"]
    return [f"{key} = {line.value}" for line in own[-1:]]


class SysctlKind(Kind):
    KIND = KIND
    OPTIONS = own.OPTIONS

    def parse(self, given: Checked, facts: Facts | None) -> list[Setting]:
        return sysctl_parse.parse(given, facts)

    def read(self, settings: Sequence[Setting], context: Context) -> list[Reading]:
        """State of each setting in the kernel and in the sysctl.d folders.

        Raises DeclarationError if two settings are one file of this kernel.
        """
        _refuse_other_names(settings, context)
        node = self.look(settings, context)
        readings = [self.read_one(setting, node) for setting in settings]
        _refuse_same_pool(settings, readings, context)
        return _with_moved(settings, readings)

    def look(self, settings: Sequence[Setting], context: Context) -> _Node:
        return sysctl_d.load(context.host), context

    def read_one(self, setting: Setting, node: _Node) -> Reading:
        config, context = node
        return setters.named(context.host, _read_one(setting, config, context))

    def boot_files(self, name: str, rows: Sequence[Row], context: Context) -> list[BootFile]:
        """The drop-in of one declaration and its list of modules; without content if not needed."""
        present, foreign = sysctl_d.load(context.host), sysctl_d.load(context.host, without=DROP_IN)
        lines: list[str] = []
        modules: list[str] = []
        for row in rows:
            reading = row.reading
            if reading.runtime.unreadable is not None and row.setting.raise_only and reading.native:
                lines += _kept(row.setting.key, name, present)
            if reading.invalid or reading.refusal or not reading.native or reading.want is None:
                continue
            modules += reading.modules
            lines += _drop_in_line(row, foreign, context)
        return [
            BootFile(f"{DROP_IN}{name}.conf", own_file.content(name, lines)),
            BootFile(f"{MODULES_FILE}{name}.conf", own_file.content(name, sorted(set(modules)))),
            *copies.boot_files(
                name, f"{DROP_IN}{name}.conf", {row.setting.key for row in rows}, present, context
            ),
        ]

    def conflicts(self, key: str, other: str) -> bool:
        """True if a declaration may not have both keys, see sysctl_parse.conflicts."""
        return other in sysctl_parse.conflicts(key)

    def keeps(self, key: str, path: str, origin: str, context: Context) -> str:
        """The guards of a declaration, applied to the original value: a pool may be in use, for example."""
        runtime = context.host.value(path).text or ""
        return guards.refusal(key, path, runtime, origin, context)

    def boot_sources(self, key: str, host: Host) -> list[str]:
        """Every sysctl.d line for the key or another name of it, in order of precedence, and later lines of
        other programs.
        """
        name = sysctl_d.slashed(key)
        lines = sysctl_d.load(host).statements(name)
        effects = [
            (owner, sysctl_d.decided(owner.lines, name, lambda _name, text, _before: sysctl_d.Effect(text)))
            for owner in sysctl_owners.load(host)
        ]
        later = [
            f"{decision.line.where}: {setters.words(owner, decision)}"
            for owner, decision in effects
            if decision is not None
        ]
        return [*(f"{line.where}: {line.text}" for line in lines), *later]

    def info(self, key: str, runtime: Value) -> Info:
        return sysctl_info.info(key, runtime)


kind = SysctlKind()
