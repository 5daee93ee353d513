# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""ACPI tables (ASL source) that give the CPUs of a lab machine frequencies: QEMU's own tables have none.

The kernel wants the tables to name every CPU, so they are made for the exact number of CPUs.
"""

from __future__ import annotations

#: Where acpi-cpufreq writes the wanted state and reads the present one: a byte of I/O space per CPU that
#: keeps what was written. The scratch registers of the four serial ports do, so the machine needs all four.
SCRATCH_PORTS = (0x3FF, 0x2FF, 0x3EF, 0x2EF)

#: MHz and mW of each state, fastest first
STATES = ((3000, 95000), (2400, 70000), (1800, 50000), (1200, 30000))

#: Memory that stands in for the registers of collaborative processor performance control (CPPC), 256 bytes
#: per CPU; kept from the kernel by MEMMAP.
CPPC_BASE = 0x7000000
MEMMAP = f"memmap=64K$0x{CPPC_BASE:x}"

#: Where the energy-performance preference lies: byte 0x427 of the fixed hardware space. Nothing answers
#: there, and amd-pstate does not mind.
_EPP_REGISTER = 0x427

_EMPTY = "ResourceTemplate () { Register (SystemMemory, 0, 0, 0, 0) }"


def p_states(cpus: int) -> str:
    """_PSS, _PCT, _PPC and _PSD for acpi-cpufreq."""
    if cpus > len(SCRATCH_PORTS):
        raise ValueError(
            f"acpi-cpufreq needs a byte of I/O space per CPU, and there are {len(SCRATCH_PORTS)}"
        )
    states = ", ".join(
        f"Package () {{ {mhz}, {power}, 10, 10, {number}, {number} }}"
        for number, (mhz, power) in enumerate(STATES)
    )
    bodies = []
    for cpu, port in enumerate(SCRATCH_PORTS[:cpus]):
        register = f"ResourceTemplate () {{ Register (SystemIO, 8, 0, 0x{port:X}) }}"
        bodies.append(
            "Method (_PSS) { Return (\\_SB.LPSS) } Method (_PPC) { Return (0) } "
            f"Name (_PCT, Package () {{ {register}, {register} }}) {_domain(cpu)}"
        )
    return _table("CPUPSS", f"Name (\\_SB.LPSS, Package () {{ {states} }})", bodies)


def cppc(cpus: int) -> str:
    """_CPC, _PSD and _OSC for amd-pstate."""
    # Without _OSC the kernel takes the firmware for one that does not know CPPC.
    shared = "Scope (\\_SB) { Method (_OSC, 4) { Return (Arg3) } }"
    return _table("CPUCPC", shared, [f"{_cpc(cpu)} {_domain(cpu)}" for cpu in range(cpus)])


def _cpc(cpu: int) -> str:
    """Revision 3 of _CPC, ACPI 6.5, table 8.15; in its order."""
    base = CPPC_BASE + cpu * 0x100

    def register(offset: int, bits: int = 32) -> str:
        size = 3 if bits == 32 else 4
        return f"ResourceTemplate () {{ Register (SystemMemory, {bits}, 0, 0x{base + offset:X}, {size}) }}"

    items = [
        "23", "3",
        "255", "160", "80", "20",  # highest, nominal, lowest nonlinear and lowest performance
        _EMPTY,  # guaranteed
        register(0x10), register(0x14), register(0x18),  # desired, minimum, maximum
        _EMPTY, _EMPTY, _EMPTY,  # reduction tolerance, time window, counter wraparound
        register(0x20, 64), register(0x28, 64),  # reference and delivered counter
        register(0x1C), register(0x34), register(0x38),  # limited, enable, autonomous selection
        _EMPTY,  # autonomous window
        f"ResourceTemplate () {{ Register (FFixedHW, 8, 0, 0x{_EPP_REGISTER:X}, 4) }}",
        "160", "400", "2400",  # reference performance, lowest and nominal MHz
    ]  # fmt: skip
    return f"Name (_CPC, Package ({len(items)}) {{ {', '.join(items)} }})"


def _domain(cpu: int) -> str:
    """Every CPU is a frequency domain of its own, coordinated by software."""
    return f"Name (_PSD, Package () {{ Package () {{ 5, 0, {cpu}, 0xFC, 1 }} }})"


def _table(name: str, shared: str, bodies: list[str]) -> str:
    cpus = [f"\\_SB.CPUS.C{number:03X}" for number in range(len(bodies))]
    return "\n".join(
        [
            f'DefinitionBlock ("", "SSDT", 2, "LAB", "{name}", 1) {{',
            *(f"External ({cpu}, DeviceObj)" for cpu in cpus),
            shared,
            *(f"Scope ({cpu}) {{ {body} }}" for cpu, body in zip(cpus, bodies, strict=True)),
            "}",
            "",
        ]
    )
