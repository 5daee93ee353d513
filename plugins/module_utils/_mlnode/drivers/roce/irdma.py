# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Intel's irdma, on ice and idpf.

The kernel's own driver has no switch for congestion control. Intel's driver package has DCQCN in configfs:
/sys/kernel/config/irdma/DEVICE/roce_dcqcn_enable, 0 or 1, in RoCE mode (README of irdma, "ECN
Configuration"). DCQCN concerns all priorities of a device, and is off after a load of the driver.
"""

from __future__ import annotations

from ...host.host import Host
from . import model
from .configfs import ConfigfsDriver
from .model import Answer, Counters, Knob, Nic

_CONFIG = "/sys/kernel/config/irdma"
_FILE = "roce_dcqcn_enable"
_NO_CNP = "irdma has no setting for its congestion notifications (CNP)"
_NO_ECN = "the kernel's own irdma has no switch for congestion control; Intel's driver package has one"


class Irdma(ConfigfsDriver):
    MODULE = "irdma"
    SUPPORTS = {
        **model.COMMON,
        "ecn": "configfs `irdma` (Intel's package)",
    }
    LACKS = {
        "buffer": "ice sizes its receive buffers itself",
        model.ECN: _NO_ECN,
        model.CNP_DSCP: _NO_CNP,
        model.CNP_PRIORITY: _NO_CNP,
        model.TRAFFIC_CLASS: "irdma has no traffic class for all queue pairs: let the programs set theirs",
    }
    MOST = {model.ECN: 1}
    CONFIG = _CONFIG
    LACK = _NO_ECN
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

    def remark(self, host: Host, nic: Nic, group: str) -> str:
        del host, nic
        return "DCQCN is for all priorities of the device" if group == model.ECN else ""

    def get(self, host: Host, own: str, port: str, file: str) -> str:
        del port, file
        return host.read(f"{own}/{_FILE}").strip()

    def values(self, port: str, file: str, text: str) -> dict[str, str]:
        del port, file
        return {_FILE: text}
