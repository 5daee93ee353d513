# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kind of machine: bare metal, virtual machine or container, and its cloud.

Follows systemd-detect-virt(1), but reads files only: no file holds the processor's own answer (CPUID).
"""

from __future__ import annotations

import re

from ..host import mountinfo
from ..model.record import regex
from .model import Machine
from .sysfs import Reader

_DMI = "/sys/class/dmi/id"

#: Beginning of maker or model in the firmware's tables → hypervisor (systemd: src/basic/virt.c)
_HYPERVISORS = (
    ("KVM", "kvm"),
    ("Amazon EC2", "amazon"),
    ("QEMU", "qemu"),
    ("Google Compute Engine", "google"),
    ("VMware", "vmware"),
    ("VMW", "vmware"),
    ("innotek GmbH", "oracle"),
    ("VirtualBox", "oracle"),
    ("Xen", "xen"),
    ("Bochs", "bochs"),
    ("Parallels", "parallels"),
    ("BHYVE", "bhyve"),
    ("Apple Virtualization", "apple"),
    ("OpenStack", "kvm"),
    ("Virtual Machine", "microsoft"),
)

#: Beginning of the maker's name → cloud (cloud-init: tools/ds-identify)
_CLOUDS = (
    ("Amazon EC2", "aws"),
    ("Google", "gcp"),
    ("Alibaba Cloud", "alibaba"),
    ("DigitalOcean", "digitalocean"),
    ("Hetzner", "hetzner"),
    ("OpenStack Foundation", "openstack"),
    ("Tencent Cloud", "tencent"),
)

#: Chassis asset tag → cloud, if the maker is not specific: one fixed number on every Azure machine
_TAGS = {
    "7783-7084-3265-9085-8269-3286-77": "azure",
    "OracleCloud.com": "oci",
    "OpenTelekomCloud": "openstack",
}

#: Names that clouds also give to whole machines, and Xen, which also runs on its control domain; "": no name.
_ALSO_METAL = ("", "amazon", "google", "xen")

#: EC2 instances of a whole machine have no hypervisor: m7i.metal-24xl
_METAL = regex(r"\.metal(-|\Z)", re.ASCII)

#: Placeholders of board makers
_EMPTY = (
    "",
    "to be filled by o.e.m.",
    "default string",
    "system manufacturer",
    "system product name",
    "not specified",
)


def read(reader: Reader) -> Machine:
    """The machine according to its firmware, its kernel and the program that started this container."""
    vendor = _dmi(reader, "sys_vendor")
    product = _dmi(reader, "product_name")
    tag = _dmi(reader, "chassis_asset_tag")
    runtime = mountinfo.container(reader.host, reader.note)
    virtual, hypervisor = _virtual(reader, vendor, product)
    kind = {True: "virtual machine", False: "bare metal", None: "unknown"}[virtual]
    return Machine(
        kind="container" if runtime else kind,
        hypervisor=hypervisor if virtual else "",
        container=runtime,
        cloud=_cloud(reader, vendor, tag),
        product=" ".join(dict.fromkeys(text for text in (vendor, product) if text)),
    )


def _dmi(reader: Reader, name: str) -> str:
    """Text of a DMI field; "" if it is blank or missing, as on most of arm and Firecracker."""
    text = (reader.text(f"{_DMI}/{name}", needed=False) or "").strip()
    return "" if text.lower() in _EMPTY else text


def _virtual(reader: Reader, vendor: str, product: str) -> tuple[bool | None, str]:
    """(virtual, hypervisor): True if under a hypervisor, None if unknown, and the hypervisor's name."""
    named = _named(reader, vendor, product)
    if vendor == "Amazon EC2" and _METAL.search(product):
        return False, ""
    text = reader.text("/proc/cpuinfo") or ""
    flags = re.search(r"^flags\s*:(.*)$", text, re.MULTILINE)
    if flags:
        # VirtualBox and QEMU can hide the bit; the emulated machine keeps its name.
        virtual = "hypervisor" in flags.group(1).split() or named not in _ALSO_METAL
        return virtual, named if virtual else ""
    if named:
        return True, named
    return (False if vendor or product else None), ""


def _named(reader: Reader, vendor: str, product: str) -> str:
    kind = reader.text("/sys/hypervisor/type", needed=False)
    if kind:
        return kind
    for start, name in _HYPERVISORS:
        if product.startswith(start) or vendor.startswith(start):
            return name
    return ""


def _cloud(reader: Reader, vendor: str, tag: str) -> str:
    for start, name in _CLOUDS:
        if vendor.startswith(start):
            return name
    # EC2 before Nitro: the maker is Xen, and only the firmware's version shows it.
    if "amazon" in _dmi(reader, "bios_version"):
        return "aws"
    return _TAGS.get(tag, "")
