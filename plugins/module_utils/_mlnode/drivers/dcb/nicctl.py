# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A NIC of AMD (Pensando Pollara), read and set with nicctl, AMD's tool. Its driver has no dcbnl.

Formats and options: ROCm documentation, set-up of MI355X with Pollara (nicctl show qos, show dcqcn, show
port); ROCm/device-config-manager (options for one port, --disable). JSON is not used, as its keys are not
documented.

* PFC needs `pause-type pfc` with both directions, and a priority without drops.
* Each DSCP has a priority. The classification type concerns all NICs: nicctl takes no port for it.
* DCQCN has one profile of a device, 1. Its values are shown, and can be changed, only while it is enabled.
"""

from __future__ import annotations

import re
from typing import Iterator, Mapping, Sequence

from ...host.host import Host
from ...model.errors import HostError, MissingError
from ...model.record import NamedTuple, regex
from ...model.values import number_ranges
from . import answers
from .device import CLASSES, DSCPS, NONE

TOOL = "nicctl"
DRIVER = "ionic"

#: Groups without an interface → the reason
LACKS: Mapping[str, str] = {
    "ets": "nicctl has weights of priorities, and no traffic classes: nicctl update qos scheduling",
    "buffer": "its firmware sizes the receive buffers: nicctl show qos headroom",
    "dcbx": "nicctl shows no DCBX",
}

_ON, _OFF = "on", "off"

#: Enables DCQCN: nicctl has a word for the opposite only. Values of AMD for 400 Gb/s (ROCm documentation)
_DCQCN: Mapping[str, object] = {
    "token-bucket-size": 800000,
    "ai-rate": 160,
    "alpha-update-interval": 1,
    "alpha-update-g": 512,
    "initial-alpha-value": 64,
    "rate-increase-byte-count": 431068,
    "hai-rate": 300,
    "rate-reduce-monitor-period": 1,
    "rate-increase-threshold": 1,
    "rate-increase-interval": 1,
    "cnp-dscp": 46,
}
_PFC = {"pause-type": "pfc", "rx-pause": "enable", "tx-pause": "enable"}

_NIC = regex(r"^\s*NIC\s*:\s*([0-9A-Fa-f-]{8,64})\b", re.ASCII)
_PORT = regex(r"^\s*Port\s*:\s*([0-9A-Fa-f-]{8,64})\b", re.ASCII)
_FIELD = regex(r"^\s*([A-Za-z][^:]*?)\s*:\s*(.*?)\s*$", re.ASCII)
_MAPPED = regex(r"^([0-9, -]+?)\s*==>\s*priority\s*:\s*([0-7])$", re.ASCII)


class Port(NamedTuple):
    """A port as `nicctl show qos` or `show port` prints it. lines: name and value."""

    nic: str
    number: str
    lines: tuple[tuple[str, str], ...]

    def value(self, name: str) -> str:
        """Raises ValueError if the line is missing."""
        for known, text in self.lines:
            if known == name:
                return text
        raise ValueError(f"{self.number} has no line {name!r}")


class Dcqcn(NamedTuple):
    """DCQCN of an RDMA device. cnp: DSCP, or none while it is disabled."""

    nic: str
    enabled: bool
    cnp: str


# -- output ------------------------------------------------------------------------------------


def ports(text: str) -> list[Port]:
    """Raises ValueError if it has none."""
    nic = ""
    blocks: list[tuple[str, str, list[tuple[str, str]]]] = []
    for line in text.splitlines():
        if match := _NIC.match(line):
            nic = match.group(1)
        elif match := _PORT.match(line):
            blocks.append((nic, match.group(1), []))
        elif blocks and (match := _FIELD.match(line)):
            blocks[-1][2].append((match.group(1), match.group(2)))
    if not blocks or any(not nic for nic, _number, _lines in blocks):
        raise ValueError("it shows no port with its NIC")
    return [Port(nic, number, tuple(lines)) for nic, number, lines in blocks]


def priorities(port: Port) -> dict[int, int]:
    """DSCP → priority. Raises ValueError unless each DSCP has one."""
    mapped: dict[int, int] = {}
    for name, text in port.lines:
        if name == "DSCP":
            match = _MAPPED.match(text)
            if match is None:
                raise ValueError(f"{text[:60]!r} does not map DSCPs")
            for low, high in number_ranges(match.group(1).replace(" ", "")) or ():
                if high not in DSCPS:
                    raise ValueError(f"expected a DSCP from 0 to 63, got {high}")
                mapped.update(dict.fromkeys(range(low, high + 1), int(match.group(2))))
    if {*mapped} != {*DSCPS}:
        raise ValueError(f"it shows the priority of {len(mapped)} of 64 DSCPs")
    return mapped


def no_drop(port: Port) -> frozenset[int]:
    """Priorities without drops that send and obey pauses. Raises ValueError."""
    bits = int(port.value("PFC priority bitmap"), 16)
    listed = port.value("PFC no-drop priorities").replace(" ", "")
    named = {int(number) for number in listed.split(",") if listed}
    if bits >> len(CLASSES) or not named <= {*CLASSES}:
        raise ValueError(f"PFC has the priorities {listed[:40]!r}")
    return frozenset(number for number in named if bits >> number & 1)


def paused(port: Port) -> tuple[str, dict[str, bool]]:
    """Type of pause in lower case, and its directions. Raises ValueError."""
    words = {"enabled": True, "disabled": False}
    states = {}
    for way in ("rx", "tx"):
        word = port.value(f"{way.upper()} pause")
        if word not in words:
            raise ValueError(f"{way.upper()} pause is {word[:40]!r}")
        states[way] = words[word]
    return port.value("Pause type").lower(), states


def dcqcn(text: str) -> dict[str, Dcqcn]:
    """RDMA device → its profile 1. Raises ValueError."""
    devices: dict[str, Dcqcn] = {}
    nic = device = profile = ""
    for line in text.splitlines():
        if match := _NIC.match(line):
            nic, device, profile = match.group(1), "", ""
            continue
        match = _FIELD.match(line)
        name, value = match.groups() if match else ("", "")
        if name == "ROCE device":
            device, profile = value, ""
        elif name == "DCQCN profile id":
            profile = value
        elif name == "Status" and device and profile == "1":
            if value not in ("Enabled", "Disabled") or not nic:
                raise ValueError(f"DCQCN of {device} is {value[:40]!r}")
            devices[device] = Dcqcn(nic, value == "Enabled", NONE)
        elif name == "DSCP value used for CNP" and profile == "1" and device in devices:
            if not value.isdecimal() or int(value) not in DSCPS:
                raise ValueError(f"the CNP of {device} has DSCP {value[:40]!r}")
            devices[device] = devices[device]._replace(cnp=str(int(value)))
    if not devices:
        raise ValueError("it shows no RDMA device with DCQCN")
    for device, state in devices.items():
        if state.enabled and state.cnp == NONE:
            raise ValueError(f"it shows no DSCP of the CNP of {device}, whose DCQCN is on")
    return devices


# -- commands ----------------------------------------------------------------------------------


def _options(values: Mapping[str, object]) -> list[str]:
    return [word for name, value in values.items() for word in (f"--{name}", str(value))]


def lines(group: str, wanted: Mapping[str, str], port: str, device: str) -> Iterator[list[str]]:
    """Arguments of nicctl that set these values. Raises ValueError for values that it cannot set."""
    qos = ["update", "qos", "-p", port]
    if group == "trust":
        yield ["update", "qos", *_options({"classification-type": wanted["state"]})]
    elif group == "pfc":
        on = wanted["prio-pfc"].split(",")
        if on != [NONE]:
            yield ["update", "port", "-p", port, *_options(_PFC)]
        for number in CLASSES:
            word = "enable" if str(number) in on else "disable"
            yield [*qos, "pfc", *_options({"priority": number, "no-drop": word})]
    elif group == "dscp-prio":
        for priority in dict.fromkeys(wanted.values()):
            if priority not in map(str, CLASSES):
                raise ValueError(f"each DSCP needs one priority, got {priority}")
            dscps = ",".join(dscp for dscp, text in wanted.items() if text == priority)
            yield [*qos, "dscp-to-priority", *_options({"dscp": dscps, "priority": priority})]
    elif group == "dcqcn":
        profile = ["update", "dcqcn", *_options({"roce-device": device, "profile-id": 1})]
        for value in wanted.values():
            if value in (_OFF, NONE):
                yield [*profile, "--disable"]
            else:
                yield [*profile, *_options(_DCQCN if value == _ON else {"cnp-dscp": value})]


# -- one NIC -----------------------------------------------------------------------------------


class Nicctl:
    """A device of drivers/dcb."""

    def __init__(self, host: Host, nic: str) -> None:
        self._host = host
        self._nic = nic

    def get(self, group: str) -> Mapping[str, str]:
        if group in LACKS:
            raise MissingError("ask for", f"{group} of {self._nic}", LACKS[group])
        try:
            fields: Mapping[str, str] = getattr(self, f"_{group.replace('-', '_')}")()
        except ValueError as error:
            raise self._failed(f"it printed nonsense: {error}") from error
        return fields

    def set(self, group: str, wanted: Mapping[str, str]) -> None:
        if group in LACKS:
            raise HostError("set", f"{group} of {self._nic}", None, LACKS[group])
        try:
            if group == "pause":
                self._set_pause(wanted)
                return
            if "cnp-dscp" in wanted and wanted["cnp-dscp"] != NONE and not self._own_dcqcn().enabled:
                raise ValueError("DCQCN is off, and has no CNP then: declare ecn, too")
            every = [*lines(group, wanted, self._port().number, self._device())]
            for line in self._needed(every) if group == "pfc" else every:
                self._run(line)
        except ValueError as error:
            raise self._failed(str(error)) from error
        finally:
            self._host.forget(files=False)

    def commands(self, group: str, wanted: Mapping[str, str]) -> list[list[str]]:
        """Arguments of nicctl for these values; empty if it cannot set them."""
        try:
            return [*lines(group, wanted, self._port().number, self._device())]
        except (ValueError, HostError):
            return []

    # -- groups ----------------------------------------------------------------------------

    def _pfc(self) -> dict[str, str]:
        kind, ways = paused(self._port("port"))
        works = kind == "pfc" and all(ways.values())
        return {"prio-pfc": answers.numbers(no_drop(self._port()) if works else ()), "pfc-cap": "0"}

    def _needed(self, every: Sequence[Sequence[str]]) -> list[Sequence[str]]:
        """Those that change something: nicctl may reject the others, and a port may lose its link."""
        kind, ways = paused(self._port("port"))
        now = {str(number) for number in no_drop(self._port())}
        works = kind == "pfc" and all(ways.values())
        return [
            line
            for line in every
            if (not works if line[1] == "port" else (line[6] in now) != (line[-1] == "enable"))
        ]

    def _dscp_prio(self) -> dict[str, str]:
        return {str(dscp): str(priority) for dscp, priority in sorted(priorities(self._port()).items())}

    def _trust(self) -> dict[str, str]:
        state = self._port().value("Classification type").lower()
        if state not in ("dscp", "pcp"):
            raise ValueError(f"it classifies by {state[:40]!r}")
        return {"state": state}

    def _pause(self) -> dict[str, str]:
        """Pause frames for all traffic: PFC is of another type."""
        kind, ways = paused(self._port("port"))
        return {way: _ON if on and kind != "pfc" else _OFF for way, on in ways.items()}

    def _set_pause(self, wanted: Mapping[str, str]) -> None:
        """With ethtool, which makes the type link (pensando/ionic/ionic_ethtool.c: ionic_set_pauseparam)."""
        if _ON in wanted.values() and self._pfc()["prio-pfc"] != NONE:
            raise ValueError("a port has PFC or global pause, and PFC is on: switch it off first (pfc: [])")
        if dict(self.get("pause")) != dict(wanted):
            path = f"/ethtool/{self._nic}/pause/{','.join(wanted)}"
            self._host.write_kernel(path, " ".join(wanted.values()))

    def _dcqcn(self) -> dict[str, str]:
        own = self._own_dcqcn()
        return {"state": _ON if own.enabled else _OFF, "cnp-dscp": own.cnp}

    # -- details ---------------------------------------------------------------------------

    def _device(self) -> str:
        """The RDMA device of the NIC's function, by which nicctl shows the card."""
        names = self._host.names(f"/sys/class/net/{self._nic}/device/infiniband")
        if len(names) != 1:
            raise self._failed(f"it finds a NIC by its RDMA device, and {self._nic} has {len(names)}")
        return names[0]

    def _own_dcqcn(self) -> Dcqcn:
        device = self._device()
        known = self._host.once(f"{TOOL} dcqcn", lambda: dcqcn(self._run(("show", "dcqcn"))))
        if device not in known:
            raise ValueError(f"it shows no DCQCN of {device}")
        return known[device]

    def _port(self, thing: str = "qos") -> Port:
        card = self._own_dcqcn().nic
        every = self._host.once(f"{TOOL} {thing}", lambda: ports(self._run(("show", thing))))
        here = [port for port in every if port.nic == card]
        if len(here) != 1:
            raise ValueError(f"it shows {len(here)} ports of the NIC {card}, expected 1")
        return here[0]

    def _run(self, arguments: Sequence[str]) -> str:
        return self._host.must_run([TOOL, *arguments], f"ask for {self._nic}, or set it, with")

    def _failed(self, detail: str) -> HostError:
        return HostError("run", f"{TOOL} for {self._nic}", None, detail)
