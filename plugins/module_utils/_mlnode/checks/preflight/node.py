# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Running jobs, drift of the declarations, and RDMA of a node."""

from __future__ import annotations

from typing import Any, Iterator, Mapping

from ...host.host import Host
from ...host.places import AGENT_COMMAND
from ...linux import jobs
from ...model import strict_json
from ...model.errors import HostError, StoreError, listed
from ...model.record import replace
from ...model.setting import Severity, Status
from ...topology import hardware
from ...topology.model import Topology
from ..audit import containers, devices, nccl
from ..expect import Expectations
from ..model import NODE, Check, Nothing, Subject, Verdict, bad, summary

#: Folder of the node's declarations, as in engine/declared.py, whose import would load the engine
_DECLARED = "/etc/mlnode/declared.d"

#: agent/node_report.py: FORMAT
_FORMAT = 1

#: Seconds for the agent, which takes a third of one on an idle node
_SECONDS = 3.0

#: The checks of NCCL's variables, and of the errors of GPUs
NCCL, GPU_ERRORS = "nccl", "gpu_messages"

#: Number of names that fit on one line
_NAMED = 4


def running(host: Host) -> Iterator[Check]:
    """Checks for running jobs. Raises HostError if no process can be read."""
    seen = jobs.look(host)
    subject = Subject("jobs", NODE, "/proc", "no Slurm job, and nothing holds a GPU or an RDMA device")
    if seen.running:
        advice = "wait for its end, or end leftovers of an earlier job"
        yield subject.made(Verdict.WARN, listed(seen.running, _NAMED), advice=advice)
    elif not seen.unseen:
        yield subject.judged(True, "nothing runs")
    if seen.unseen:
        advice = "look as root, and outside of a container"
        yield subject.unknown(listed(seen.unseen), target="processes", advice=advice)


# -- drift ---------------------------------------------------------------------------------


def drift(host: Host) -> Iterator[Check]:
    """Findings of the installed agent. Raises HostError, StoreError."""
    subject = Subject("drift", NODE, "mlnode check", "as declared")
    if not [name for name in host.names(_DECLARED) if name.endswith(".json")]:
        raise Nothing("nothing is declared on this node", _DECLARED)
    done = host.run([AGENT_COMMAND, "check", "--json"], _SECONDS)
    try:
        report = strict_json.document(done.out, subject.source, _FORMAT, kernel_bytes=True)
        settings, errors, compliant = strict_json.typed(
            report, {"settings": list, "errors": list, "compliant": bool}
        )
        drifted = [_line(setting) for setting in settings if _status(setting).is_drift]
        severe = any(
            _status(setting).is_drift and setting["severity"] == str(Severity.HIGH) for setting in settings
        )
    except (StoreError, ValueError, KeyError, TypeError) as error:
        words = f"{AGENT_COMMAND} ended with {done.rc}: {error}"
        raise HostError("understand", subject.source, None, words) from error
    if drifted:
        evidence = f"{len(drifted)} of {len(settings)} settings differ: {listed(drifted, _NAMED)}"
        advice = "mlnode check on the node, or drift.yml, shows all; site.yml applies the declarations"
        yield subject.made(Verdict.FAIL if severe else Verdict.WARN, evidence, advice=advice)
    if errors:
        evidence = listed([str(error) for error in errors], _NAMED)
        yield subject.unknown(evidence, target="agent", advice="look at mlnode check")
    if not drifted and not errors:
        right = compliant and done.rc == 0
        evidence = f"{len(settings)} settings" if right else f"mlnode check ended with {done.rc}"
        yield subject.judged(True, evidence) if right else subject.unknown(evidence)


def _status(setting: Mapping[str, Any]) -> Status:
    return Status(setting["status"])


def _line(setting: Mapping[str, Any]) -> str:
    return f"{setting['key']} {setting['status']} ({setting['severity']})"


# -- containers ----------------------------------------------------------------------------


def container_sysctls(host: Host) -> Iterator[Check]:
    """The check of the audit: declared sysctls that new containers do not get."""
    yield from (replace(check, severity=None) for check in containers.checks(host))


# -- RDMA ----------------------------------------------------------------------------------


def nccl_variables(host: Host, topology: Topology) -> Iterator[Check]:
    """Deviations, named as in the audit; one passing check if there are none."""
    checks = [replace(check, severity=None) for check in nccl.checks(host, topology)]
    yield from bad(checks) or [replace(checks[0], name=NCCL, expected="no variable costs rails")]


def gpu_errors(host: Host, topology: Topology) -> Iterator[Check]:
    """The check of the audit: recent errors of GPUs and their switches in the kernel's log."""
    checks = [replace(check, severity=None) for check in devices.messages(host, topology)]
    yield from bad(checks) or checks[:1]


def rdma_check(host: Host, expect: Expectations, writable: bool) -> Iterator[Check]:
    """Every deviation, or one check for all. Without mlxlink, which takes seconds."""
    if not hardware.topology(host).rdma and expect == Expectations():
        raise Nothing("no RDMA device is here, and none is expected", "/sys/class/infiniband")
    # Imported late: compiling it on the node takes as long as all other checks together.
    from ..rdma import mlxlink
    from ..rdma import run as rdma

    checks = rdma.all_checks(host, expect, mlxlink.NAMES, writable=writable)
    yield from bad(checks)
    if not bad(checks):
        counts = summary(checks)
        words = ", ".join(f"{number} {verdict}" for verdict, number in counts.items())
        verdict = Verdict.PASS if str(Verdict.PASS) in counts else Verdict.SKIP
        subject = Subject("rdma_check", source="rdma_check", expected="none fails")
        yield subject.made(verdict, words or "no check")
