# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kind thp: transparent huge pages and khugepaged (admin-guide/mm/transhuge.rst).

No drop-in of the system can set these files, so the agent restores them at boot. A kernel command line
parameter is reported as the boot layer's value, as it is in force until then.
"""

from __future__ import annotations

from typing import Collection, Sequence

from ...engine.kind import Context, Facts, Info, Kind
from ...host.host import Host
from ...model import schema, values
from ...model.schema import Checked, Option
from ...model.setting import Boot, KnobFile, Reading, Setting, Severity, Value, Write
from . import schema as own

BASE = "/sys/kernel/mm/transparent_hugepage"
_MIN_FREE = "/proc/sys/vm/min_free_kbytes"

#: Kernel command line: knob → parameter (kernel-parameters.txt)
_PARAMETERS = {"enabled": "transparent_hugepage", "shmem_enabled": "transparent_hugepage_shmem"}
_ACCEPTED = {
    "enabled": ("always", "madvise", "never"),
    "shmem_enabled": ("always", "within_size", "advise", "never", "deny", "force"),
}
#: These override the policies of all sizes, for a test of the kernel
_WHATEVER = ("deny", "force")
#: The size of a page that one entry of a page middle directory maps, in bytes
_PMD = f"{BASE}/hpage_pmd_size"
_SIZE_PARAMETERS = {"enabled": "thp_anon", "shmem_enabled": "thp_shmem"}
#: Words of all its files (transhuge.rst): another kernel may have more than this one
_WORDS = (
    *("always", "madvise", "never", "inherit", "defer", "defer+madvise", "within_size", "advise", "deny"),
    *("force", "0", "1"),
)
#: The policies of both files
_POLICIES = frozenset({"always", "inherit", "madvise", "never", "within_size", "advise"})


def _sizes_apart(setting: Setting, declared: Collection[str], context: Context) -> str:
    """Page sizes that ignore the common policy and are not declared themselves; empty if there are none.

    Since Linux 6.8 `enabled` applies to sizes that are set to inherit, and since 6.14 shmem_enabled exists
    for each size as well. By default the kernel sets the PMD size to inherit and all others to never
    (transhuge.rst).
    """
    host, file = context.host, setting.path.rpartition("/")[2]
    if setting.path != f"{BASE}/{file}" or file not in _SIZE_PARAMETERS or setting.want in _WHATEVER:
        return ""
    usual = f"{BASE}/hugepages-{(values.number(host.value(_PMD).text) or 0) >> 10}kB/{file}"
    apart = []
    for path in host.matching(f"{BASE}/hugepages-*kB/{file}"):
        policy = values.chosen(host.value(path).text or "")
        inherits = policy in ("inherit", setting.want) or (policy == "never" and path != usual)
        if not inherits and path not in declared:
            apart.append(f"{path[len(BASE) + 1 :]} is {policy}")
    if not apart:
        return ""
    given = context.facts.command_line(_SIZE_PARAMETERS[file])
    cause = f" (kernel command line: {_SIZE_PARAMETERS[file]}={given[-1]})" if given else ""
    return f"{'; '.join(apart)}, and not inherit{cause}: pages of that size do not follow {file}"


def _explained(raw: Value, setting: Setting, context: Context) -> Value:
    if raw.absent is None:
        return raw
    if not context.host.exists(BASE):
        return Value(absent=f"{BASE} does not exist: this kernel has no transparent huge pages")
    if "/hugepages-" in setting.path:
        sizes = [name[10:] for name in context.host.names(BASE) if name.startswith("hugepages-")]
        return Value(absent=f"{setting.path} does not exist; sizes here: {', '.join(sizes) or 'none'}")
    return Value(absent=f"{setting.path} does not exist in this kernel")


def _moved_along(setting: Setting, context: Context) -> tuple[Write, ...]:
    """Writes that undo side effects: a change of `enabled` makes khugepaged recompute vm.min_free_kbytes."""
    reserve = context.host.value(_MIN_FREE).text if setting.key.endswith("enabled") else None
    return () if reserve is None else (Write(_MIN_FREE, reserve),)


def _boot(setting: Setting, context: Context) -> Boot:
    name = setting.key[len("thp.") :]
    # A build host's command line is not evidence for the machines that boot its image.
    given = _from_command_line(name, context.facts) if context.runtime else None
    if given is None:
        return context.boot_by_agent(setting, setting.want)
    parameter, value = given
    return Boot(Value(text=value), f"kernel command line ({parameter}={value})", foreign=True)


def _from_command_line(name: str, facts: Facts) -> tuple[str, str] | None:
    """Parameter and value that the command line gives a knob, unless the kernel ignores it."""
    if name in _PARAMETERS:
        parameter = _PARAMETERS[name]
        valid = [word for word in facts.command_line(parameter) if word in _ACCEPTED[name]]
        return (parameter, valid[-1]) if valid else None
    folder, _dot, file = name.partition(".")
    if not folder.startswith("hugepages-"):
        return None
    parameter = _SIZE_PARAMETERS[file]
    policies: dict[int, str] = {}
    for text in facts.command_line(parameter):
        policies.update(sized_policies(text))
    value = policies.get(int(folder[10:-2]))
    return None if value is None else (parameter, value)


def sized_policies(text: str) -> dict[int, str]:
    """`16K,32K:always;64K-2M:madvise` as size in kB → policy; empty if the kernel would reject any part, as
    it then drops the whole parameter (mm/huge_memory.c: setup_thp_anon).
    """
    policies: dict[int, str] = {}
    for clause in text.split(";"):
        sizes, colon, policy = clause.partition(":")
        if not colon or policy not in _POLICIES:
            return {}
        for span in sizes.split(","):
            first, dash, last = span.partition("-")
            low, high = _kilobytes(first), _kilobytes(last if dash else first)
            if low is None or high is None or low > high:
                return {}
            size = low
            while size <= high:
                policies[size] = policy
                size *= 2
    return policies


def _kilobytes(text: str) -> int | None:
    """A size in kB; None if it is not a power of two, or larger than any page."""
    number = values.memparse(text)
    if number is None or number >= 1 << 40:
        return None
    return number >> 10 if number >= 1024 and number & (number - 1) == 0 else None


def cost(enabled: Value, defrag: Value) -> Info:
    """Cost of the policy, together with the effort of a page fault.

    Under `always` any process stalls in compaction, but only if `defrag` is `always`, too; else only
    processes that asked for huge pages (transhuge.rst).
    """
    if enabled.text == "always" and defrag.text == "always":
        return kind.info("thp.defrag", defrag)
    if enabled.text == "always" and defrag.text is None:
        reason = "any process may stall in compaction, if defrag is always"
        return kind.info("thp.enabled", enabled)._replace(severity=Severity.MEDIUM, reason=reason)
    return kind.info("thp.enabled", enabled)


class ThpKind(Kind):
    KIND = "thp"
    OPTIONS = own.OPTIONS

    def parse(self, given: Checked, facts: Facts | None) -> list[Setting]:
        return [
            Setting(
                self.KIND, f"{self.KIND}.{file.replace('/', '.')}", f"{BASE}/{file}", str(value), str(value)
            )
            for file, value in schema.files(self.OPTIONS, given)
        ]

    def look(self, settings: Sequence[Setting], context: Context) -> tuple[Context, Collection[str]]:
        """The context, and the declared files."""
        return context, {setting.path for setting in settings}

    def read_one(self, setting: Setting, node: tuple[Context, Collection[str]]) -> Reading:
        context, declared = node
        boot = _boot(setting, context)
        if not context.runtime:
            return Reading(setting.path, Value(), boot, setting.want)
        raw = context.host.value(setting.path)
        if raw.text is None:
            return Reading(setting.path, _explained(raw, setting, context), boot, setting.want)
        offered = values.choices(raw.text)
        lack = ""
        if offered and setting.want not in offered:
            lack = f"this kernel does not offer {setting.want!r}, but {', '.join(offered)}"
        known = setting.want in (*offered, *_WORDS)
        now = values.chosen(raw.text)
        undo = (Write(setting.path, now), *_moved_along(setting, context))
        return Reading(
            invalid="" if known else lack,
            path=setting.path,
            runtime=Value(text=now),
            boot=boot,
            want=setting.want,
            offered=offered,
            blocked=context.host.blocked(setting.path),
            note=_sizes_apart(setting, declared, context),
            parts=(KnobFile(0, setting.path, now, setting.want or "", undo, answer=lack),),
        )

    def boot_sources(self, key: str, host: Host) -> list[str]:
        """The kernel command line's word, if it has one."""
        given = _from_command_line(key[len("thp.") :], Facts(host))
        return [f"/proc/cmdline: {given[0]}={given[1]}"] if given else []

    def option(self, key: str) -> Option:
        """Option of a key; all page sizes share theirs."""
        return self.OPTIONS["sizes"] if ".hugepages-" in key else super().option(key)

    def info(self, key: str, runtime: Value) -> Info:
        """Severity and reason. `always` of defrag is severity high, as it stalls every process that `enabled`
        gives huge pages to.
        """
        info = super().info(key, runtime)
        stalls = key == "thp.defrag" and runtime.text == "always"
        return info._replace(severity=Severity.HIGH) if stalls else info


kind = ThpKind()
