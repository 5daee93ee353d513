# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The report as JUnit's XML, as CI servers read it: a suite for each host, a case for each finding."""

from __future__ import annotations

import re
from collections.abc import Iterator
from xml.sax.saxutils import escape, quoteattr

from .finding import BAD, NEITHER, Finding
from .model import SILENT, Fleet, Host

# Characters that XML 1.0 cannot contain, not even escaped
_ILLEGAL = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def lines(fleet: Fleet) -> Iterator[str]:
    """Lines of one suite after the other, to keep only one copy of the fleet in memory."""
    yield '<?xml version="1.0" encoding="utf-8"?>\n'
    yield f"<testsuites name={_attribute(fleet.playbook)}>\n"
    for host in fleet.ordered():
        yield from _suite(host, fleet.ended)
    yield "</testsuites>\n"


def _suite(host: Host, ended: str) -> Iterator[str]:
    findings = host.findings.values()
    troubles = host.words or [*filter(None, [SILENT.get(host.state)])]
    counts = {
        "tests": len(findings) + len(troubles),
        "failures": sum(finding.bad for finding in findings),
        "errors": len(troubles),
        "skipped": sum(_skipped(finding) for finding in findings),
    }
    numbers = " ".join(f'{name}="{number}"' for name, number in counts.items())
    yield f'<testsuite name={_attribute(host.name)} {numbers} timestamp={_attribute(ended)} time="0">\n'
    for number, message in enumerate(troubles, 1):
        yield (
            f'<testcase classname="node" name={_attribute(f"{host.state} {number}")} time="0">'
            f"<error message={_attribute(message)}/></testcase>\n"
        )
    for finding in findings:
        yield _case(finding)
    yield "</testsuite>\n"


def _case(finding: Finding) -> str:
    head = f'<testcase classname={_attribute(finding.kind)} name={_attribute(finding.key)} time="0"'
    message = _attribute(finding.reason or finding.status)
    if finding.bad:
        kind = _attribute(f"{finding.status} ({finding.severity})")
        body = f"<failure message={message} type={kind}>{_text(_values(finding))}</failure>"
    elif _skipped(finding):
        reason = (
            f"ignored {finding.ignored}" if finding.ignored else f"{finding.status}: {finding.reason or ''}"
        )
        body = f"<skipped message={_attribute(reason)}/>"
    else:
        return f"{head}/>\n"
    return f"{head}>{body}</testcase>\n"


def _skipped(finding: Finding) -> bool:
    return finding.status in NEITHER or bool(finding.ignored and finding.status in BAD)


def _values(finding: Finding) -> str:
    shown = {
        "declared": finding.declared,
        "want": finding.want,
        "runtime": finding.runtime,
        "boot": finding.boot,
        "boot source": finding.boot_source,
        "path": finding.path,
    }
    return "\n".join(f"{name}: {value}" for name, value in shown.items() if value is not None)


def _legal(text: str) -> str:
    return _ILLEGAL.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def _text(text: str) -> str:
    return escape(_legal(text), {"\r": "&#13;"})


def _attribute(text: str) -> str:
    return quoteattr(_legal(text))
