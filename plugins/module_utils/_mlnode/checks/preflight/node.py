# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Jobs that run on a node, drift of its declarations, and its RDMA."""

from __future__ import annotations

from typing import Any, Iterator, Mapping

from ...host.host import Host
from ...host.places import AGENT_COMMAND
from ...linux import jobs
from ...model import strict_json
from ...model.errors import HostError, StoreError, listed
from ...model.record import replace
from ...model.setting import Severity, Status
from ...topology import read
from ...topology.model import Topology
from ..audit import nccl
from ..expect import Expectations
from ..model import Check, Verdict, bad, skip, summary

#: Where a node keeps its declarations, as engine/declared.py has it, which would bring the engine along
_DECLARED = "/etc/mlnode/declared.d"

#: agent/node_report.py: FORMAT
_FORMAT = 1

#: For the agent, which takes a third of a second on an idle node
_SECONDS = 3.0

#: The check of NCCL's variables
NCCL = "nccl"

#: As many names as fit in one line
_NAMED = 4


def running(host: Host) -> Iterator[Check]:
    """Raises HostError where no process can be read."""
    seen = jobs.look(host)
    expected, source = "no Slurm job, and nothing holds a GPU or an RDMA device", "/proc"
    if seen.running:
        advice = "wait for its end, or end what an earlier job has left"
        yield Check("jobs", "node", Verdict.WARN, expected, listed(seen.running, _NAMED), source, advice)
    elif not seen.unseen:
        yield Check("jobs", "node", Verdict.PASS, expected, "nothing runs", source)
    if seen.unseen:
        found, advice = listed(seen.unseen), "look as root, and outside of a container"
        yield Check("jobs", "processes", Verdict.UNKNOWN, expected, found, source, advice)


# -- drift ---------------------------------------------------------------------------------


def drift(host: Host) -> Iterator[Check]:
    """Findings of the installed agent. Raises HostError, StoreError."""
    expected, source = "as declared", "mlnode check"
    if not [name for name in host.names(_DECLARED) if name.endswith(".json")]:
        yield skip("drift", "node", "nothing is declared on this node", _DECLARED)
        return
    done = host.run([AGENT_COMMAND, "check", "--json"], _SECONDS)
    try:
        report = strict_json.document(done.out, source, _FORMAT, kernel_bytes=True)
        settings, errors, compliant = strict_json.typed(
            report, {"settings": list, "errors": list, "compliant": bool}
        )
        drifted = [_line(one) for one in settings if _status(one).is_drift]
        severe = any(_status(one).is_drift and one["severity"] == str(Severity.HIGH) for one in settings)
    except (StoreError, ValueError, KeyError, TypeError) as error:
        words = f"{AGENT_COMMAND} ended with {done.rc}: {error}"
        raise HostError("understand", source, None, words) from error
    if drifted:
        verdict = Verdict.FAIL if severe else Verdict.WARN
        found = f"{len(drifted)} of {len(settings)} settings differ: {listed(drifted, _NAMED)}"
        advice = "mlnode check on the node, or drift.yml, shows all; site.yml applies what is declared"
        yield Check("drift", "node", verdict, expected, found, source, advice)
    if errors:
        found = listed([str(error) for error in errors], _NAMED)
        yield Check("drift", "agent", Verdict.UNKNOWN, expected, found, source, "look at mlnode check")
    if not drifted and not errors:
        right = compliant and done.rc == 0
        found = f"{len(settings)} settings" if right else f"mlnode check ended with {done.rc}"
        verdict = Verdict.PASS if right else Verdict.UNKNOWN
        yield Check("drift", "node", verdict, expected, found, source)


def _status(setting: Mapping[str, Any]) -> Status:
    return Status(setting["status"])


def _line(setting: Mapping[str, Any]) -> str:
    return f"{setting['key']} {setting['status']} ({setting['severity']})"


# -- RDMA ----------------------------------------------------------------------------------


def nccl_variables(host: Host, topology: Topology) -> Iterator[Check]:
    """Deviations by their names in the audit; one check if there is none."""
    checks = [
        Check(one.name, one.target, one.verdict, one.expected, one.found, one.source, one.advice)
        for one in nccl.checks(host, topology)
    ]
    yield from bad(checks) or [replace(checks[0], name=NCCL, expected="no variable costs rails")]


def rdma_check(host: Host, expect: Expectations, writable: bool) -> Iterator[Check]:
    """Each that is not as expected, or one check for all of them. Without mlxlink, which takes seconds."""
    if not read.of(host).rdma and expect == Expectations():
        found = "no RDMA device is here, and none is expected"
        yield skip("rdma_check", "node", found, "/sys/class/infiniband")
        return
    # Python compiles it on the node at each call, which takes as long as all the rest.
    from ..rdma import mlxlink
    from ..rdma import run as rdma

    checks = rdma.all_checks(host, expect, mlxlink.NAMES, writable=writable)
    worse = bad(checks)
    if worse:
        yield from worse
        return
    counts = summary(checks)
    passed = counts.get(str(Verdict.PASS), 0)
    words = ", ".join(f"{number} {verdict}" for verdict, number in counts.items())
    verdict = Verdict.PASS if passed else Verdict.SKIP
    yield Check("rdma_check", "node", verdict, "none fails", words or "no check", "rdma_check")
