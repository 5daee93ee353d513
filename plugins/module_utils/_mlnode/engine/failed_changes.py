# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Changes of devices that the agent has tried and had to put back. They are not repeated: every try would
reset the device, and a change of queues starts the agent again through udev."""

from __future__ import annotations

import json
from typing import Any, Iterable

from ..host import places, trust
from ..host.host import Host
from ..model.errors import HostError, StoreError
from ..model.setting import KnobFile
from .steps import KernelWrite

#: One file for each device
FOLDER = places.FAILED_CHANGES


def hold(host: Host, device: str, writes: Iterable[KernelWrite], reason: str) -> None:
    """Make the agent leave these values alone from now on. Raises HostError."""
    values = {**_values(host, device), **{write.file.path: [write.file.want, reason] for write in writes}}
    host.write_file(f"{FOLDER}/{device}", json.dumps(values).encode("ascii"))


def held_back(host: Host, part: KnobFile) -> str:
    """Reason why a value is left alone; empty if it is not."""
    if part.unit is None and not part.device:
        return ""
    value, reason = _values(host, part.device.rpartition("/")[2]).get(part.path, ("", ""))
    if not reason or value != part.want:
        return ""
    return f"it was tried and put back: {reason}; mend that, and run the playbook again"


def _values(host: Host, device: str) -> dict[str, Any]:
    try:
        recorded = json.loads(trust.read(host, f"{FOLDER}/{device}"))
        return {path: (str(value), str(reason)) for path, (value, reason) in recorded.items()}
    except (HostError, StoreError, ValueError, TypeError, AttributeError, RecursionError):
        return {}  # a damaged or foreign note prevents nothing
