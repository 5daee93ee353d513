# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Answers of nvidia-smi -q -x, with the elements that the audit reads and some that it passes over.

Names, nesting and words are those of drivers 590 (nvsmi_device_v13.dtd) and 535 (nvsmi_device_v12.dtd).
"""

from __future__ import annotations

import pathlib
from collections.abc import Mapping
from xml.etree import ElementTree as ET

from ansible_collections.mlnode.tuning.tests.unit import cases

NOT_ACTIVE, ACTIVE = "Not Active", "Active"
NO_UUID = "00000000-0000-0000-0000-000000000000"

_GPUS = cases.load(pathlib.Path(__file__).with_suffix(".yml"))

#: Path of an element → its text, of a GPU behind an NVSwitch that is idle and well
WELL: dict[str, str] = _GPUS["well"]

#: The same of driver 535, on a GPU without NVSwitch
OLDER: dict[str, str] = _GPUS["older"]


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
