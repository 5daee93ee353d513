# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Broadcom's bnxt_re. Congestion control concerns all RoCE packets of a device.

Broadcom's driver package has it in configfs, DEVICE/ports/PORT/cc (its README.TXT, "Congestion Control", and
bnxt_re/configfs.c):

* Numbers are hexadecimal, also without 0x: 26 would set 38.
* A value is staged and takes effect with a write of 0x1 to `apply`. A read of `apply` shows the values of the
  hardware; a read of the value's own file shows the staged one.
* `apply` without congestion control sets the CNP's DSCP and priority to 0. Without a service profile it also
  empties the firmware's table of DSCPs, and enters the staged ones of RoCE and CNP.
* With a service profile, the CNP has the priority of its traffic class in the firmware: a write is EINVAL.

The kernel's own driver has cc_config in debugfs, with decimal numbers. A write succeeds even if the firmware
rejects it (drivers/infiniband/hw/bnxt_re/debugfs.c: the result of bnxt_qplib_modify_cc is ignored).
"""

from __future__ import annotations

import errno
import re

from ...host.host import Host
from ...model.errors import HostError, printable
from ...model.record import regex
from . import model
from .configfs import DEVICES, ConfigfsDriver
from .model import Answer, Counters, Knob, Nic

_CONFIG = "/sys/kernel/config/bnxt_re"
_DEBUG = "/sys/kernel/debug"
_BOTH = "configfs `bnxt_re`, debugfs `cc_config`"
_NEITHER = "there is neither configfs bnxt_re (Broadcom's package) nor cc_config in debugfs (newer kernels)"
_ENABLE, _MARKING, _DSCP, _PRIORITY = "ecn", "ecn-marking", "cnp-dscp", "cnp-priority"

#: File here → staged file; newer versions have its name in brackets in `apply`
_STAGED = {
    _ENABLE: "ecn_enable",
    _MARKING: "ecn_marking",
    _DSCP: "cnp_dscp",
    _PRIORITY: "cnp_prio",
}
#: File here → file in debugfs (bnxt_re_cc_gen0_name)
_KERNELS = {_ENABLE: "enable_cc", _MARKING: "tos_ecn", _DSCP: "alt_vlan_dscp", _PRIORITY: "alt_vlan_pcp"}
#: Staged again with each change: `apply` removes all other DSCPs from the firmware's table
_TABLE = ("roce_dscp", "roce_prio", "cnp_dscp", "cnp_prio")
#: Words of `apply` (apply_show)
_WORDS = {"Enabled": "1", "Disabled": "0", "Not-ECT": "0", "ECT(1)": "1", "ECT(0)": "2"}

_GROUPS = {model.CNP_DSCP: _DSCP, model.CNP_PRIORITY: _PRIORITY}

_PROFILE = regex(r"^\s*fw_service_prof_type_sup\s*:\s*(\S*)\s*$", re.MULTILINE | re.ASCII)
_OWNED = "the firmware's service profile sets the priority of CNPs, by the priority of their DSCP"


class Bnxt(ConfigfsDriver):
    MODULE = "bnxt_re"
    SUPPORTS = {
        **model.COMMON,
        model.ECN: _BOTH,
        model.CNP_DSCP: _BOTH,
        model.CNP_PRIORITY: f"{_BOTH}; firmware with a service profile",
    }
    LACKS = {
        "buffer": "bnxt_en has no receive buffers that can be set",
        model.TRAFFIC_CLASS: "bnxt_re has no traffic class for all queue pairs (roce_dscp marks the "
        "packets of connection management): let the programs set theirs",
    }
    #: One bit, ECT(0), six bits of DSCP, three of priority
    MOST = {_ENABLE: 1, _MARKING: 2, _DSCP: 63, _PRIORITY: 7}
    CONFIG = _CONFIG
    LACK = _NEITHER
    #: hw/bnxt_re/hw_counters.c of the kernel, then of Broadcom's package
    COUNTERS = (
        Counters(
            ("hw_counters/tx_pkts",),
            ("hw_counters/rx_pkts",),
            ("hw_counters/seq_err_naks_rcvd", "hw_counters/to_retransmits", "hw_counters/rnr_naks_rcvd"),
            ("hw_counters/oos_drop_count",),
        ),
        Counters(
            lost_sent=(
                "hw_counters/packet_seq_err",
                "hw_counters/local_ack_timeout_err",
                "hw_counters/rnr_nak_retry_err",
            ),
            lost_received=("hw_counters/out_of_sequence",),
        ),
    )

    def knobs(self, host: Host, nic: Nic, group: str, value: object) -> Answer:
        if group == model.TRAFFIC_CLASS:
            return Answer(lacks=self.LACKS[group])
        if not nic.ports:
            return Answer(lacks=model.NO_DEVICE)
        if host.exists(_CONFIG):
            if group == model.CNP_PRIORITY and any(profile(host, device) for device, _port in nic.ports):
                shown = {self.read(host, device, str(port), _PRIORITY) for device, port in nic.ports}
                return Answer(managed=_OWNED, value=", ".join(sorted(shown)))
            files = {
                name: [(f"/roce/{device}/{port}/{name}", device) for device, port in nic.ports]
                for name in self.MOST
            }
        else:
            files = _debug(host, nic)
        if not files:
            return Answer(lacks=_NEITHER)
        if group != model.ECN:
            return Answer(
                tuple(Knob(path, str(value), device=device) for path, device in files[_GROUPS[group]])
            )
        knobs = [Knob(path, "1", "enable", device) for path, device in files[_ENABLE]]
        # Packets without ECT are dropped in congestion, not marked; ECT(0) equals ECT(1) (RFC 3168, 5).
        for path, device in files[_MARKING]:
            now = (host.value(path).text or "").strip()
            knobs.append(Knob(path, now if now in ("1", "2") else "1", "marking", device))
        return Answer(tuple(knobs))

    def remark(self, host: Host, nic: Nic, group: str) -> str:
        if (
            group == "dscp"
            and host.exists(_CONFIG)
            and not all(profile(host, device) for device, _port in nic.ports)
        ):
            return (
                "without a service profile, a change of ecn or cnp leaves only RoCE and CNP in the firmware"
            )
        return "congestion control is for all priorities of the device" if group == model.ECN else ""

    def get(self, host: Host, own: str, port: str, file: str) -> str:
        cc, name = f"{own}/ports/{port}/cc", _STAGED[file]
        text = host.read(f"{cc}/apply")
        shown = _shown(text, name)
        if not shown and file in (_DSCP, _PRIORITY) and _shown(text, _STAGED[_ENABLE]):
            # Not shown without congestion control, nor of a virtual function
            return _staged(host, f"{cc}/{name}")
        # The two ports of a bond
        return "/".join(sorted({_WORDS.get(word, word) for word in shown}))

    def values(self, port: str, file: str, text: str) -> dict[str, str]:
        cc = f"ports/{port}/cc"
        return {f"{cc}/{_STAGED[file]}": hex(int(text)), f"{cc}/apply": "0x1"}

    def put(self, host: Host, own: str, port: str, file: str, text: str) -> None:
        _stage_table(host, f"{own}/ports/{port}/cc", _STAGED[file])
        try:
            super().put(host, own, port, file, text)
        except HostError as error:
            refused = error.errno == errno.EINVAL and not error.path.endswith("/apply")
            if not refused or file not in (_DSCP, _PRIORITY):
                raise
            why = "with a service profile of the firmware it must be the DSCP of a priority for CNPs"
            raise HostError(f"set {file} in", own, None, f"{why}: set dscp and ets first") from error


def profile(host: Host, device: str) -> bool:
    """True if the firmware has a service profile for CNPs. Raises HostError.

    False without debugfs, as in Broadcom's bnxt_setupcc.sh: the driver then refuses the write.
    """
    path = f"{_DEBUG}/bnxt_re/{device}/info"
    value = host.value(path)
    if value.unreadable is not None:
        raise HostError("read", path, None, value.unreadable)
    line = _PROFILE.search(value.text or "")
    if value.absent is not None:
        return False
    if line is None and host.exists(f"{DEVICES}/{device}/device/physfn"):  # A virtual function has no line
        return False
    if line is None or line.group(1) not in ("0", "1"):
        shown = "missing" if line is None else repr(printable(line.group(1)[:20]))
        raise HostError("understand", path, None, f"fw_service_prof_type_sup is {shown}")
    return line.group(1) == "1"


def _shown(text: str, name: str) -> list[str]:
    """Values of a staged file in `apply`."""
    words = "ecn status" if name == _STAGED[_ENABLE] else name.replace("_", " ")
    sign = rf"^(?:slave )?{words}(?: \({name}\))?[ \t]*:[ \t]*(\S+)[ \t]*$"
    return re.findall(sign, text, re.MULTILINE)


def _staged(host: Host, path: str) -> str:
    text = host.read(path).strip()
    try:
        return str(int(text, 16))
    except ValueError as error:
        raise HostError("read", path, None, f"{text[:40]!r} is not a hexadecimal number") from error


def _stage_table(host: Host, cc: str, changed: str) -> None:
    """Stage the values of the firmware's table as they are. The driver refuses those of a profile."""
    for name in _TABLE:
        path = f"{cc}/{name}"
        if name == changed or not host.exists(path):
            continue
        number = int(_staged(host, path))
        try:
            if number:
                host.write_kernel(path, hex(number))
        except HostError as error:
            if error.errno != errno.EINVAL:
                raise


def _debug(host: Host, nic: Nic) -> dict[str, list[tuple[str, str]]]:
    """Files of the kernel's own driver. Raises HostError if debugfs cannot be read."""
    if not host.names(_DEBUG):
        raise HostError("read", _DEBUG, None, "it is empty: mount debugfs, in which bnxt_re has cc_config")
    folder = f"{_DEBUG}/bnxt_re/{nic.address}/cc_config"
    if not nic.address or not host.exists(folder):
        return {}
    return {name: [(f"{folder}/{file}", nic.ports[0][0])] for name, file in _KERNELS.items()}
