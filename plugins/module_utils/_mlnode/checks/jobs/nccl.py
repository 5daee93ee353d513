# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Variables of NCCL as a job takes them: from its environment, then from NCCL's files in its mount namespace.

NCCL reads the file that NCCL_CONF_FILE names, or else .nccl.conf in the home folder, and then /etc/nccl.conf;
RCCL reads .rccl.conf and /etc/rccl.conf. The first value of a variable counts (src/misc/param.cc: initEnv).
The home folder is the account's, and from 2.30 on HOME; the version of a process is not known.
The kernel shows the environment at the start of the process; a program may change it later.
"""

from __future__ import annotations

from typing import Iterator, Mapping, Sequence

from ...engine.kind import Context, Facts
from ...knobs.nccl import environment, file, lint, names, reading, schema, values
from ...knobs.nccl.jobs import Assigned, lost
from ...knobs.nccl.kind import UNSET, kind
from ...knobs.nccl.parse import name_of
from ...model.errors import HostError, MlnodeError, listed, printable
from ...model.record import NamedTuple
from ...model.setting import Severity, Value
from ...topology.nics import NETS
from ..model import Check, Verdict
from . import ranks, remedy
from .model import Node, Place, Process

NAME, VALUES, UNREAD = "job_nccl", "job_nccl_values", "job_nccl_files"

CONF_FILE = "NCCL_CONF_FILE"
#: Name of a library that gives NCCL from 2.28 on all values in its own way, or none (src/plugin/env.cc)
_PLUGIN = "NCCL_ENV_PLUGIN"
_REFERENCE = "NCCL user guide, Environment Variables"
_REASON = "NCCL takes another value, or less of the hardware, without a word at NCCL_DEBUG=WARN"
#: Name in `unknown` for all variables of NCCL
_FILES = "nccl files"
_UNREAD = "a file that NCCL reads may set any of its variables"


class _Taken(NamedTuple):
    """Value of a variable, and its source. value: None if only the name was read."""

    value: str | None
    where: str

    @property
    def of_job(self) -> bool:
        """True if the job's own environment has it."""
        return self.where == _ENVIRONMENT


_ENVIRONMENT = "its environment"


def conf_paths(process: Process, home: Value, conf: str) -> list[str]:
    """Files that any NCCL reads in this process, in its order. home: folder of its account. conf: file for
    all users."""
    chosen = process.variable(CONF_FILE)
    if chosen:
        return [chosen, conf]
    folders = [folder for folder in (home.text, process.variable("HOME")) if folder is not None]
    return [*dict.fromkeys(f"{folder.rstrip('/')}/{file.home_name(conf)}" for folder in folders), conf]


def agreed(process: Process, home: Value, confs: Mapping[str, Value]) -> Mapping[str, Value]:
    """The files in force, of those that conf_paths() names. If versions of NCCL differ in what they read in a
    home folder, or the one of its account is not known, that is unreadable."""
    *own, conf = confs
    if home.unreadable is not None and not process.variable(CONF_FILE):
        return {f"~/{file.home_name(conf)}": home, **confs}
    unread = process.environment.unknown or any(confs[path].unreadable is not None for path in own)
    if not own or process.variable(CONF_FILE) or unread:
        return confs
    texts = {confs[path].text for path in own} | ({None} if process.variable("HOME") is None else set())
    if len(texts) == 1:
        return {own[0]: confs[own[0]], conf: confs[conf]}
    words = "NCCL before 2.30 reads the file in the home folder of the account, later ones the one in HOME"
    return {**confs, own[-1]: Value(unreadable=words)}


def taken(place: Place, process: Process, wants: Mapping[str, str]) -> dict[str, _Taken]:
    """Variables of NCCL in force in a process. wants: the declared ones."""
    variables = process.environment.variables
    variables_taken = {
        name: _Taken(value, _ENVIRONMENT) for name, value in variables.items() if _is_nccl(name)
    }
    for path, content in place.confs.items():
        for line in file.parse(content.text or "").lines:
            shown = ranks.known(line.name, wants) if _is_nccl(line.name) else None
            if shown is not None:
                value = line.value[: values.LONGEST] if shown else None
                variables_taken.setdefault(line.name, _Taken(value, printable(f"{path}:{line.number}")))
    return variables_taken


def _is_nccl(name: str) -> bool:
    return environment.is_name(name)


def checks(place: Place, node: Node) -> Iterator[Check]:
    wants = declared(node)
    groups: dict[tuple[tuple[str, _Taken], ...], list[Process]] = {}
    for process in place.processes:
        variables = taken(place, process, wants)
        _keep(place, process, variables)
        groups.setdefault(tuple(sorted(variables.items())), []).append(process)
    for path, content in place.confs.items():
        if content.unreadable is not None:
            subject = place.subject(
                UNREAD, source=printable(path), severity=Severity.MEDIUM, reason=_UNREAD, reference=_REFERENCE
            )
            yield subject.unknown(printable(content.unreadable))
    for group, processes in groups.items():
        yield from _group(place, node, dict(group), processes, wants)


def _keep(place: Place, process: Process, variables: Mapping[str, _Taken]) -> None:
    """Values for a comparison with other ranks."""
    unread = _unread(place, process)
    if process.environment.unknown:
        process.unknown["environment"] = printable(process.environment.unknown)
    elif unread:
        process.unknown[_FILES] = printable(unread)
    for name, used in _sure(variables, unread).items():
        if used.value is not None and ranks.compared(name):
            process.values[f"nccl {name}"] = printable(used.value)
    for name, value in process.environment.variables.items():
        if value is not None and ranks.compared(name) and not _is_nccl(name):
            process.values[f"env {name}"] = printable(value)


def _group(
    place: Place,
    node: Node,
    variables: Mapping[str, _Taken],
    processes: Sequence[Process],
    wants: Mapping[str, str],
) -> Iterator[Check]:
    """Checks of the processes with the same variables."""
    target = place.target(processes)
    unread = _unread(place, processes[0])
    good: list[str] = []
    plugin = variables.get(_PLUGIN)
    given = plugin.value if plugin and (plugin.value or "").casefold() not in ("", "none") else None
    for name, want in wants.items():
        used = variables.get(name)
        if given is None or name == _PLUGIN:
            check = _compared(place, name, want, used, unread, target)
        else:
            words = f"{name} is not known: {_PLUGIN} {printable(given)} may give another value"
            check = place.subject(NAME, target=target, expected=want).unknown(words)
        if check is None:
            good.append(name)
        else:
            yield check
    subject = place.subject(NAME, target=target, source=place.conf)
    if good:
        yield subject.made(Verdict.PASS, listed(good), expected="as declared")
    if not wants:
        yield node.undeclared(subject, "no variable of NCCL is declared")
    yield from _lint(place, node, _sure(variables, unread), processes, unread)


def _unread(place: Place, process: Process) -> str:
    """Why a source of variables is not known; empty if all were read."""
    if process.environment.unknown:
        return f"its environment: {process.environment.unknown}"
    problems = [value.unreadable for value in place.confs.values() if value.unreadable is not None]
    return "; ".join(problems)


def _sure(variables: Mapping[str, _Taken], unread: str) -> Mapping[str, _Taken]:
    """Variables that no unread source overrides."""
    return {name: used for name, used in variables.items() if used.of_job or not unread}


def _compared(
    place: Place, name: str, want: str, used: _Taken | None, unread: str, target: str
) -> Check | None:
    """Check of one declared variable; None if it is as declared."""
    info = kind.info(f"{kind.KIND}.{name}", Value())
    subject = place.subject(
        NAME, target=target, source=used.where if used else place.conf, expected=want,
        severity=info.severity, reason=info.reason, reference=info.source,
    )  # fmt: skip
    if unread and not (used and used.of_job):
        return subject.unknown(f"{name} is not known: {printable(unread)}")
    if used is None:
        return subject.made(Verdict.FAIL, f"{name} is not set", advice=remedy.nccl_file(place))
    if used.value is None:
        return subject.unknown(f"{name} is set, and its value is not read, as it may be a secret")
    if _same(name, used.value, want):
        return None
    evidence = f"{name}={printable(used.value)} from {used.where}"
    if used.of_job:
        advice = f"remove {name} from the job's environment, unless it was set on purpose"
        return subject.made(Verdict.WARN, evidence, advice=advice)
    return subject.made(Verdict.FAIL, evidence, advice=remedy.nccl_file(place))


def _same(name: str, text: str, want: str) -> bool:
    known = names.KNOWN.get(name)
    if known is None or not text:
        return text == want
    if reading.is_number(name):  # with anything behind it, such as the end of a line of Windows
        return str(reading.strtoll(text)) == want
    try:
        return values.check(known.check).spelled(text) == want
    except ValueError:
        return text == want


def _lint(
    place: Place, node: Node, variables: Mapping[str, _Taken], processes: Sequence[Process], unread: str
) -> Iterator[Check]:
    """Findings about values that NCCL misreads, that take away hardware, or that no version of it knows."""
    target = place.target(processes)
    lines = [
        Assigned(name, used.value if used.value is not None else "", used.where, "", True)
        for name, used in variables.items()
    ]
    for path, content in place.confs.items():
        lines += lost(printable(path), content.text or "")
    subject = place.subject(
        VALUES, target=target, source=f"/proc/{processes[0].pid}/environ and {place.conf}",
        severity=Severity.MEDIUM, reason=_REASON, reference=_REFERENCE,
    )  # fmt: skip
    if unread:
        yield subject.unknown(f"not all variables are known: {printable(unread)}")
    if not lines and not unread:
        yield subject.skip("it sets no variable of NCCL")
        return
    try:
        nics = place.network.nics
        here = lint.node(node.topology, node.host.names(NETS) if nics is None else nics)
    except HostError as error:
        yield subject.unknown(str(error))
        return
    bad = lint.findings(lines, here)
    for evidence in bad:
        line = evidence.line
        shown = f"={line.value}" if line.value else ""
        yield subject.judged(
            False, printable(f"{line.name}{shown}: {evidence.problem}"), source=line.where,
            advice=printable(evidence.advice), bad=Verdict.FAIL if evidence.sure else Verdict.WARN,
        )  # fmt: skip
    if not bad and not unread:
        yield subject.judged(True, f"{len(lines)} set: {listed(sorted(variables))}")


def declared(node: Node) -> dict[str, str]:
    """Declared variables, with the values of `auto`; those that are left out here are not in it."""
    return node.host.once("declared variables of NCCL", lambda: _declared(node))


def _declared(node: Node) -> dict[str, str]:
    wants: dict[str, str] = {}
    for declaration in node.declarations:
        try:
            spec = declaration.checked_spec(kind.KIND, schema.OPTIONS)
            context = Context(node.host, Facts(node.host), declaration.name, spec=spec)
            settings = kind.parse(spec, context.facts)
            for setting, reading in zip(settings, kind.read(settings, context)):
                if reading.want is not None and reading.want != UNSET:
                    wants.setdefault(name_of(setting.key), reading.want)
        except MlnodeError as error:
            node.unclear(declaration, kind.KIND, error)
    return wants
