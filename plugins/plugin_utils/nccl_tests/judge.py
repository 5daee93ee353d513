# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""From the runs of nccl-tests to a verdict on each of them, on the nodes, and what to run next."""

from __future__ import annotations

import base64
import binascii
import posixpath
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ...module_utils._mlnode.checks.model import Verdict
from ...module_utils._mlnode.model import strict_json
from ...module_utils._mlnode.model.errors import StoreError, printable
from .. import agent_answer
from ..campaign import model
from ..campaign.blame import Certainty, State
from ..fleet_report.names import few
from . import algorithms, bands, bisect, presets, read, stragglers, transport
from .algorithms import Log, Sharp
from .bands import Band, Past
from .facts import Node
from .read import Reading
from .stragglers import Stragglers
from .transport import Transport

LAUNCHERS = ("srun", "mpirun", "ssh")

#: Exit statuses of timeout(1): after its TERM, and after its KILL
_TIMED_OUT = (124, 137)
#: Words of nccl-tests, NCCL and launchers in a failure
_FAILURE = re.compile(
    r"^.*(?:Test \w+ failure|NCCL WARN|[Ee]rror|[Ff]ailed|not found|srun:|invalid).*$", re.MULTILINE
)
#: Characters of a program's output in a message
_LONGEST = 200

#: Fields of the first node's answer in a run
_SAID = ("rc", "cmd", "stdout", "stderr", "msg")


class About(NamedTuple):
    """Options of the playbook. launcher: srun, mpirun or ssh. sizes: in bytes. network: how the name of the
    expected one begins. most: runs, of all groups. times: whether stragglers were asked for. sharp: whether
    the site expects SHARP. limits: those that it declares."""

    launcher: str
    gpus: int
    sizes: tuple[int, ...]
    network: str
    most: int
    times: bool
    timeout: int
    sharp: bool = False
    limits: presets.Declared = {}


def about(given: Mapping[str, Any]) -> About:
    """Raises ValueError and KeyError."""
    launcher = str(given["launcher"])
    if launcher not in LAUNCHERS:
        raise ValueError(f"nccl_launcher is {launcher}, and not one of {', '.join(LAUNCHERS)}")
    least, most = int(given["least"]), int(given["most"])
    if not 4 <= least <= most:
        raise ValueError(f"sizes from {least} to {most} bytes are not a range of sizes from 4 bytes on")
    return About(
        launcher=launcher,
        gpus=int(given["gpus"]),
        # nccl-tests doubles (-f 2) as long as a size is not above the largest one.
        sizes=tuple(least << step for step in range((most // least).bit_length())),
        network=str(given["network"]),
        most=int(given["runs"]),
        times=bool(given["stragglers"]),
        timeout=int(given["timeout"]),
        sharp=bool(given.get("sharp")),
        limits=presets.declared(given.get("limits") or {}),
    )


class Part(NamedTuple):
    """One thing that was judged of a run."""

    name: str
    verdict: Verdict
    reason: str


class Ran(NamedTuple):
    """One run. reading: None without a complete result; `problem` then has the reason. log: NCCL's log.
    connect: None unless the site declares a limit for it. applied: presets that were compared."""

    number: int
    nodes: tuple[str, ...]
    status: int | None
    command: str
    reading: Reading | None
    problem: str
    bands: tuple[Band, ...]
    transport: Transport
    stragglers: Stragglers | None
    verdict: Verdict
    log: Log = Log()
    sharp: Sharp | None = None
    connect: Part | None = None
    applied: tuple[str, ...] = ()

    @property
    def state(self) -> State:
        """Good only if large sizes are proven; without any of these, all that were measured."""
        sizes = [size for band in self.bands for size in band.sizes]
        if any(size.low for size in sizes):
            return State.LOW
        right = all(size.right for size in sizes) and not (self.reading and self.reading.out_of_bounds)
        large = [size for band in self.bands if band.name == "bandwidth" for size in band.sizes]
        proven = bool(sizes) and all(size.proven for size in large or sizes)
        return State.GOOD if right and proven else State.UNKNOWN

    @property
    def parts(self) -> list[Part]:
        """All parts of the verdict, in addition to the bands."""
        parts = [Part("transport", self.transport.verdict, self.transport.reason)]
        if self.stragglers:
            parts.append(Part("stragglers", self.stragglers.verdict, self.stragglers.reason))
        if self.sharp:
            parts.append(Part("sharp", self.sharp.verdict, self.sharp.reason))
        if self.connect:
            parts.append(self.connect)
        if self.reading and self.reading.out_of_bounds:
            parts.append(
                Part("results", Verdict.FAIL, f"{self.reading.out_of_bounds} sizes have wrong results")
            )
        if self.reading and self.reading.errors:
            parts.append(Part("errors", Verdict.WARN, f"NCCL reported: {printable(self.reading.errors[-1])}"))
        if self.log.bind_failed:
            parts.append(Part("nvls", Verdict.WARN, self.log.bind_failed))
        return parts

    @property
    def reason(self) -> str:
        """Reason of the verdict, the worst part first."""
        parts = [(part.verdict, part.reason) for part in self.parts]
        parts += [(band.verdict, f"{band.name}: {band.reason}") for band in self.bands]
        own = [text for verdict, text in parts if verdict is self.verdict and text]
        return self.problem or "; ".join(own)


class Finding(NamedTuple):
    """Verdict on a node, with the reason."""

    verdict: Verdict
    reason: str = ""
    certainty: Certainty | None = None


class Judged(NamedTuple):
    about: About
    nodes: Mapping[str, Node]
    runs: tuple[Ran, ...]
    findings: Mapping[str, Finding]
    search: bisect.Search
    wanted: tuple[tuple[str, ...], ...]

    @property
    def first(self) -> list[Ran]:
        """The run of all nodes; without MPI one of each node."""
        return [run for run in self.runs if self.about.launcher == "ssh" or run.number == 1]

    @property
    def never(self) -> list[str]:
        there = {name for run in self.runs if run.reading for name in run.nodes}
        return [name for name in self.nodes if name not in there]

    @property
    def unused(self) -> dict[str, str]:
        """Declared limits that applied to no run, and SHARP if it is expected but was never judged; each with
        the missing condition."""
        applied = {name for run in self.runs for name in run.applied}
        unused = {name: presets.missing(name) for name in self.about.limits if name not in applied}
        if self.about.sharp and not any(run.sharp for run in self.runs):
            unused["sharp"] = "it takes runs of several nodes"
        return unused

    @property
    def coverage(self) -> Verdict:
        return Verdict.UNKNOWN if self.never or self.unused else Verdict.PASS

    @property
    def verdict(self) -> Verdict:
        paths = [
            Verdict.WARN if certainty is Certainty.CLEARED else Verdict.FAIL
            for certainty in self.search.blame.paths.values()
        ]
        own = [finding.verdict for finding in self.findings.values()]
        return model.worst([*(run.verdict for run in self.first), *own, *paths, self.coverage])


def judge(nodes: Mapping[str, Node], raw: Sequence[Mapping[str, Any]], about: About, past: Past) -> Judged:
    runs = [_read(run, nodes, about) for run in raw]
    # A run is not compared with itself.
    judged = tuple(
        _judged(run, nodes, about, _merged(past, [other for other in runs if other is not run]))
        for run in runs
    )
    taking = [name for name, node in nodes.items() if not node.problem]
    states = {tuple(sorted(run.nodes)): run.state for run in judged}
    # Another network than expected is the reason, and nodes by themselves have no groups.
    known = about.launcher == "ssh" or any(run.transport.verdict is Verdict.FAIL for run in judged)
    search = bisect.search(taking, {} if known else states)
    wanted = search.wanted[: max(0, about.most - len(judged))]
    return Judged(about, nodes, judged, _nodes(nodes, judged, search), search, wanted)


def _merged(past: Past, runs: Iterable[Ran]) -> Past:
    values = {key: [*known] for key, known in past.items()}
    for run in runs:
        for row in run.reading.rows if run.reading else ():
            ranks = run.reading.ranks if run.reading else 0
            key = (len(run.nodes), ranks, row.size, run.log.compared(row.size))
            slower = max(row.out_of_place, row.in_place)
            values.setdefault(key, []).append(bands.gbits(slower, row.size, ranks))
    return values


def past(documents: Mapping[str, str]) -> Past:
    """Earlier results by the number of nodes, of GPUs and bytes. documents: path → content; other kinds are
    left out. Raises ValueError for a damaged one."""
    values: dict[bands.Key, list[float]] = {}
    for path, content in documents.items():
        try:
            (document,) = strict_json.typed(
                {"": strict_json.loads(content, path, most=read.MOST)}, {"": dict}
            )
            # Documents without `nccl` are campaigns.
            for run in document["runs"] if "nccl" in document else ():
                for size in (size for band in run["bands"] for size in band["sizes"]):
                    taken = dict.fromkeys(str(choice["algorithm"]) for choice in size["choices"])
                    forced = str(run["algorithms"]["forced"])
                    algorithm = "+".join(taken) or forced
                    key = (len(run["nodes"]), int(run["ranks"]), int(size["bytes"]), algorithm)
                    values.setdefault(key, []).append(float(size["bus_gbits"]))
        except StoreError as error:
            raise ValueError(str(error)) from error
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{path} is not a result of nccl.yml: {error!r}: move it away") from error
    return values


# -- one run ------------------------------------------------------------------------------------------


def _read(raw: Mapping[str, Any], nodes: Mapping[str, Node], about: About) -> Ran:
    """Without a verdict."""
    names = tuple(str(name) for name in raw["nodes"])
    said = {name: raw[name] for name in _SAID if raw.get(name) is not None}
    own = agent_answer.of_task("command", said)
    status = own.get("rc")
    logs = {str(name): str(log or "") for name, log in (raw.get("logs") or {}).items()}
    stdout, stderr = (own.get(key, "") for key in ("stdout", "stderr"))
    words = own.get("cmd") or ()
    command = words if isinstance(words, str) else " ".join(words)
    problem, reading = "", None
    try:
        if status is not None and posixpath.dirname(str(raw["path"])) not in command:
            raise ValueError("the answer of its first node is from another run")
        reading = read.read(stdout, _content(raw.get("json")), str(raw["path"]))
        _complete(reading, [nodes[name] for name in names], about.gpus)
        if status != 0 and not reading.out_of_bounds:
            reading, problem = None, f"it ended with {status}"
    except ValueError as error:
        reading, problem = None, printable(str(error))
    if status in _TIMED_OUT:
        reading, problem = None, f"it ran past {about.timeout} s"
    elif problem:
        problem = printable("; ".join([problem, *_said(stdout, f"{stderr}\n{own.get('msg', '')}")]))
    # Without a result nothing was proven, and a log may still say why.
    moved = transport.judge(logs, names, about.network)
    log = algorithms.read(logs.get(name, "") for name in names)
    return Ran(
        int(raw["number"]), names, status, command, reading, problem, (), moved, None, Verdict.UNKNOWN, log
    )


def _said(stdout: str, stderr: str) -> list[str]:
    """Most specific line of a failure, or else the last line of stderr; none without output."""
    lines = _FAILURE.findall(f"{stdout}\n{stderr}")[:1] or stderr.split("\n")[::-1]
    return [" ".join(line.split())[:_LONGEST] for line in lines if line.strip()][:1]


def _content(encoded: Any) -> str | None:
    """Content of a file in base64. Raises ValueError."""
    if encoded is None:
        return None
    try:
        return base64.b64decode(str(encoded), validate=True).decode("utf-8")
    except (binascii.Error, UnicodeDecodeError) as error:
        raise ValueError(f"the file of nccl-tests is damaged: {error}") from error


def _complete(reading: Reading, nodes: Sequence[Node], gpus: int) -> None:
    """Raises ValueError unless all nodes took part, each with all of its GPUs."""
    planned, there = {node.hostname for node in nodes}, {device.hostname for device in reading.devices}
    if planned != there:
        missing, others = sorted(planned - there), sorted(there - planned)
        parts = [f"{few(missing)} did not take part"] if missing else []
        parts += [f"{few(others)} took part in its place"] if others else []
        raise ValueError("; ".join(parts))
    if reading.ranks != len(nodes) * gpus:
        raise ValueError(f"{reading.ranks} GPUs took part, of {len(nodes) * gpus}")


def _judged(ran: Ran, nodes: Mapping[str, Node], about: About, known: Past) -> Ran:
    ran = ran._replace(sharp=algorithms.sharp(ran.log, about.sizes, len(ran.nodes), about.sharp))
    if ran.reading is None:
        # A network that was refused or is another one is a finding without any number, and so is SHARP.
        failed = any(part.verdict is Verdict.FAIL for part in ran.parts)
        return ran._replace(verdict=Verdict.FAIL if failed else Verdict.UNKNOWN)
    group = _group(ran, ran.reading, [nodes[name] for name in ran.nodes], about, known)
    own_bands = tuple(bands.judge(ran.reading.rows, group))
    compared = {limit.name for band in own_bands for size in band.sizes for limit in size.limits}
    # Only the first run asks for times: times of all processes and iterations are most of its result.
    late = stragglers.judge(ran.reading) if about.times and ran.number == 1 else None
    ran = ran._replace(bands=own_bands, stragglers=late, connect=_connect(ran.log, about))
    applied = (*compared.intersection(about.limits), *([presets.CONNECT] if ran.connect else []))
    verdict = model.worst([*(band.verdict for band in own_bands), *(part.verdict for part in ran.parts)])
    return ran._replace(verdict=verdict, applied=applied)


def _group(ran: Ran, reading: Reading, own: Sequence[Node], about: About, known: Past) -> bands.Group:
    # NVLink between nodes passes the rails by.
    crosses = len(own) > 1 and not any(seen.local.get("MNNVL") for seen in ran.transport.nodes.values())
    links = bands.of_links(own, about.gpus) if crosses else None
    nvlink = min((node.nvlink for node in own if node.nvlink), default=None)
    shape = presets.Shape(len(own), reading.ranks, links.carried if links else None, nvlink)
    return bands.Group(
        ranks=reading.ranks,
        nodes=len(own),
        asked=about.sizes,
        links=links,
        log=ran.log,
        past=known,
        presets=presets.bounds(about.limits, shape),
        sharp=about.sharp or ran.log.declared,
    )


def _connect(log: Log, about: About) -> Part | None:
    """Time of the slowest rank to make the communicator, against the limit that the site declares."""
    most = about.limits.get(presets.CONNECT)
    if most is None or log.slowest is None:
        return None
    slow = log.slowest
    verdict = Verdict.FAIL if slow.seconds > most else Verdict.PASS
    return Part("connect", verdict, f"{slow}, over {most:g} s" if slow.seconds > most else "")


# -- the nodes ------------------------------------------------------------------------------------------


def _nodes(nodes: Mapping[str, Node], runs: Sequence[Ran], search: bisect.Search) -> dict[str, Finding]:
    good = {name for run in runs if run.state is State.GOOD for name in run.nodes}
    low = {name for run in runs if run.state is State.LOW for name in run.nodes}
    return {name: _node(node, search, name in good, name in low) for name, node in nodes.items()}


def _node(node: Node, search: bisect.Search, good: bool, low: bool) -> Finding:
    if node.problem:
        return Finding(Verdict.UNKNOWN, node.problem)
    dead = [rail.device for rail in node.rails if not rail.active]
    if dead:
        return Finding(Verdict.FAIL, f"not all of its rails are active: {', '.join(dead)}", Certainty.CERTAIN)
    own = search.blame.ends.get(node.name)
    if own and own.certainty is not None:
        reason = f"low with {own.tally.low} of {own.tally.measured} nodes, pair by pair"
        if good:
            return Finding(Verdict.WARN, f"{reason}, and in a group that is good", Certainty.CLEARED)
        return Finding(own.verdict, reason, own.certainty)
    if good:
        return Finding(Verdict.PASS)
    return Finding(Verdict.UNKNOWN, "in a group that is low" if low else "no result proves it")
