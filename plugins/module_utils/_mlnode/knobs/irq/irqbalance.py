# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""irqbalance on nodes with declared interrupts: configure it to ignore them, or disable it (irqbalance(1)).

irqbalance asks a policy script about every interrupt, at its start and as new ones appear. The script is the
same on all nodes. Each declaration has a list of its NICs, which the node itself writes. A drop-in appends
the option to the unit's command, and leaves the files of arguments unchanged.
"""

from __future__ import annotations

from typing import Iterable, Sequence

from ...engine import declared, edited_file, unit_drop_in
from ...engine.handlers import IRQBALANCE, IRQBALANCE_SERVICE
from ...engine.kind import Context, Row
from ...host.host import Host
from ...linux import selinux_access, systemd_conf, systemd_unit
from ...linux.irqbalance import IRQBALANCE_DROP_INS, IRQBALANCE_LINK, IRQBALANCE_POLICY, IRQBALANCE_UNIT
from ...loader import boot_loader
from ...model.errors import HostError
from ...model.record import NamedTuple, regex
from ...model.setting import Boot, BootFile, Reading, Setting, Value
from ...topology import pci
from ..nics import ports
from .parse import BALANCE_KEY, KIND, RuleSetting

#: A module that is loaded by name to change the link that starts irqbalance; this area adds it to the agent
BRINGS = (edited_file,)

LISTS = "/etc/mlnode/irqbalance.d"

#: The service's folder in cgroup v2 and v1, which exists while it runs
_RUNNING = (
    f"/sys/fs/cgroup/system.slice/{IRQBALANCE_UNIT}",
    f"/sys/fs/cgroup/systemd/system.slice/{IRQBALANCE_UNIT}",
)

_OPTION = f"--policyscript={IRQBALANCE_POLICY}"
_BEGIN = IRQBALANCE_DROP_INS.rpartition("/")[2]
#: Its child is this shell (popen(3)), in classify.c: get_user_irq_policy
_SHELL = "/bin/sh"
_BY_HAND = f"give it {_OPTION} by hand and declare leave, or declare disable"
_BY_POLICY = "change the policy, see docs/knobs/irq.md, or declare disable"
_OTHER_SCRIPT = regex(r"(?:^|[\s\"'=])(?:--policyscript|-l)\b")

# The number alone decides: before 1.9 irqbalance calls the script with /sys as the device of an interrupt
# that has appeared since its start (classify.c: add_new_irq). An exit status other than 0 drops the answer.
SCRIPT = f"""\
#!/bin/sh
# Written by mlnode.tuning: irqbalance asks with a device and the number of an interrupt.
for list in {LISTS}/*; do
    [ -r "$list" ] || continue
    while read -r device; do
        if [ -e "/sys/bus/pci/devices/$device/msi_irqs/$2" ]; then
            echo ban=true
            exit 0
        fi
    done <"$list"
done
exit 0
"""
_SCRIPT_BYTES = SCRIPT.encode("ascii")


class Service(NamedTuple):
    """How irqbalance is started without mlnode. unfit: why no option can be added, and the remedy; empty if
    one can."""

    command: str = ""
    unfit: str = ""


def installed(host: Host) -> bool:
    """True if irqbalance is installed. A masked unit does not count, as nothing can start it."""
    return bool(systemd_conf.fragment(host, IRQBALANCE_UNIT))


def active(host: Host) -> bool:
    """True if it runs, or the next boot starts it."""
    return installed(host) and (host.is_link(IRQBALANCE_LINK) or running(host))


def running(host: Host) -> bool:
    return any(host.exists(path) for path in _RUNNING)


def warning(context: Context, meant: Sequence[str]) -> str:
    """Warning for a declaration that does not mention it. meant: its NICs."""
    try:
        return _warning(context.host, context.on_disk.get(BALANCE_KEY), meant)
    except HostError as error:
        return f"whether {IRQBALANCE_UNIT} moves interrupts is not known: {error}"


def _warning(host: Host, elsewhere: str | None, meant: Sequence[str]) -> str:
    """elsewhere: the value for irqbalance in another declaration."""
    if not active(host) or elsewhere in ("leave", "disable"):  # The other declaration reports it
        return ""
    if elsewhere == "agree":
        lists = (host.value(_list(name)).text or "" for name in host.names(LISTS))
        if {*meant} <= {line for text in lists for line in text.splitlines()}:
            return ""
        return f"{IRQBALANCE_UNIT} moves interrupts: declare irqbalance: agree beside these rules, too"
    return f"{IRQBALANCE_UNIT} moves interrupts: declare irqbalance as agree or disable"


def devices(host: Host, pairs: Iterable[tuple[Setting, Reading]]) -> tuple[str, ...] | None:
    """The PCI functions with declared interrupts, which irqbalance must ignore; None if unknown.

    Includes NICs that are down, as a list should not change with the state of a link.
    """
    addresses: set[str] = set()
    for setting, reading in pairs:
        if isinstance(setting, RuleSetting) and setting.topic == "irq":
            selected = ports.find(host, setting.rule.nics)
            if selected.problem.unreadable:
                return None
            if not reading.invalid and not reading.refusal:
                addresses.update(port.address for port in selected.ports if port.address)
    return tuple(sorted(addresses))


# -- the service ---------------------------------------------------------------------------


def _service(host: Host) -> Service:
    """How irqbalance is started. Raises HostError if the unit or a file of arguments cannot be read."""
    unit = _of_others(host)
    commands = unit.counting("[Service]", "ExecStart")
    if not commands:
        return Service(unfit=f"{IRQBALANCE_UNIT} has no command: {_BY_HAND}")
    last = commands[-1]
    if last.file != unit.fragment and last.file.rpartition("/")[2] > _BEGIN:
        return Service(unfit=f"{last.where} sets the command after all that mlnode could write: {_BY_HAND}")
    for line in (f"{last.where}: {last.text}", *_arguments(host, unit)):
        if _OTHER_SCRIPT.search(line):
            return Service(unfit=f"a policy script is named already by {line}: {_BY_HAND}")
    programs = (last.value.partition(" ")[0].lstrip(systemd_unit.PREFIXES), _SHELL, IRQBALANCE_POLICY)
    refusal = selinux_access.refusal(host, programs, f"{LISTS}/default")
    return Service(last.value, f"{refusal}: {_BY_POLICY}" if refusal else "")


def _of_others(host: Host) -> systemd_unit.Unit:
    """The unit without mlnode's drop-ins. Raises HostError."""
    unit = systemd_unit.load(host, IRQBALANCE_UNIT)
    return unit._replace(lines=tuple(line for line in unit.lines if not line.file.startswith(_drop_in(""))))


def _arguments(host: Host, unit: systemd_unit.Unit) -> list[str]:
    """Each line of the unit and of its files of arguments that adds an argument, with its location. Raises
    HostError.
    """
    given = [f"{line.where}: {line.text}" for line in unit.counting("[Service]", "Environment")]
    files = [line.value.lstrip("-") for line in unit.counting("[Service]", "EnvironmentFile")]
    of_files = [
        f"{path}:{number}: {line.strip()}"
        for path in (path for file in files for path in host.matching(file))
        for number, line in enumerate(host.text(path).splitlines(), 1)
        if line.strip() and line.strip()[0] not in "#;"
    ]
    return [*given, *of_files]


def _drop_in(name: str) -> str:
    """Drop-in of a declaration. All have the same content, and removing the last one removes the option."""
    return f"{IRQBALANCE_DROP_INS}{name and f'{name}.conf'}"


def _with_option(service: Service) -> bytes:
    text = (
        "# Written by mlnode.tuning: irqbalance asks a script which interrupts it leaves alone.\n"
        f"[Service]\nExecStart=\nExecStart={service.command} {_OPTION}\n"
    )
    return text.encode("utf-8", "surrogateescape")


# -- the setting ---------------------------------------------------------------------------


def read(setting: Setting, meant: Sequence[str] | None, context: Context) -> Reading:
    """Reading of the setting. meant: PCI functions with declared interrupts; None in an image build."""
    try:
        return _read(setting, meant, context)
    except HostError as error:
        unreadable = Value(unreadable=str(error))
        return Reading(setting.path, unreadable, Boot(unreadable), setting.want)


def _read(setting: Setting, meant: Sequence[str] | None, context: Context) -> Reading:
    host, want = context.host, setting.want or ""
    right = Value(text=want)
    if not installed(host):
        note = f"no {IRQBALANCE_UNIT} is installed that could start"
        return Reading(setting.path, right, Boot(right, "nothing starts it"), want, note=note)
    if want == "leave":
        return _left(setting, context)
    path, wrong = IRQBALANCE_LINK, _enabled(host, context.runtime)
    if want == "agree":
        service = _service(host)
        path, wrong = _drop_in(context.name), _disagreement(host, service, context.name, meant)
        if service.unfit:
            reason = Value(absent=service.unfit)
            return Reading(setting.path, reason, Boot(reason), want)
    if not wrong:
        return Reading(path, right, Boot(right, path), want)
    blocked = "" if context.boot else "irqbalance is configured by files, which are of the layer boot"
    now = Value(text="it moves all interrupts")
    return Reading(path, now, Boot(Value(absent=wrong), path), want, blocked=blocked)


def _left(setting: Setting, context: Context) -> Reading:
    """Reading of `leave`, which is never a deviation; a note warns of moved interrupts."""
    right = Value(text="leave")
    if not active(context.host):
        return Reading(setting.path, right, Boot(right, "nothing starts it"), "leave")
    reason = f"{IRQBALANCE_UNIT} moves interrupts that are declared; declare agree or disable"
    boot = Boot(Value(absent=reason), IRQBALANCE_UNIT, foreign=True)
    return Reading(setting.path, right, boot, "leave", note=reason)


def _enabled(host: Host, may_look: bool) -> str:
    """Reason why irqbalance is not off; empty if it is."""
    starter = IRQBALANCE_LINK
    if not host.is_link(starter):  # From `systemctl enable`; other units may want irqbalance, too
        line = boot_loader.next_line(host) if may_look else None
        starter = systemd_unit.start(host, IRQBALANCE_UNIT, line=line).by
    if starter:
        return f"{starter} starts it"
    return "it runs, though nothing starts it at boot" if may_look and running(host) else ""


def _disagreement(host: Host, service: Service, name: str, meant: Sequence[str] | None) -> str:
    """Reason why irqbalance would move declared interrupts; empty if it would not."""
    path = _drop_in(name)
    if host.content(path) != _with_option(service):
        return f"{path} does not name {IRQBALANCE_POLICY}"
    if host.content(IRQBALANCE_POLICY) != _SCRIPT_BYTES or _lacks_mode(host):
        return f"{IRQBALANCE_POLICY} differs from this version's script, or is not executable"
    if meant is not None and host.content(_list(name)) != _listed(host, name, meant):
        return f"{_list(name)} does not name the NICs that are declared"
    return ""


def _lacks_mode(host: Host) -> bool:
    saved = host.snapshot(IRQBALANCE_POLICY)
    return saved is not None and not int(saved.get("mode", 0)) & 0o100


def _list(name: str) -> str:
    return f"{LISTS}/{name}"


def _listed(host: Host, name: str, meant: Sequence[str]) -> bytes:
    """The new list, with entries of the present list whose devices are absent. A reloaded driver removes its
    NICs and adds them one by one; a restart for each would exceed systemd's limit.
    """
    old = host.text(_list(name)).splitlines()
    gone = (line for line in old if pci.normal(line) == line and not host.exists(f"{pci.DEVICES}/{line}"))
    return "".join(f"{device}\n" for device in sorted({*meant, *gone})).encode("ascii")


# -- the files -----------------------------------------------------------------------------


def files(name: str, rows: Sequence[Row], context: Context) -> list[BootFile]:
    """Files that configure irqbalance or disable it; removed once no declaration needs them. They come before
    all others, as irqbalance moves interrupts until it has read them.
    """
    return [file._replace(first=True) for file in _files(name, rows, context)]


def _files(name: str, rows: Sequence[Row], context: Context) -> list[BootFile]:
    host = context.host
    if not installed(host):
        return []
    row = next((item for item in rows if item.setting.key == BALANCE_KEY), None)
    if row is not None and row.reading.runtime.unreadable is not None:
        return []
    want = row.setting.want if row else None
    if want == "agree":
        service = _service(host)
        if not service.unfit:
            pairs = ((item.setting, item.reading) for item in rows)
            return _agreeing(context, service, name, devices(host, pairs) if context.runtime else None)
    boot_files = _withdrawn(context, name)
    if want == "disable":
        stale = context.runtime and running(host) and not host.is_link(IRQBALANCE_LINK)
        boot_files.append(BootFile(IRQBALANCE_LINK, None, IRQBALANCE_SERVICE, stale))
    return boot_files


def _agreeing(context: Context, service: Service, name: str, meant: Sequence[str] | None) -> list[BootFile]:
    host = context.host
    boot_files = [] if meant is None else [BootFile(_list(name), _listed(host, name, meant), IRQBALANCE)]
    boot_files.append(BootFile(IRQBALANCE_POLICY, _SCRIPT_BYTES, IRQBALANCE, _lacks_mode(host), mode=0o755))
    return [*boot_files, _unit_file(context, name, _with_option(service))]


def _unit_file(context: Context, name: str, content: bytes | None) -> BootFile:
    file = unit_drop_in.drop_in(context, IRQBALANCE_UNIT, _drop_in(name), content)
    return file._replace(notify=IRQBALANCE)


def _withdrawn(context: Context, name: str) -> list[BootFile]:
    """Remove the files of this declaration, and the script if no other declaration needs it."""
    boot_files = [BootFile(_list(name), None, IRQBALANCE), _unit_file(context, name, None)]
    for other in declared.expected(context.host):
        if other.name != name and other.kinds.get(KIND, {}).get("irqbalance") == "agree":
            return boot_files
    return [*boot_files, BootFile(IRQBALANCE_POLICY, None, IRQBALANCE)]


def boot_sources(host: Host) -> list[str]:
    """Every line that starts irqbalance or gives it an argument or a setting."""
    unit = systemd_unit.load(host, IRQBALANCE_UNIT)
    commands = (f"{line.where}: {line.text}" for line in unit.counting("[Service]", "ExecStart"))
    return [*commands, *_arguments(host, unit)]
