# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Link state from the firmware of NVIDIA's NICs: faults, bit error rates, cable or transceiver.

No kernel file shows it. The tool is mlxlink of MFT, or mstlink, the same tool from mstflint; both read
registers of the card and change nothing. Titles and keys of its JSON: mlxlink/modules of mstflint.
"""

from __future__ import annotations

import json
import re
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Mapping, Sequence

from ...host.host import Host
from ...model.errors import HostError
from ...model.record import dataclass, regex
from ...topology.model import Topology
from ..expect import Expectations
from ..model import Check, Subject, Verdict
from ..rdma_limits import BER
from . import ports as rdma_ports
from .ports import Port

NAMES = ("link_report", "ber", "cable")

#: MFT's tool first: if both are installed, it is newer
TOOLS = ("/usr/bin/mlxlink", "/usr/bin/mstlink")

#: PCI vendor of all cards with these registers
_VENDOR = 0x15B3

#: Seconds. It answers in one or two; a card during a reset does not answer at all
_SECONDS = 20.0

_OPERATION, _TROUBLE, _ERRORS, _MODULE = (
    "Operational Info",
    "Troubleshooting Info",
    "Physical Counters and BER Info",
    "Module Info",
)

_HEALTHY = "No issue was observed"

#: 15E-255; other versions print 0 or 1.5E-254
_RATE = regex(r"[0-9]{1,18}(?:\.[0-9]{1,18})?(?:[eE]-?[0-9]{1,3})?\Z", re.ASCII)

#: Keys that identify a cable, in this order
_WORDS = ("Identifier", "Cable Type", "Vendor Name", "Vendor Part Number", "Vendor Serial Number")

#: Most characters of an EEPROM's text in a message: it may contain anything
_LONGEST = 60


@dataclass(frozen=True)
class Report:
    """The tool's report about a port: title → key → text. problem: why it is empty.

    command: for people.
    """

    command: str
    sections: Mapping[str, Mapping[str, str]]
    problem: str = ""

    def text(self, title: str, key: str) -> str:
        """Text of a key; "" if the key is missing or its value is a placeholder."""
        value = self.sections.get(title, {}).get(key, "").strip()
        return "" if value in ("N/A", "Unidentified") else value


def checks(host: Host, topology: Topology, expect: Expectations) -> list[Check]:
    ports = [port for port in rdma_ports.subjects(topology, expect).ports if _has_registers(port, topology)]
    if not ports:
        return [Subject(name).skip("no port is judged that mlxlink knows") for name in NAMES]
    tool = next((path for path in TOOLS if host.exists(path)), "")
    if not tool:
        return _without(ports)
    with ThreadPoolExecutor(len(ports)) as pool:
        reports = list(pool.map(lambda port: ask(host, tool, port), ports))
    return [
        check
        for port, report in zip(ports, reports)
        for check in (_report(port, report), _ber(port, report), _cable(port, report))
    ]


def _has_registers(port: Port, topology: Topology) -> bool:
    """A virtual function has none: the link belongs to the physical function."""
    function = rdma_ports.function_of(port.device, topology)
    return function is not None and function.vendor == _VENDOR and not function.physfn


def _without(ports: Sequence[Port]) -> list[Check]:
    """Skips for the node, and unknown for each port with a declared value that only the tool can read."""
    why, source = "neither mlxlink (MFT) nor mstlink (mstflint) is installed", ", ".join(TOOLS)
    declared = [
        Subject("ber", port.name, source, _wanted(port)).unknown(why)
        for port in ports
        if "ber" in port.expect
    ]
    names = [name for name in NAMES if name != "ber" or not declared]
    return [*(Subject(name, source=source).skip(why) for name in names), *declared]


# -- asking the tool ------------------------------------------------------------------------


def ask(host: Host, tool: str, port: Port) -> Report:
    """Report about a port. Never raises: problem describes a tool that hangs, fails or prints nonsense."""
    command = [tool, "-d", port.device.address or "", "-m", "-c", "--json"]
    # The function has this port; only functions with two ports accept a second number.
    command += ["-p", str(port.number)] if port.number > 1 else []
    shown = " ".join(command)
    try:
        text = host.must_run(command, "ask", _SECONDS)
        return Report(shown, _sections(text))
    except (HostError, ValueError) as error:
        return Report(shown, {}, str(error))


def _sections(text: str) -> dict[str, dict[str, str]]:
    """Sections of the tool's JSON: texts only, without lists per lane. Raises ValueError."""
    try:
        document: Any = json.loads(text)
        code = document.get("status", {}).get("code", 0)
        if code:
            raise ValueError(f"it ended with {document['status'].get('message') or code!r:.{_LONGEST}}")
        output = document["result"]["output"]
        return {
            str(title): {str(key): value for key, value in section.items() if isinstance(value, str)}
            for title, section in output.items()
            if isinstance(section, dict)
        }
    except (KeyError, TypeError, AttributeError, RecursionError, json.JSONDecodeError) as error:
        raise ValueError(f"expected its report about a port, got {text.strip()[:_LONGEST]!r}") from error


def _missing(subject: Subject, report: Report, what: str) -> Check:
    return subject.unknown(report.problem or f"{report.command} names no {what}")


# -- judging --------------------------------------------------------------------------------


def _report(port: Port, report: Report) -> Check:
    subject = Subject("link_report", port.name, report.command, f"Active, {_HEALTHY}")
    state, advice = report.text(_OPERATION, "State"), report.text(_TROUBLE, "Recommendation")
    if not state or not advice:
        return _missing(subject, report, "state and recommendation")
    evidence = f"{state[:_LONGEST]}, {advice[:_LONGEST]}"
    # A link that is up works, regardless of the firmware's recommendation.
    bad = Verdict.WARN if state == "Active" else Verdict.FAIL
    good = state == "Active" and advice.startswith(_HEALTHY)
    todo = "look at cable, transceiver and the switch port; the words are the firmware's"
    return subject.judged(good, evidence, advice=todo, bad=bad)


def _wanted(port: Port) -> str:
    return ", ".join(f"{kind} at most {most:g}" for kind, most in _limits(port).items())


def _limits(port: Port) -> Mapping[str, float]:
    return {**BER, **port.expect.get("ber", {})}


def _ber(port: Port, report: Report) -> Check:
    subject = Subject("ber", port.name, report.command, _wanted(port))
    rates = {kind: report.text(_ERRORS, f"{kind.capitalize()} Physical BER") for kind in BER}
    dark = [kind for kind, text in rates.items() if not _RATE.match(text)]
    if dark:
        return _missing(subject, report, f"{dark[0]} bit error rate")
    over = [kind for kind, most in _limits(port).items() if float(rates[kind]) > most]
    evidence = ", ".join(f"{kind} {text}" for kind, text in rates.items())
    minutes = report.text(_ERRORS, "Time Since Last Clear [Min]")
    evidence += f" in {minutes[:_LONGEST]} min" if minutes else ""
    bad = Verdict.FAIL if "effective" in over else Verdict.WARN
    todo = "clean or replace the cable or transceiver, or try another switch port"
    return subject.judged(not over, evidence, advice=todo, bad=bad)


def _cable(port: Port, report: Report) -> Check:
    subject = Subject("cable", port.name, report.command, "a cable or transceiver")
    if _MODULE not in report.sections:
        return _missing(subject, report, "module")
    parts = [report.text(_MODULE, key)[:_LONGEST] for key in _WORDS]
    if parts[0]:
        heat = report.text(_MODULE, "Temperature [C]")
        evidence = " ".join(filter(None, parts)) + (f", {heat[:_LONGEST]} C" if heat else "")
        return subject.judged(True, evidence)
    if report.text(_OPERATION, "State") == "Active":
        # As for links between boards of one machine.
        return subject.skip("the link is up, and the firmware knows no module on it")
    return subject.judged(False, "none is plugged", advice="plug it, or reseat it")
