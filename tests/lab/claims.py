# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the collection promises, as checks on a machine: for itself, and for copies with a planted fault.

Every one begins on a machine that was just set back, and needs nothing but what the playbooks bring.
"""

from __future__ import annotations

from . import guest_facts as facts
from .collection import Collection
from .machine import Machine

#: Declared on top of the defaults: values that need a module, and both kinds of drop-ins with it
WITH_MODULES = {"net.ipv4.tcp_congestion_control": "bbr", "net.core.default_qdisc": "fq"}

LATE_FILE = "/etc/sysctl.d/zzz-late.conf"

#: Without the agent, only systemd's own services bring values back.
_WITHOUT_AGENT = "systemd.mask=mlnode-apply.service"

#: The kernel counts this one in ticks of 4 ms: it takes the number, and has another one then.
ROUNDED = "net.ipv4.neigh.default.retrans_time_ms"


def converge(collection: Collection, machine: Machine, *areas: str, **variables: object) -> None:
    """All of site.yml, or only the areas with these tags, which is much faster."""
    only = ["--tags", ",".join(areas)] if areas else []
    played = collection.play("site", machine, *only, **variables)
    assert played.status == 0, f"site.yml ended with {played.status}"


def boot_files_alone_bring_values_back(collection: Collection, machine: Machine) -> None:
    """sysctl.d and modules-load.d, without the help of the agent, after a power cut."""
    converge(collection, machine, "sysctl", node_sysctl=WITH_MODULES)
    machine.run("sync")
    machine.cut_power()
    machine.extra_command_line = _WITHOUT_AGENT
    try:
        machine.start()
    finally:
        machine.extra_command_line = ""
    found = {key: facts.sysctl(machine, key) for key in ("vm.swappiness", *WITH_MODULES)}
    assert found == {"vm.swappiness": "1", **WITH_MODULES}, f"not brought back by the drop-ins: {found}"
    assert {"tcp_bbr", "sch_fq"} <= facts.loaded(machine), "modules are not loaded at boot"


def a_value_that_does_not_take_is_an_error(collection: Collection, machine: Machine) -> None:
    """Read back, told, and everything of that call put back."""
    before = {key: facts.sysctl(machine, key) for key in (ROUNDED, "vm.swappiness")}
    played = collection.play("site", machine, "--tags", "sysctl", node_sysctl={ROUNDED: "5"})
    assert played.status != 0, f"a value that did not take went unnoticed: {facts.sysctl(machine, ROUNDED)}"
    assert "the write was accepted, but the kernel now shows" in played.output
    after = {key: facts.sysctl(machine, key) for key in before}
    assert after == before, f"not put back: {after}, was {before}"


def a_later_file_is_reported(collection: Collection, machine: Machine) -> None:
    """Somebody else's drop-in that sorts after ours: the next boot would bring another value."""
    converge(collection, machine, "sysctl")
    machine.write(LATE_FILE, "# somebody else\nvm.swappiness = 30\n")
    found = facts.wrong(machine)
    machine.run(f"rm {LATE_FILE}")
    assert list(found) == ["vm.swappiness"], f"an override went unnoticed: {found}"
    assert found["vm.swappiness"].startswith("overridden:")
    assert f"{LATE_FILE}:2" in found["vm.swappiness"]
