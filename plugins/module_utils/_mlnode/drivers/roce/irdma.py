# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Intel's irdma, on ice and idpf.

The kernel's own driver has no switch for congestion control. Intel's driver package has DCQCN in configfs:
/sys/kernel/config/irdma/DEVICE/roce_dcqcn_enable, 0 or 1, in RoCE mode (README of irdma, "ECN
Configuration"). DCQCN concerns all priorities of a device, and is off after a load of the driver.
"""

from __future__ import annotations

import errno

from ...host.host import Host
from ...model.errors import HostError, MissingError
from . import configfs, model
from .model import Answer, Counters, Knob, Nic, RoceDriver

_CONFIG = "/sys/kernel/config/irdma"
_FILE = "roce_dcqcn_enable"
_NO_CNP = "irdma has no setting for its congestion notifications (CNP)"
_NO_ECN = "the kernel's own irdma has no switch for congestion control; Intel's driver package has one"


class Irdma(RoceDriver):
    SUPPORTS = {
        "global_pause": "ethtool",
        "trust": "dcb",
        "dscp": "dcb",
        "ets": "dcb",
        "pfc": "dcb",
        "ecn": "configfs `irdma` (Intel's package)",
        "rdma_cm_tos": "configfs",
    }
    LACKS = {
        "buffer": "ice sizes its receive buffers itself",
        model.ECN: _NO_ECN,
        model.CNP_DSCP: _NO_CNP,
        model.CNP_PRIORITY: _NO_CNP,
        model.TRAFFIC_CLASS: "irdma has no traffic class for all queue pairs: let the programs set theirs",
    }
    FILES = (model.ECN,)
    CONFIG = _CONFIG
    #: hw/irdma/verbs.c, irdma_hw_stat_descs. It has no folder counters/, and none for lost packets of RoCE.
    COUNTERS = (
        Counters(
            ("hw_counters/ip4OutPkts", "hw_counters/ip6OutPkts"),
            ("hw_counters/ip4InPkts", "hw_counters/ip6InPkts"),
        ),
    )

    def knobs(self, host: Host, nic: Nic, group: str, value: object) -> Answer:
        del value
        if group != model.ECN:
            return Answer(lacks=self.LACKS[group])
        if not nic.ports:
            return Answer(lacks=model.NO_DEVICE)
        if not host.exists(_CONFIG):
            return Answer(lacks=_NO_ECN)
        knobs = (Knob(f"/roce/{device}/{port}/ecn", "1", "dcqcn", device) for device, port in nic.ports)
        return Answer(tuple(knobs))

    def remark(self, group: str) -> str:
        return "DCQCN is for all priorities of the device" if group == model.ECN else ""

    def read(self, host: Host, device: str, port: str, file: str) -> str:
        path = f"/roce/{device}/{port}/{file}"
        with configfs.folder(host, "read", path, _CONFIG, device, _NO_ECN) as folder:
            try:
                text = host.read(f"{folder}/{_FILE}").strip()
            except HostError as error:
                if not error.absent:
                    raise
                raise MissingError("read", path, f"{device} runs iWARP, which has no DCQCN") from error
        if text not in ("0", "1"):
            raise HostError("read", path, None, f"{_FILE} is {text[:40]!r}, neither 0 nor 1")
        return text

    def write(self, host: Host, device: str, port: str, file: str, text: str) -> None:
        action, path = f"write {text!r} to", f"/roce/{device}/{port}/{file}"
        if text not in ("0", "1"):
            raise HostError(action, path, errno.EINVAL)
        with configfs.folder(host, action, path, _CONFIG, device, _NO_ECN) as folder:
            host.write_kernel(f"{folder}/{_FILE}", text)

    def command(self, device: str, port: str, file: str, text: str) -> str:
        del port, file
        return configfs.command(f"{_CONFIG}/{device}", {_FILE: text})
