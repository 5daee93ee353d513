# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""irqbalance beside declared interrupts: it is made to leave them alone, or switched off (irqbalance(1)).

It asks a policy script about every interrupt it finds, at its start and as new ones appear. The script is the
same everywhere; which NICs are meant is in one list per declaration, written on the machine it is for.
"""

from __future__ import annotations

import re
from typing import Iterable, Sequence

from ...engine import declared, edited_file
from ...engine.handlers import IRQBALANCE, IRQBALANCE_SERVICE
from ...engine.kind import Context, Row
from ...host import places
from ...host.host import Host
from ...linux import systemd_conf, systemd_unit
from ...linux.irqbalance import IRQBALANCE_LINK, IRQBALANCE_POLICY, IRQBALANCE_UNIT
from ...loader import boot_loader
from ...model.errors import HostError
from ...model.record import NamedTuple, regex
from ...model.setting import Boot, BootFile, Reading, Setting, Value
from ...topology import pci
from ..nics import ports
from .parse import BALANCE_KEY, KIND, RuleSetting

#: Loaded by its name where a file is written that others edit, too: this area has it sent along
BRINGS = (edited_file,)

LISTS = "/etc/mlnode/irqbalance.d"

#: The service's own folder, as cgroup v2 and v1 show it; there while it runs
_RUNNING = (
    f"/sys/fs/cgroup/system.slice/{IRQBALANCE_UNIT}",
    f"/sys/fs/cgroup/systemd/system.slice/{IRQBALANCE_UNIT}",
)

_VARIABLE = "IRQBALANCE_ARGS"
_OPTION = f"--policyscript={IRQBALANCE_POLICY}"
_BEGIN = "# BEGIN mlnode.tuning: irqbalance leaves alone what is declared; other arguments are kept"
_END = "# END mlnode.tuning"
_BLOCK = regex(rf"\n?{re.escape(_BEGIN)}\n.*?{re.escape(_END)}(?:\n|\Z)", re.DOTALL)
#: Arguments that can be copied without a thought about quotes (systemd.exec(5), EnvironmentFile)
_PLAIN = regex(r"[A-Za-z0-9_./:=,@%+ -]*\Z", re.ASCII)
#: A value that ends on its own line: words in quotes that are closed, and then what has none. systemd takes
#: quotes for such only where a value or a further word of it begins.
_WHOLE = regex(r"""(?:\s*(?:"(?:[^"\\]|\\.)*"|'[^']*'))*\s*(?:[^\s"'].*)?\Z""")
_OTHER_SCRIPT = regex(r"(?:^|\s)(?:--policyscript|-l)\b")

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
    """The way in which irqbalance gets its arguments.

    file: the one in /etc that counts. arguments: those that are not mlnode's.
    unfit: why it cannot be configured through that file; empty if it can.
    """

    file: str = ""
    arguments: str = ""
    unfit: str = ""


def installed(host: Host) -> bool:
    """False too where the unit is masked, so that nothing starts it."""
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
    """elsewhere: what another declaration says about it."""
    if not active(host) or elsewhere in ("leave", "disable"):  # which is reported there
        return ""
    if elsewhere == "agree":
        lists = (host.value(_list(name)).text or "" for name in host.names(LISTS))
        if {*meant} <= {line for text in lists for line in text.splitlines()}:
            return ""
        return f"{IRQBALANCE_UNIT} moves interrupts: declare irqbalance: agree beside these rules, too"
    return f"{IRQBALANCE_UNIT} moves interrupts: declare irqbalance as agree or disable"


def devices(host: Host, pairs: Iterable[tuple[Setting, Reading]]) -> tuple[str, ...] | None:
    """The PCI functions whose interrupts are declared, for irqbalance to leave alone; None: unknown.

    Those of NICs that are down as well, so that a list does not come and go with a link.
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
    """Raises HostError where a file of arguments cannot be read."""
    files: list[str] = []
    command = ""
    for line in systemd_unit.load(host, IRQBALANCE_UNIT).lines:
        if line.key == "EnvironmentFile":
            files = [*files, line.value.lstrip("-")] if line.value else []
        elif line.key == "ExecStart":
            command = line.value
        elif line.key == "Environment" and _VARIABLE in line.value:
            return Service(unfit=f"{IRQBALANCE_UNIT} sets {_VARIABLE} itself")
    if not files or not places.may_write(files[-1]) or not re.search(rf"\$\{{?{_VARIABLE}\b", command):
        return Service(unfit=f"{IRQBALANCE_UNIT} takes no {_VARIABLE} from a file in /etc that is its own")
    arguments, unfit = "", ""
    for path in files:
        own = _without_block(host.text(path))
        own_arguments = _assigned(own)
        arguments = arguments if own_arguments is None else own_arguments
        unfit = unfit if _closed(own) else f"a value in {path} goes on beyond its line"
    if unfit:
        pass
    elif not _PLAIN.match(arguments):
        unfit = f"{_VARIABLE} in {files[-1]} has quotes or backslashes inside"
    elif _OTHER_SCRIPT.search(arguments):
        unfit = f"{_VARIABLE} in {files[-1]} names a policy script of its own"
    return Service(files[-1], arguments, unfit)


def _assigned(text: str) -> str | None:
    """The last value that a file of arguments gives, without its quotes; None where it gives none."""
    arguments = None
    for line in text.splitlines():
        name, equals, value = line.strip().partition("=")
        if equals and name.rstrip() == _VARIABLE:
            arguments = value.strip()
            if len(arguments) > 1 and arguments[0] == arguments[-1] and arguments[0] in "'\"":
                arguments = arguments[1:-1]
    return arguments


def _closed(text: str) -> bool:
    """True if every value ends on its own line: one that does not would swallow a block that follows."""
    lines = (line.strip().partition("=") for line in text.splitlines())
    values = [value for name, _equals, value in lines if name[:1] not in "#;"]
    return all(_WHOLE.match(value) and not value.endswith("\\") for value in values)


def _without_block(text: str) -> str:
    return _BLOCK.sub("", text)


def without_block(host: Host) -> list[tuple[str, str]]:
    """The file of arguments with a block of mlnode, and its text without it. Raises HostError."""
    path = _service(host).file
    text = host.text(path) if path else ""
    return [(path, _without_block(text))] if _BEGIN in text else []


def _with_block(text: str, arguments: str) -> str:
    own = _without_block(text)
    value = f"{arguments} {_OPTION}".strip()
    gap = "" if own.endswith("\n") or not own else "\n"
    return f'{own}{gap}\n{_BEGIN}\n{_VARIABLE}="{value}"\n{_END}\n'


# -- the setting ---------------------------------------------------------------------------


def read(setting: Setting, meant: Sequence[str] | None, context: Context) -> Reading:
    """meant: the PCI functions whose interrupts are declared; None where no hardware may be read."""
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
        path, wrong = service.file, _disagreement(host, service, context.name, meant)
        if service.unfit:
            reason = f"{service.unfit}: give it {_OPTION} there by hand and declare leave, or declare disable"
            return Reading(setting.path, Value(absent=reason), Boot(Value(absent=reason)), want)
    if not wrong:
        return Reading(path, right, Boot(right, path), want, native=True)
    blocked = "" if context.boot else "irqbalance is configured by files, which are of the layer boot"
    now = Value(text="it moves all interrupts")
    return Reading(path, now, Boot(Value(absent=wrong), path), want, blocked=blocked, native=True)


def _left(setting: Setting, context: Context) -> Reading:
    """Always as declared; a note reports if it undoes what else is declared."""
    right = Value(text="leave")
    if not active(context.host):
        return Reading(setting.path, right, Boot(right, "nothing starts it"), "leave")
    reason = f"{IRQBALANCE_UNIT} moves interrupts that are declared; declare agree or disable"
    boot = Boot(Value(absent=reason), IRQBALANCE_UNIT, foreign=True)
    return Reading(setting.path, right, boot, "leave", note=reason)


def _enabled(host: Host, may_look: bool) -> str:
    """Reason why irqbalance is not off; empty if it is."""
    starter = IRQBALANCE_LINK
    if not host.is_link(starter):  # the one that `systemctl enable` makes; others may want it, too
        line = boot_loader.next_line(host) if may_look else None
        starter = systemd_unit.start(host, IRQBALANCE_UNIT, line=line).by
    if starter:
        return f"{starter} starts it"
    return "it runs, though nothing starts it at boot" if may_look and running(host) else ""


def _disagreement(host: Host, service: Service, name: str, meant: Sequence[str] | None) -> str:
    """Reason why irqbalance would move what is declared; empty if it would not."""
    text = host.text(service.file) if service.file else ""
    if text != _with_block(text, service.arguments):
        return f"{service.file} does not name {IRQBALANCE_POLICY}"
    if host.content(IRQBALANCE_POLICY) != _SCRIPT_BYTES or _lacks_mode(host):
        return f"{IRQBALANCE_POLICY} is not what this version writes, or cannot be executed"
    if meant is not None and host.content(_list(name)) != _listed(host, name, meant):
        return f"{_list(name)} does not name the NICs that are declared"
    return ""


def _lacks_mode(host: Host) -> bool:
    saved = host.snapshot(IRQBALANCE_POLICY)
    return saved is not None and not int(saved.get("mode", 0)) & 0o100


def _list(name: str) -> str:
    return f"{LISTS}/{name}"


def _listed(host: Host, name: str, meant: Sequence[str]) -> bytes:
    """With those of the present list that are not there: a driver that is reloaded takes its NICs away and
    brings them back one by one, and a restart at each of them would be more than systemd allows."""
    old = host.text(_list(name)).splitlines()
    gone = (line for line in old if pci.normal(line) == line and not host.exists(f"{pci.DEVICES}/{line}"))
    return "".join(f"{device}\n" for device in sorted({*meant, *gone})).encode("ascii")


# -- the files -----------------------------------------------------------------------------


def files(name: str, rows: Sequence[Row], context: Context) -> list[BootFile]:
    """Files that configure irqbalance or switch it off; removed once no declaration wants them. First of all,
    as it goes on to move interrupts until it has read them."""
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
            return _agreeing(host, service, name, devices(host, pairs) if context.runtime else None)
    boot_files = _withdrawn(host, name)
    if want == "disable":
        stale = context.runtime and running(host) and not host.is_link(IRQBALANCE_LINK)
        boot_files.append(BootFile(IRQBALANCE_LINK, None, IRQBALANCE_SERVICE, stale))
    return boot_files


def _agreeing(host: Host, service: Service, name: str, meant: Sequence[str] | None) -> list[BootFile]:
    boot_files = [] if meant is None else [BootFile(_list(name), _listed(host, name, meant), IRQBALANCE)]
    boot_files.append(BootFile(IRQBALANCE_POLICY, _SCRIPT_BYTES, IRQBALANCE, _lacks_mode(host), mode=0o755))
    text = _with_block(host.text(service.file), service.arguments)
    return [*boot_files, BootFile(service.file, _bytes(text), IRQBALANCE)]


def _withdrawn(host: Host, name: str) -> list[BootFile]:
    """Without this declaration's list, and without all the rest if no other declaration wants it."""
    boot_files = [BootFile(_list(name), None, IRQBALANCE)]
    for other in declared.expected(host):
        if other.name != name and other.kinds.get(KIND, {}).get("irqbalance") == "agree":
            return boot_files
    try:
        path = _service(host).file
        text = host.text(path) if path else ""
    except HostError:
        if host.exists(IRQBALANCE_POLICY):
            raise
        return boot_files  # a file that mlnode cannot read has no block of mlnode
    boot_files.append(BootFile(IRQBALANCE_POLICY, None, IRQBALANCE))
    if _BEGIN in text:
        boot_files.append(BootFile(path, _bytes(_without_block(text)) or None, IRQBALANCE))
    return boot_files


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def boot_sources(host: Host) -> list[str]:
    """Every line that gives irqbalance an argument or a setting."""
    sources = []
    unit = systemd_unit.load(host, IRQBALANCE_UNIT)
    for path in [line.value.lstrip("-") for line in unit.lines if line.key == "EnvironmentFile"]:
        lines = host.text(path).splitlines() if path else []
        sources += [
            f"{path}:{number}: {line}"
            for number, line in enumerate(lines, 1)
            if line.startswith("IRQBALANCE_")
        ]
    return sources
