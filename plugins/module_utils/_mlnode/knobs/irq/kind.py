# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kind irq: CPUs for the interrupts of NICs, and CPUs that take over their packets.

Interrupt numbers change at each boot. The rule is therefore declared, and the agent re-applies it at boot and
whenever a NIC appears or changes its queues. Sources: core-api/irq/irq-affinity.rst, networking/scaling.rst.
"""

from __future__ import annotations

from typing import Any, Callable, Iterable, Iterator, Mapping, Sequence

from ...engine import declared
from ...engine.kind import Context, Facts, Row
from ...host.host import Host
from ...model import cpulist, values
from ...model.record import NamedTuple
from ...model.schema import Checked, Option
from ...model.setting import BootFile, Reading, Setting, Value
from ...topology import hardware
from ...topology.model import Topology
from .. import rules
from ..nics import owners, ports
from ..nics import rules as nic_rules
from ..nics.ports import Port
from ..summary import Files, Summary, grouped
from . import files, irqbalance, link_files, plan
from . import parse as irq_parse
from . import schema as own
from .parse import RuleSetting

#: A key of the area sysctl that could lower the flow table again
_FLOW_KEY = "net.core.rps_sock_flow_entries"


# -- one rule ------------------------------------------------------------------------------


def _read_rule(setting: RuleSetting, flows: int, context: Context) -> Reading:
    """Reading of one rule. flows: the largest number of entries that any rule needs in the shared table."""
    if not context.runtime:
        return Reading(setting.path, Value(), context.boot_by_agent(setting, None))
    selected = ports.find(context.host, setting.rule.nics)
    if not selected.ports:
        return nic_rules.unread(setting, selected, context)
    machine = hardware.topology(context.host)
    pools = _pools(setting, machine, context)
    # A device without a PCI address has queues to steer, but no vectors to move.
    movable = [port for port in selected.ports if port.address or setting.topic != "irq"]
    all_files = [
        _port_files(setting, port, machine, pools.get(plan.key(port), plan.Pool()), context)
        for port in movable or selected.ports
    ]
    if setting.topic == "irq":
        files.follow(context.host, all_files)
    reading = _owned(_assembled(setting, all_files, flows, context), setting, movable, all_files, context)
    return _noted(reading, selected.note)


def _owned(
    reading: Reading,
    setting: RuleSetting,
    movable: Sequence[Port],
    all_files: Sequence[Files],
    context: Context,
) -> Reading:
    """The reading with lines of other programs, which win when they next place the same."""
    if setting.topic not in link_files.FILES or not reading.parts:
        return reading
    machine = hardware.topology(context.host)
    others = link_files.others(context.host, machine, setting.topic, movable, all_files)
    boot = owners.boot(context.host, others, reading.boot, links=True)
    return _noted(reading._replace(boot=boot), "; ".join(owners.notes(others)))


def _pools(setting: RuleSetting, machine: Topology, context: Context) -> Mapping[str, plan.Pool]:
    """CPUs for the interrupts of each NIC. Transmit queues always use the strategy spread."""
    rule = setting.rule if setting.topic == "irq" else _SPREAD
    allowed = "isolated_cpus" in context.allow if setting.topic == "irq" else False
    return plan.pools(machine, ports.ports(machine), rule, allowed)


_SPREAD = irq_parse.Rule(strategy="spread")


def _port_files(
    setting: RuleSetting, port: Port, machine: Topology, pool: plan.Pool, context: Context
) -> Files:
    host, rule = context.host, setting.rule
    if setting.topic == "irq":
        port_files = files.interrupts(host, port, pool)
    elif setting.topic == "rfs":
        port_files = files.receive_flows(host, port, rule.rfs_entries or 0)
    else:
        port_files = files.steering(host, machine, port, rule, setting.topic, pool.cpus)
    if port_files.parts:
        # One file stands for all, as only a read-only file system blocks writes.
        port_files.blocked = host.blocked(port_files.parts[0].path)
    elif not port_files.managed and not port_files.problems:
        port_files.lacking = _LACKING[setting.topic]
    return port_files


def _assembled(setting: RuleSetting, all_files: Sequence[Files], flows: int, context: Context) -> Reading:
    show = _SHOWN[setting.topic]
    row = Summary(all_files, lambda parts, value: show([value(part) for part in parts]))
    # NICs that are down while others are up. A NIC that deliberately has no such queue is not reported.
    idle = row.notes if setting.topic == "irq" else []
    notes = [*grouped((note, device.label) for device in all_files for note in device.notes), *idle]
    reading = row.reading(setting.path, context.boot_by_agent(setting, row.want), context.origins, notes)
    kept = sum(device.managed for device in all_files)
    if kept and not reading.parts and reading.runtime.unreadable is None:
        labels = ", ".join(device.label for device in all_files)
        reason = f"the kernel keeps all interrupts of {labels} to itself ({kept})"
        return reading._replace(runtime=Value(text="left to the kernel"), managed=reason)
    if setting.topic == "rfs" and setting.rule.rfs_entries and reading.runtime.text is not None:
        return _with_table(setting, reading, flows, context)
    return reading


def _with_table(setting: RuleSetting, reading: Reading, flows: int, context: Context) -> Reading:
    """The reading with the table that all NICs share."""
    claims = [*_flows_of_sysctl(context)]
    table, problem = files.flow_table(context.host, [flows, *(claim.number for claim in claims)])
    if table is None:
        return reading._replace(runtime=problem)
    want = f"table {table.want}; {reading.want or ''}"
    return reading._replace(
        runtime=Value(text=f"table {table.runtime}; {reading.runtime.text}"),
        boot=context.boot_by_agent(setting, want),
        want=want,
        blocked=reading.blocked or context.host.blocked(table.path),
        refusal=reading.refusal or _flow_conflict(flows, claims),
        parts=(table, *reading.parts),
    )


def _masked(texts: Sequence[str]) -> str:
    lists = []
    for text in texts:
        try:
            lists.append(cpulist.render(cpulist.from_mask(text)))
        except ValueError:
            lists.append(text)
    return "off" if not any(lists) else plan.summary(lists)


def _counted(texts: Sequence[str]) -> str:
    counts = list(dict.fromkeys(texts))
    if counts == ["0"]:
        return "off"
    return f"{counts[0]} per queue" if len(counts) == 1 else f"{', '.join(counts)} in its queues"


#: Topic → function that renders the values of one NIC's files in one line
_SHOWN: Mapping[str, Callable[[Sequence[str]], str]] = {
    "irq": plan.summary,
    "rps": _masked,
    "xps": _masked,
    "rfs": _counted,
}

#: Topic → reason why a NIC has nothing to set
_LACKING = {
    "irq": "no MSI interrupt is in use (the interface is down, or its device has a line interrupt)",
    "rps": "no receive queue has an rps_cpus (no interface, or a kernel without CONFIG_RPS)",
    "xps": "no transmit queue has an xps_cpus (there is only one, or the kernel has no CONFIG_XPS)",
    "rfs": "no receive queue has an rps_flow_cnt (no interface, or a kernel without CONFIG_RPS)",
}


# -- rules together ------------------------------------------------------------------------


class _Flows(NamedTuple):
    """Entries of the table that a sysctl declares. exact: not a minimum. where: the declaration."""

    number: int
    exact: bool
    where: str


def _flows_of_sysctl(context: Context) -> Iterator[_Flows]:
    for declaration in declared.expected(context.host):
        section = declaration.kinds.get("sysctl", {}).get("settings")
        raw: Any = section.get(_FLOW_KEY) if isinstance(section, Mapping) else None
        form, raw = next(iter(raw.items()), ("", None)) if isinstance(raw, Mapping) else ("", raw)
        number = values.number(str(raw))
        if number is not None:
            yield _Flows(number, form != "at_least", f"{declaration.name} ({declaration.path})")


def _flow_conflict(entries: int, claims: Iterable[_Flows]) -> str:
    """Reason not to raise the flow table: a declared sysctl would lower it again at every run."""
    for claim in claims:
        if claim.exact and claim.number < entries:
            return (
                f"{_FLOW_KEY} is declared as {claim.number} by {claim.where}, and "
                f"rfs_entries {entries} needs at least as many: declare that there, or leave it out"
            )
    return ""


def _noted(reading: Reading, note: str) -> Reading:
    return reading._replace(note="; ".join(text for text in (reading.note, note) if text))


class IrqKind(rules.RuleKind):
    KIND = irq_parse.KIND
    OPTIONS = own.OPTIONS
    MOUNTS = hardware.MOUNTS

    def parse(self, given: Checked, facts: Facts | None) -> list[Setting]:
        return irq_parse.parse(given)

    def read(self, settings: Sequence[Setting], context: Context) -> list[Reading]:
        """One reading per setting. Raises DeclarationError if two rules want different values of a file."""
        ruled = [item for item in settings if isinstance(item, RuleSetting)]
        balanced = irq_parse.BALANCE_KEY in {item.key for item in settings}
        flows = max((item.rule.rfs_entries or 0 for item in ruled), default=0)
        readings = [_read_rule(item, flows, context) for item in ruled]
        others = rules.of_others(context, self)
        rules.refuse_overlap(
            context,
            zip(ruled, readings),
            [other for other in others if isinstance(other[1], RuleSetting)],
            self.read_one,
            shared=[files.FLOW_TABLE],  # Never lowered
        )
        devices = irqbalance.devices(context.host, zip(ruled, readings)) if context.runtime else None
        warning = "" if balanced or not devices else irqbalance.warning(context, devices)
        readings_by_key = {
            item.key: _noted(reading, warning if item.topic == "irq" and reading.parts else "")
            for item, reading in zip(ruled, nic_rules.report_once(ruled, readings, self.info))
        }
        for item in settings:
            if item.key not in readings_by_key:
                readings_by_key[item.key] = irqbalance.read(item, devices, context)
        return [readings_by_key[item.key] for item in settings]

    def read_one(self, setting: RuleSetting, node: Context) -> Reading:
        """The rule without the flows of other rules."""
        return _read_rule(setting, 0, node)

    def boot_files(self, name: str, rows: Sequence[Row], context: Context) -> list[BootFile]:
        """Files that make irqbalance agree; the rules themselves are re-applied by the agent."""
        return irqbalance.files(name, rows, context)

    def boot_sources(self, key: str, host: Host) -> list[str]:
        """Other sources that set interrupts at boot."""
        if key == irq_parse.BALANCE_KEY:
            return irqbalance.boot_sources(host)
        words = Facts(host).command_line("irqaffinity")
        topic = [*key.split("."), "irq"][2]
        files = {"irq": ("irq/",), "rps": ("rps/",)}.get(topic, ())
        lines = owners.lines(host, files)
        lines += owners.problems(host, owners.of_machine(host), links=True) if files else ()
        return [*(f"/proc/cmdline: irqaffinity={word}" for word in words), *lines]

    def option(self, key: str) -> Option:
        """Option of a key. Keys without a third word set the interrupts themselves."""
        if key == irq_parse.BALANCE_KEY:
            return self.OPTIONS["irqbalance"]
        return super().option(key if key.count(".") > 1 else f"{key}.strategy")


kind = IrqKind()
