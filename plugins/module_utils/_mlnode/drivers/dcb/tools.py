# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A NIC of this host, read and set with dcb(8), with mlnx_qos if dcb is not installed, or with nicctl."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Mapping, Sequence

from ...host.host import Host
from ...model.errors import HostError, MissingError, listed, printable
from . import answers, nicctl
from .device import CLASSES, GROUPS, NONE, Device

#: Words of the vendor's file qos/trust
_TRUSTED = ("pcp", "dscp", "both")
#: Folders that Host.run() searches for programs
_FOLDERS = ("/usr/sbin", "/usr/bin", "/sbin", "/bin")


def name(host: Host) -> str:
    """Name of the installed tool for dcbnl; "" if there is none."""
    return next((tool for tool in ("dcb", "mlnx_qos") if _installed(host, tool)), "")


def remark(host: Host) -> str:
    """A remark on the tool; empty for dcb. Raises HostError."""
    return "through mlnx_qos, as dcb (iproute2) is not installed" if name(host) == "mlnx_qos" else ""


def _installed(host: Host, tool: str) -> bool:
    return any(host.exists(f"{folder}/{tool}") for folder in _FOLDERS)


def needs_nicctl(host: Host, nic: str) -> bool:
    """True if the NIC's driver lacks dcbnl, and nicctl replaces it. Raises HostError."""
    return host.link_target(f"/sys/class/net/{nic}/device/driver").rpartition("/")[2] == nicctl.DRIVER


def device(host: Host, nic: str) -> Device:
    """The device of a NIC. Raises HostError without a tool, because the NIC's state is unknown then."""
    if needs_nicctl(host, nic):
        if not _installed(host, nicctl.TOOL):
            advice = "nicctl is not installed: install AMD's package for its AI NICs, which has it"
            raise HostError("ask for the priorities of", nic, None, advice)
        return nicctl.Nicctl(host, nic)
    tool = name(host)
    if tool == "dcb":
        return Dcb(host, nic)
    if tool == "mlnx_qos":
        return MlnxQos(host, nic)
    advice = "dcb is not installed: install iproute2 (5.11 or newer), or its package that has dcb"
    raise HostError("ask for the priorities of", nic, None, advice)


def commands(host: Host, nic: str, group: str, wanted: Mapping[str, str]) -> list[Sequence[str]] | None:
    """Equivalent commands of a NIC that nicctl sets; None for dcb."""
    if not needs_nicctl(host, nic):
        return None
    if group == "pause":
        each = [word for pair in wanted.items() for word in pair]
        return [("ethtool", "-A", nic, *each)]
    return [(nicctl.TOOL, *line) for line in nicctl.Nicctl(host, nic).commands(group, wanted)]


class _Tool(ABC):
    """Common part of both tools: the vendor's drivers show trust as a file."""

    def __init__(self, host: Host, nic: str) -> None:
        self._host = host
        self._nic = nic
        self._file = f"/sys/class/net/{nic}/qos/trust"

    def get(self, group: str) -> Mapping[str, str]:
        if group == "trust" and self._host.exists(self._file):
            return {"state": self._vendors_trust()}
        return self._get(group)

    def _vendors_trust(self) -> str:
        """Raises HostError."""
        state = self._host.read(self._file).strip()
        if state not in _TRUSTED:
            words = f"expected {listed(_TRUSTED)}, got {printable(state[:40])!r}"
            raise HostError("understand", self._file, None, words)
        return state

    def set(self, group: str, wanted: Mapping[str, str]) -> None:
        if group == "trust" and self._host.exists(self._file):
            self._host.write_kernel(self._file, wanted["state"])
        else:
            self._set(group, wanted)

    @abstractmethod
    def _get(self, group: str) -> Mapping[str, str]:
        """Like get(), with the tool."""

    @abstractmethod
    def _set(self, group: str, wanted: Mapping[str, str]) -> None:
        """Like set(), with the tool."""

    def _missing(self, group: str) -> MissingError:
        driver = self._host.value(f"/ethtool/{self._nic}/driver/driver").text
        subject = f"the driver {driver}" if driver else "its driver"
        return MissingError("ask for", f"{group} of {self._nic}", f"{subject} has no {GROUPS[group].nouns}")

    def _failed(self, command: Sequence[str], detail: str) -> HostError:
        return HostError("run", " ".join(command), None, detail or "it failed without a word")

    def _entries(self, wanted: Mapping[str, str]) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
        """(DSCP, priority) pairs to add, and existing pairs to remove."""
        old = self.get("dscp-prio")
        add = [pair for pair in _pairs(wanted) if pair not in _pairs(old)]
        remove = [pair for pair in _pairs({dscp: old[dscp] for dscp in wanted}) if pair not in _pairs(wanted)]
        return add, remove


class Dcb(_Tool):
    """Reads and sets everything through dcbnl, the kernel's own interface."""

    #: Group → object of dcb, and parser of its output
    _OBJECTS: Mapping[str, Any] = {
        "pfc": ("pfc", answers.pfc),
        "ets": ("ets", answers.ets),
        "buffer": ("buffer", answers.buffer),
        "dscp-prio": ("app", answers.dscp_prio),
        "dcbx": ("dcbx", answers.dcbx),
    }

    def _get(self, group: str) -> Mapping[str, str]:
        if group == "trust":
            return {"state": self._trust()}
        thing, parse = self._OBJECTS[group]
        fields: Mapping[str, str] = self._show(group, thing, parse)
        return fields

    def _trust(self) -> str:
        """Trust as the driver reports it, or as its behaviour implies.

        mlx5, ice and others trust DSCPs as soon as one DSCP has a priority (mellanox/mlx5/core/en_dcbnl.c:
        mlx5e_dcbnl_ieee_setapp).
        """
        order = self._order()
        if order is not None:
            return order
        return "dscp" if any(value != NONE for value in self.get("dscp-prio").values()) else "pcp"

    def _order(self) -> str | None:
        """None if the driver, or a dcb before 6.3, cannot report it."""
        try:
            order: str = self._show("trust", "apptrust", answers.order)
        except MissingError:
            return None
        return order

    def _show(self, group: str, thing: str, parse: Any) -> Any:
        command = ["dcb", "-j", "-N", thing, "show", "dev", self._nic]
        done = self._host.run(command)
        if done.rc != 0:
            message = _last(done.err)
            # No DCB at all; not this group; or this dcb does not know the object
            old = thing == "apptrust" and message.endswith(f'"{thing}" is unknown')
            if old or message.startswith(("Attribute read: Operation not supported", "Attribute not found")):
                raise self._missing(group)
            raise self._failed(command, message)
        try:
            # For an empty table it may print nothing at all.
            return parse(done.out.strip() or "{}")
        except ValueError as error:
            raise self._failed(command, f"it printed nonsense: {error}") from error

    def _set(self, group: str, wanted: Mapping[str, str]) -> None:
        if group == "trust":
            self._set_trust(wanted["state"])
        elif group == "dscp-prio":
            self._set_entries(wanted)
        elif group == "pfc":
            on = wanted["prio-pfc"]
            each = [] if on == NONE else [f"{number}:on" for number in on.split(",")]
            self._do("pfc", "set", "prio-pfc", "all:off", *each)
        else:
            arguments = []
            for field, text in wanted.items():
                arguments += [field, *(f"{number}:{value}" for number, value in enumerate(text.split("/")))]
            self._do(group, "set", *arguments)

    def _set_trust(self, state: str) -> None:
        if self._order() is not None:
            self._do("apptrust", "set", "order", *([] if state == NONE else state.split("+")))
        elif state == "pcp":
            self._set_entries(dict.fromkeys(self.get("dscp-prio"), NONE))
        elif state == "dscp":
            if self._trust() != "dscp":
                # Every NIC gives DSCP 0 this priority anyway, and the entry makes it use DSCPs.
                self._set_entries({"0": "0"})
        else:
            raise HostError("trust", f"{state} on {self._nic}", None, "the driver trusts pcp or dscp")

    def _set_entries(self, wanted: Mapping[str, str]) -> None:
        """Set the priorities of these DSCPs.

        Not with `app replace`, which succeeds regardless of the result (dcb/dcb_app.c). Old entries go first,
        because ice accepts no second priority for a DSCP (intel/ice/ice_dcb_nl.c: ice_dcbnl_setapp).
        """
        add, remove = self._entries(wanted)
        if remove:
            self._do("app", "del", "dscp-prio", *(f"{dscp}:{priority}" for dscp, priority in remove))
        if add:
            self._do("app", "add", "dscp-prio", *(f"{dscp}:{priority}" for dscp, priority in add))

    def _do(self, thing: str, verb: str, *arguments: str) -> None:
        command = ["dcb", thing, verb, "dev", self._nic, *arguments]
        done = self._host.run(command)
        if done.rc != 0:
            raise self._failed(command, _last(done.err) + self._why())

    def _why(self) -> str:
        """Frequent reason of a refusal (bnxt/bnxt_dcb.c, intel/ice/ice_dcb_nl.c: both return EINVAL)."""
        try:
            mode = self.get("dcbx")["mode"]
        except HostError:
            return ""
        return "" if "host" in mode.split() else "; its firmware keeps DCBX for itself (dcb dcbx show)"


class MlnxQos(_Tool):
    """The vendor's tool, which uses dcbnl or the vendor's files."""

    #: Field → option
    _OPTIONS: Mapping[str, str] = {
        "prio-tc": "--prio_tc",
        "tc-tsa": "--tsa",
        "tc-bw": "--tcbw",
        "prio-buffer": "--prio2buffer",
        "buffer-size": "--buffer_size",
    }

    def _get(self, group: str) -> Mapping[str, str]:
        # Without -a it leaves out traffic classes that have no priority
        command = ["mlnx_qos", "-i", self._nic, "-a"]
        try:
            fields = answers.mlnx_qos(self._run(command), group)
        except ValueError as error:
            raise self._failed(command, f"it printed nonsense: {error}") from error
        if fields is None:
            raise self._missing(group)
        return fields

    def _set(self, group: str, wanted: Mapping[str, str]) -> None:
        if group == "trust":
            self._do("--trust", wanted["state"])
        elif group == "dscp-prio":
            add, remove = self._entries(wanted)
            for verb, pairs in (("del", remove), ("set", add)):
                for dscp, priority in pairs:
                    self._do("--dscp2prio", f"{verb},{dscp},{priority}")
        elif group == "pfc":
            on = wanted["prio-pfc"].split(",")
            self._do("--pfc", ",".join("1" if str(number) in on else "0" for number in CLASSES))
        else:
            arguments = []
            for field, text in wanted.items():
                arguments += [self._OPTIONS[field], text.replace("/", ",")]
            self._do(*arguments)

    def _do(self, *arguments: str) -> None:
        self._run(["mlnx_qos", "-i", self._nic, *arguments])

    def _run(self, command: Sequence[str]) -> str:
        done = self._host.run(command)
        if done.rc != 0:  # it explains on its standard output, or ends with a traceback
            raise self._failed(command, _last(done.err) or _last(done.out))
        return done.out


def _pairs(fields: Mapping[str, str]) -> list[tuple[str, str]]:
    return [(dscp, priority) for dscp, text in fields.items() if text != NONE for priority in text.split(",")]


def _last(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1].strip() if lines else ""
