# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Device files of RDMA devices for user space (drivers/infiniband/core/uverbs_main.c).

Their class belongs to no network namespace: a device that was moved into one is still listed.
"""

from __future__ import annotations

import re
from typing import Iterator

from ..host.host import Host
from ..model.record import NamedTuple, regex

CLASS = "/sys/class/infiniband_verbs"
_NAME = regex(r"uverbs[0-9]{1,6}\Z", re.ASCII)
#: Functions on the way to the device; the last one is its own
_FUNCTION = regex(r"/([0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])(?=/)", re.ASCII)


class Uverbs(NamedTuple):
    """name: uverbs0. device: of RDMA, such as mlx5_0. number: MAJOR:MINOR. address: on PCI; empty for a
    device in software."""

    name: str
    device: str
    number: str
    address: str


def every(host: Host) -> tuple[Uverbs, ...]:
    """All device files by name. Raises HostError."""
    return host.once("device files of RDMA", lambda: tuple(_every(host)))


def _every(host: Host) -> Iterator[Uverbs]:
    for name in host.names(CLASS):
        if _NAME.match(name):
            folder = f"{CLASS}/{name}"
            functions = _FUNCTION.findall(host.link_target(folder))
            yield Uverbs(
                name,
                host.text(f"{folder}/ibdev").strip(),
                host.text(f"{folder}/dev").strip(),
                functions[-1] if functions else "",
            )
