# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The options that all areas with rules for NICs share."""

from __future__ import annotations

import re
from typing import Mapping

from ...model.record import regex
from ...model.schema import Form, Option, Table

#: Names of interfaces that the kernel accepts (net/core/dev.c: dev_valid_name), without special characters of
#: a shell
INTERFACE = Form(regex(r"(?!\.{1,2}\Z)[A-Za-z0-9_.@-]{1,15}\Z", re.ASCII), "an interface such as eth0")
_DEVICE = r"(?!\.{1,2}\Z)[A-Za-z0-9_.-]{1,63}\Z"
_DRIVER = Form(regex(_DEVICE, re.ASCII), "a driver such as mlx5_core")
_RDMA = Form(regex(_DEVICE, re.ASCII), "an RDMA device such as mlx5_0")
#: Vendor tools write eight digits of the domain where sysfs writes four or more
_ADDRESS = Form(
    regex(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[01][0-9a-f]\.[0-7]\Z", re.ASCII | re.IGNORECASE),
    "a PCI address such as 0000:41:00.0",
)
#: In the format of lspci(8) -n
_PCI_ID = Form(
    regex(r"[0-9a-f]{4}:[0-9a-f]{4}\Z", re.ASCII | re.IGNORECASE),
    "a vendor and device such as 15b3:101e, in quotes",
)
#: The most digits of a NIC's number in a kernel file: speeds in Mbit/s have seven
MOST = 10**8 - 1

_NAME = Form(
    regex(r"[a-z][a-z0-9_]{0,30}\Z", re.ASCII),
    "up to 31 of a-z, 0-9 and _, a letter first",
)

LINKS = ("up", "down")
#: Link layers of RDMA ports (drivers/infiniband/core/sysfs.c: link_layer_show); EFA's has no name
LINK_LAYERS = ("Ethernet", "InfiniBand")


_NICS: Table = {
    "drivers": Option(
        "list",
        "Kernel drivers, such as V(mlx5_core). A virtio NIC has V(virtio_net).",
        elements="str",
        form=_DRIVER,
    ),
    "addresses": Option(
        "list",
        "PCI addresses, such as V(0000:41:00.0). Eight digits of the domain are understood.",
        elements="str",
        form=_ADDRESS,
    ),
    "pci_ids": Option(
        "list",
        """
        PCI vendor and device, such as V(15b3:101e); in quotes, as YAML would take digits for a number.
        """,
        elements="str",
        form=_PCI_ID,
    ),
    "rdma": Option("list", "RDMA devices, such as V(mlx5_0).", elements="str", form=_RDMA),
    "rails": Option(
        "raw", "V(true) for all rails, or a list of their numbers, as C(mlnode topology) shows them."
    ),
    "nodes": Option("list", "NUMA nodes, by their numbers.", elements="int", least=0, most=MOST),
    "speeds": Option(
        "list",
        "Speeds in Mbit/s of links that are up, such as V(400000).",
        elements="int",
        least=0,
        most=MOST,
    ),
    "link": Option("str", "Only NICs whose link is up, or down.", choices=LINKS),
    "link_layer": Option("str", "Only NICs with an RDMA port of that kind.", choices=LINK_LAYERS),
    "management": Option(
        "bool",
        """
        V(false) excludes, and V(true) selects only, interfaces that carry a default route or the connection
        of the user who starts the run, and the interfaces below them.
        """,
    ),
}

_WHICH = """
    NICs of the rule. A NIC must match each given list; without a list, the rule is for all NICs with
    hardware.

    Virtual functions match only by name, address, PCI id or RDMA device.
"""


def rules(text: str, options: Mapping[str, Option]) -> Option:
    """The rules of an area, each with a name and NICs."""
    return Option("list", text, "dict", default=[], suboptions=options, keyed="name", parts=True)


def name(keys: str) -> Option:
    """The name of a rule. keys: the form of its settings' keys."""
    text = f"A word for the rule, of a to z, 0 to 9 and C(_). The settings are called {keys}."
    return Option("str", text, required=True, form=_NAME, declares=False)


def nics(names: str, text: str = _WHICH) -> Option:
    """The option for the NICs of a rule. names: kinds of interfaces that may be listed by name."""
    interfaces = Option("list", names, elements="str", form=INTERFACE)
    return Option("dict", text, suboptions={"names": interfaces, **_NICS}, declares=False)
