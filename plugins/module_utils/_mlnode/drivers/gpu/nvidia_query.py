# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Conditions for a job on NVIDIA's GPUs: all present, clocks, NVLink registration, no pending reset.

Read from nvidia-smi -q -x; deeper diagnosis is DCGM's task. Elements as in drivers 535 (nvsmi_device_v12.dtd)
and 590 (nvsmi_device_v13.dtd).
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any, Iterator, Sequence

from ...host.host import Host
from ...host.system import USUAL_SECONDS
from ...model.check import Check, Subject, if_installed
from ...model.errors import HostError, listed
from ...model.record import NamedTuple, regex, replace
from ...model.setting import Severity
from .. import services as service_files
from . import nvidia_smi as nvidia
from . import topics
from .module import Card
from .nvidia_imex import IMEX, imex

if TYPE_CHECKING:
    from xml.etree import ElementTree as ET

QUERY = (nvidia.TOOL, "-q", "-x")
_SOURCE = " ".join(QUERY)

ANSWERING = replace(
    topics.ANSWERING,
    reference="nvidia-smi(1); NVIDIA, Analyzing Xid Errors with the Xid Catalog (79)",
    advice="look at dmesg for its Xid; drain the node, and reset the GPU or reboot",
    source=_SOURCE,
)
CLOCKS = replace(
    topics.CLOCKS,
    reference="NVML API reference, nvmlClocksEventReasons",
    advice="look at temperatures, fans and power supplies: nvidia-smi -q -d TEMPERATURE,POWER; the BMC's log",
    source=_SOURCE,
)
FABRIC = replace(
    topics.FABRIC,
    reason="CUDA does not start on this GPU, with `system not yet initialized` (802), "
    "or its NVLinks are slower",
    reference="NVIDIA, Fabric Manager User Guide; NVML API reference, nvmlGpuFabricInfo_v3_t",
    advice="look at the log of nvidia-fabricmanager and at dmesg; its version must match the driver's",
    source=_SOURCE,
)
RECOVERY = replace(
    topics.RECOVERY,
    reference="nvidia-smi(1), GPU Recovery Action, ECC Errors, Page Retirement and Remapped Rows",
    advice="drain the node and take the reported action: nvidia-smi -r -i GPU resets one",
    source=_SOURCE,
)
_REPAIR: dict[str, Any] = {
    "severity": Severity.MEDIUM,
    "reason": "a part of this GPU is repaired at the next reset, and the rest works until then",
}
#: Repairs that wait for a reset: rows since A100, pages before; the others in newer drivers
_PENDING = (
    "remapped_rows/remapped_row_pending", "retired_pages/pending_retirement",
    "ecc_errors/channel_repair_pending", "ecc_errors/tpc_repair_pending",
)  # fmt: skip
_FAILED = ("remapped_rows/remapped_row_failure", "ecc_errors/unrepairable_memory")
PARTITION = replace(
    topics.PARTITION,
    reference="nvidia-smi(1), MIG Mode",
    advice="set one mode for all: nvidia-smi -mig",
    source=_SOURCE,
)
POWER_CAP = replace(
    topics.POWER_CAP,
    reference="nvidia-smi(1), Power Readings",
    advice="set the default again: nvidia-smi -i GPU -pl WATTS",
    source=_SOURCE,
)
VERSIONS = replace(
    topics.VERSIONS,
    reference="nvidia-smi(1), VBIOS Version",
    advice="bring all GPUs to one firmware",
    source=_SOURCE,
)
#: Topics read with nvidia-smi -q -x
TOPICS = (ANSWERING, CLOCKS, FABRIC, RECOVERY, PARTITION, POWER_CAP, VERSIONS, IMEX)

#: Twice the usual: without persistence mode the driver first initializes each GPU
_SECONDS = 2 * USUAL_SECONDS
#: Start of the error about a GPU that the driver has lost; the exit status may then be anything
_NO_HANDLE = "Unable to determine the device handle"

#: Before driver 535 they were named throttle reasons
_REASON = regex(r"clocks_(?:event|throttle)_reason_(\w{1,60})\Z", re.ASCII)
_COUNTER = regex(r"clocks_event_reasons_counters_(\w{1,60})\Z", re.ASCII)
_HALVING = ("hw_slowdown", "hw_thermal_slowdown", "hw_power_brake_slowdown")
_COOLING = ("sw_thermal_slowdown",)
#: Normal reasons: a power cap that jobs at full power reach, manually set clocks, and idling
_USUAL = ("gpu_idle", "sw_power_cap", "applications_clocks_setting", "display_clocks_setting", "sync_boost")
_LOST_TIME = ("hw_therm_slowdown", "hw_power_brake", "sw_therm_slowdown")

_MANAGER = "nvidia-fabricmanager.service"
_READY = ("Completed", "Success")
#: Elements of the fabric's health with their values; others are unknown here
_FAULTS = ("access_timeout_recovery", "route_recovery_in_progress", "route_unhealthy")
_WELL = {
    "summary Healthy", "bandwidth Full", "incorrect_configuration None", "partition_assigned True",
    *(f"{fault} False" for fault in _FAULTS),
}  # fmt: skip
_BAD = {
    "summary Unhealthy", "summary Limited Capacity", "bandwidth Degraded",
    *(f"{fault} True" for fault in _FAULTS),
}  # fmt: skip
#: Before driver 530 in other elements
_LIMITS = (("gpu_power_readings", "current_power_limit"), ("power_readings", "power_limit"))
#: Any action (nvmlDeviceGpuRecoveryAction_t), and errors of a failed GPU (nvmlErrorString: `GPU is lost`)
_ACTION = regex(r"reset|reboot|drain|recover|lost", re.ASCII | re.IGNORECASE)
_WATTS = regex(r"([0-9]{1,5}(?:\.[0-9]{1,3})?) W\Z", re.ASCII)
_VBIOS = regex(r"[0-9A-Fa-f.]{4,40}\Z", re.ASCII)
_MIG = ("Enabled", "Disabled")

#: Products with NVLink 5, which connects them by switches only: NVIDIA B200, GB300
_SWITCHED = regex(r"\bG?B[123]00\b", re.ASCII)

_ALL = "every GPU that the driver holds"


class _Seen(NamedTuple):
    """One GPU in the output. address: as in sysfs."""

    address: str
    element: ET.Element

    def about(self, topic: Subject) -> Subject:
        return replace(topic, target=f"GPU {self.address}")

    def text(self, path: str) -> str:
        """Text of an element; "" if the driver does not write it, or it does not apply to this GPU."""
        text = (self.element.findtext(path) or "").strip()
        return "" if text in nvidia.NOT_THERE else text


def checks(host: Host, gpus: Sequence[Card]) -> Iterator[Check]:
    """Checks of NVIDIA's GPUs. gpus: those on PCI. Raises Nothing, HostError."""
    try:
        with if_installed():
            seen = _seen(nvidia.ask(host, QUERY, _SECONDS))
    except HostError as error:
        if _NO_HANDLE in str(error):
            yield ANSWERING.judged(False, str(error), expected=_ALL)
        raise
    yield _answering(gpus, seen)
    for gpu in seen:
        yield from (_clocks(gpu), _fabric(host, gpu), _recovery(gpu), _power_cap(gpu))
    yield from _partition(seen)
    yield _versions(seen)
    yield imex(host, {gpu.text("fabric/clusterUuid") for gpu in seen}, _SOURCE)


def _seen(answer: str) -> list[_Seen]:
    """The GPUs in the output. Raises HostError."""
    if "<!ENTITY" in answer:
        raise HostError(
            "understand", nvidia.TOOL, None, "its XML declares entities, which the tool never does"
        )
    from xml.etree import ElementTree as ET  # 0.6 MiB

    try:
        root = ET.fromstring(answer)  # noqa: S314  from a program of the system, and without entities
    except ET.ParseError as error:
        raise HostError("understand", nvidia.TOOL, None, f"its XML is not well-formed: {error}") from error
    seen = []
    for element in root.findall("gpu"):
        bus_id = element.get("id", "")
        address = nvidia.address(bus_id)
        if address is None:
            raise HostError("understand", nvidia.TOOL, None, f"a GPU has the id {bus_id[:40]!r}")
        seen.append(_Seen(address, element))
    return seen


# -- presence --------------------------------------------------------------------------------


def _answering(gpus: Sequence[Card], seen: Sequence[_Seen]) -> Check:
    here = {gpu.address for gpu in seen}
    ours = [gpu for gpu in gpus if gpu.driver in (None, "nvidia")]
    lost = [gpu.address for gpu in ours if gpu.address not in here]
    evidence = f"{len(ours) - len(lost)} of {len(ours)} on PCI"
    if lost:
        evidence += f", and not {listed(lost, topics.NAMED)}"
    others = len(gpus) - len(ours)
    evidence += f"; {others} with another driver" if others else ""
    return ANSWERING.judged(not lost, evidence, expected=_ALL)


# -- clocks --------------------------------------------------------------------------------


def _clocks(gpu: _Seen) -> Check:
    subject, reasons = gpu.about(CLOCKS), _named(gpu.element, _REASON)
    if {*reasons.values()} <= {*nvidia.NOT_THERE}:
        return subject.unknown("this driver reports no reasons for its clocks")
    active = [name for name, text in reasons.items() if text == "Active"]
    evidence = f"active: {', '.join(active)}" if active else "none active"
    evidence += _lost_time(gpu)
    halved, cooled = ({*active}.intersection(names) for names in (_HALVING, _COOLING))
    strange = [name for name in active if name not in (*_HALVING, *_COOLING, *_USUAL)]
    strange += [
        f"{name} {text[:40]!r}"
        for name, text in reasons.items()
        if name not in _USUAL and text not in ("Active", "Not Active", *nvidia.NOT_THERE)
    ]
    if strange and not halved and not cooled:
        return subject.unknown(f"{evidence}: not known here: {', '.join(strange)}")
    if cooled and not halved:
        subject = replace(subject, **topics.COOLED)
    return subject.judged(not halved and not cooled, evidence, expected="no slowdown")


def _lost_time(gpu: _Seen) -> str:
    """Seconds of lower clocks since the driver was loaded. Not judged: a GPU under load warms up."""
    seconds = {}
    for name, text in _named(gpu.element, _COUNTER).items():
        number, _blank, unit = text.partition(" ")
        if name in _LOST_TIME and number.isdigit() and unit == "us" and int(number) >= 1_000_000:
            seconds[name] = int(number) // 1_000_000
    return "".join(f"; {name} {number} s since the driver was loaded" for name, number in seconds.items())


def _named(element: ET.Element, pattern: Any) -> dict[str, str]:
    """Last part of the tag → text, of all matching elements below."""
    named = {}
    for child in element.iter():
        match = pattern.match(child.tag)
        if match:
            named[match.group(1)] = (child.text or "").strip()
    return named


# -- NVLink's fabric -----------------------------------------------------------------------


def _fabric(host: Host, gpu: _Seen) -> Check:
    subject, state, status = gpu.about(FABRIC), gpu.text("fabric/state"), gpu.text("fabric/status")
    if not state and _is_switched(gpu):
        evidence = "this GPU is behind NVSwitches, and the driver reports no registration"
        return subject.unknown(evidence, advice=FABRIC.advice)
    if not state:
        return subject.skip("the driver reports no NVSwitch that this GPU registers with")
    # Only a completed registration has a status (nvmlGpuFabricInfo_v3_t).
    evidence = f"{state}, {status}" if state == _READY[0] else state
    health = {
        child.tag: gpu.text(f"fabric/health/{child.tag}") for child in gpu.element.iterfind("fabric/health/*")
    }
    each = [f"{name} {text}" for name, text in health.items() if text]
    deviating = [words for words in each if words not in _WELL]
    evidence += "".join(f", {words}" for words in deviating)
    bad = not _BAD.isdisjoint(deviating)
    if state != _READY[0]:
        evidence += _manager(host)
    elif deviating and not bad and status == _READY[1]:
        return subject.unknown(f"{evidence}: not known here")
    good = (state, status) == _READY and not bad
    return subject.judged(good, evidence, expected=", ".join(_READY))


def _is_switched(gpu: _Seen) -> bool:
    """True for a GPU whose NVLinks end at switches, by the platform or the product's name."""
    return gpu.text(".//peer_type").startswith("Switch") or bool(_SWITCHED.search(gpu.text("product_name")))


def _manager(host: Host) -> str:
    try:
        runs = service_files.is_running(host, _MANAGER)
    except HostError:
        return f"; whether {_MANAGER} runs is unknown"
    return "" if runs else f"; {_MANAGER} does not run"


# -- pending resets --------------------------------------------------------------------------


def _recovery(gpu: _Seen) -> Check:
    subject, action = gpu.about(RECOVERY), gpu.text("gpu_recovery_action") or _older(gpu)
    waits, failed = ({name: gpu.text(name) for name in names} for names in (_PENDING, _FAILED))
    told = {name.rpartition("/")[2]: text for name, text in {**waits, **failed}.items() if text}
    evidence = ", ".join(
        [
            f"action {action}" if action else "no action reported",
            *(f"{name} {text}" for name, text in told.items()),
        ]
    )
    texts = {*told.values()}
    # An error in the place of an answer: `GPU requires reset`
    bad = "Yes" in failed.values() or any(map(_ACTION.search, texts))
    good = action in ("", "None") and not bad
    if good and "Yes" in waits.values():
        return replace(subject, **_REPAIR).judged(False, evidence, expected="none pending")
    if not action and not told:
        return subject.skip("this driver or GPU does not report it")
    strange = action not in ("", "None") and not _ACTION.search(action)
    if not bad and (strange or not texts <= {"Yes", "No"}):
        return subject.unknown(f"{evidence}: not known here")
    return subject.judged(good, evidence, expected="no action, no failure")


def _older(gpu: _Seen) -> str:
    """The action, from the elements of driver 535."""
    wanted = {
        "Reset": gpu.text("gpu_reset_status/reset_required"),
        "Drain and Reset": gpu.text("gpu_reset_status/drain_and_reset_recommended"),
    }
    asked = [name if text == "Yes" else text for name, text in wanted.items() if text not in ("No", "")]
    return next(iter(asked), "None" if "No" in wanted.values() else "")


# -- alike -----------------------------------------------------------------------------------


def _power_cap(gpu: _Seen) -> Check:
    subject = gpu.about(POWER_CAP)
    for group, name in _LIMITS:
        cap, default = (gpu.text(f"{group}/{element}") for element in (name, "default_power_limit"))
        if cap or default:
            break
    else:
        return subject.skip("this driver or GPU does not report it")
    watts = [_WATTS.match(text) for text in (cap, default)]
    evidence = f"{cap}; default {default}"
    if watts[0] is None or watts[1] is None:
        return subject.unknown(f"{evidence}: not two numbers of watts")
    return subject.judged(float(watts[0][1]) >= float(watts[1][1]), evidence, expected=f"at least {default}")


def _partition(seen: Sequence[_Seen]) -> Iterator[Check]:
    """Judged against the mode that most GPUs of the node have."""
    modes = {gpu.address: gpu.text("mig_mode/current_mig") for gpu in seen}
    usual = topics.usual([mode for mode in modes.values() if mode in _MIG])
    for gpu in seen:
        subject, mode = gpu.about(PARTITION), modes[gpu.address]
        if not mode:
            yield subject.skip("this GPU has no partitions")
        elif mode not in _MIG:
            yield subject.unknown(f"MIG {mode[:40]!r}: not known here")
        else:
            yield subject.judged(mode == usual, f"MIG {mode}", expected=f"MIG {usual}, as most GPUs here")


def _versions(seen: Sequence[_Seen]) -> Check:
    """The firmware of all GPUs of a model; one driver has them all."""
    names = [(gpu.text("product_name"), gpu.text("vbios_version")) for gpu in seen]
    if not any(name for _model, name in names):
        return VERSIONS.skip("this driver does not report them")
    if not all(_VBIOS.match(name) for _model, name in names):
        return VERSIONS.unknown("some GPUs do not report theirs")
    counts = Counter(names)
    evidence = "vbios " + ", ".join(f"{name} ({count})" for (_model, name), count in counts.items())
    good = len(counts) == len({model for model, _name in names})
    return VERSIONS.judged(good, evidence, expected="one of each, for each model")
