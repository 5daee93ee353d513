# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Answers of nvidia-smi -q -x, with the elements that the audit reads and some that it passes over.

Names, nesting and words are those of drivers 590 (nvsmi_device_v13.dtd) and 535 (nvsmi_device_v12.dtd).
"""

from __future__ import annotations

from collections.abc import Mapping
from xml.etree import ElementTree as ET

NOT_ACTIVE, ACTIVE = "Not Active", "Active"
NO_UUID = "00000000-0000-0000-0000-000000000000"

_REASONS = (
    "gpu_idle", "applications_clocks_setting", "sw_power_cap", "hw_slowdown", "hw_thermal_slowdown",
    "hw_power_brake_slowdown", "sync_boost", "sw_thermal_slowdown", "display_clocks_setting",
)  # fmt: skip
_COUNTERS = ("sw_power_cap", "sync_boost", "sw_therm_slowdown", "hw_therm_slowdown", "hw_power_brake")

#: Path of an element → its text, of a GPU behind an NVSwitch that is idle and well
WELL = {
    "product_name": "NVIDIA H100 80GB HBM3",
    "persistence_mode": "Enabled",
    "gpu_recovery_action": "None",
    "performance_state": "P0",
    **{f"clocks_event_reasons/clocks_event_reason_{name}": NOT_ACTIVE for name in _REASONS},
    "clocks_event_reasons/clocks_event_reason_gpu_idle": ACTIVE,
    **{f"clocks_event_reasons_counters/clocks_event_reasons_counters_{name}": "0 us" for name in _COUNTERS},
    "remapped_rows/remapped_row_corr": "0",
    "remapped_rows/remapped_row_unc": "0",
    "remapped_rows/remapped_row_pending": "No",
    "remapped_rows/remapped_row_failure": "No",
    "fabric/state": "Completed",
    "fabric/status": "Success",
    "fabric/cliqueId": "0",
    "fabric/clusterUuid": NO_UUID,
    "fabric/health/summary": "N/A",
    "fabric/health/bandwidth": "N/A",
    "fabric/health/route_recovery_in_progress": "N/A",
    "fabric/health/incorrect_configuration": "N/A",
}

#: The same of driver 535, on a GPU without NVSwitch
OLDER = {
    "product_name": "NVIDIA A100-SXM4-80GB",
    "persistence_mode": "Enabled",
    "gpu_reset_status/reset_required": "No",
    "gpu_reset_status/drain_and_reset_recommended": "No",
    **{f"clocks_throttle_reasons/clocks_throttle_reason_{name}": NOT_ACTIVE for name in _REASONS},
    "remapped_rows": "N/A",
    "fabric/state": "N/A",
    "fabric/status": "N/A",
}


def answer(gpus: Mapping[str, Mapping[str, str]]) -> str:
    """gpus: address as sysfs has it → its elements."""
    log = ET.Element("nvidia_smi_log")
    ET.SubElement(log, "driver_version").text = "590.44.01"
    ET.SubElement(log, "attached_gpus").text = str(len(gpus))
    for address, elements in gpus.items():
        gpu = ET.SubElement(log, "gpu", id=f"0000{address.upper()}")
        for path, text in elements.items():
            _element(gpu, path).text = text
    head = '<?xml version="1.0" ?>\n<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v13.dtd">\n'
    return head + ET.tostring(log, encoding="unicode")


def _element(parent: ET.Element, path: str) -> ET.Element:
    for name in path.split("/"):
        child = parent.find(name)
        parent = ET.SubElement(parent, name) if child is None else child
    return parent
