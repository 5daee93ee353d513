# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest
from ansible_collections.mlnode.tuning.tests.unit import cases
from mlnode.topology import gpus
from mlnode.topology.model import Gpu, Link, PciDevice


def device(vendor: int, kind: int, address: str = "0000:41:00.0", physfn: str | None = None) -> PciDevice:
    link = Link("32.0 GT/s PCIe", 16, "32.0 GT/s PCIe", 16)
    return PciDevice(address, vendor, 0x2330, kind << 8, (address,), "pci0000:40", "driver", 1, link, physfn)


@cases.table
def test_a_gpu_is_known_by_class_and_vendor(vendor: int, kind: int, name: str) -> None:
    one = device(vendor, kind)

    assert gpus.find([one]) == (Gpu("0000:41:00.0", name, 0x2330, 1, "driver", one.link),)


@cases.table
def test_what_drives_a_monitor_or_is_something_else_is_none(vendor: int, kind: int) -> None:
    assert gpus.find([device(vendor, kind)]) == ()


@cases.table
def test_gpus_with_a_link_of_their_own_to_the_cpu(vendor: int, number: int, coherent: bool) -> None:
    [found] = gpus.find([device(vendor, 0x0302 if vendor == 0x10DE else 0x1200)._replace(device=number)])

    assert found.coherent is coherent


@pytest.mark.parametrize("number, is_gpu", [(0xA250, False), (0xA251, False), (0xD802, True)])
def test_a_zip_engine_of_a_kunpeng_processor_is_none(number: int, is_gpu: bool) -> None:
    engine = device(0x19E5, 0x1200)._replace(device=number)

    assert bool(gpus.find([engine])) is is_gpu
    assert gpus.unknown([engine]) == ()


def test_intels_own_graphics_are_none() -> None:
    assert gpus.find([device(0x8086, 0x0300, "0000:00:02.0")]) == ()
    assert len(gpus.find([device(0x8086, 0x0380, "0000:00:02.0")])) == 1


def test_a_share_of_a_gpu_on_its_host_is_none() -> None:
    assert gpus.find([device(0x10DE, 0x0302, "0000:41:00.4", physfn="0000:41:00.0")]) == ()


@cases.table
def test_a_processing_accelerator_of_an_unknown_vendor_is_named(vendor: int, kind: int, named: bool) -> None:
    one = device(vendor, kind)

    assert gpus.unknown([one]) == ((one,) if named else ())
    assert gpus.unknown([device(vendor, kind, physfn="0000:41:00.0")]) == ()
