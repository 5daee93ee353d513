# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""One declaration on every machine of the fixtures, against texts that were read line by line."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest
from ansible_collections.mlnode.tuning.tests.fixtures.build import tree
from ansible_collections.mlnode.tuning.tests.fixtures.machines import MACHINES
from ansible_collections.mlnode.tuning.tests.unit.grub_machine import (
    DEFAULTS,
    MENU,
    MKCONFIG,
    READS_DROP_INS,
    menu,
)
from ansible_collections.mlnode.tuning.tests.unit.machine import mounted
from mlnode.engine import engine
from mlnode.engine.engine import Plan, Request
from mlnode.engine.kind import Row
from mlnode.engine.steps import FileWrite
from mlnode.host.host import Host
from mlnode.knobs.boot.kind import kind as boot

GOLDEN = pathlib.Path(__file__).parents[6] / "fixtures" / "golden"

#: The CPUs that epyc256 has isolated already. Halves of cores on hgx, and some missing on smaller machines.
DECLARATION: dict[str, Any] = {
    "parameters": {"transparent_hugepage": "madvise", "iommu": "pt", "console": ["tty0", "ttyS0,115200n8"]},
    "absent": ["quiet"],
    "isolate": {"cpus": "8-15,136-143"},
}

_DEBIAN = {
    "/usr/sbin/update-grub": "",
    "/usr/sbin/grub-mkconfig": MKCONFIG + READS_DROP_INS,
    DEFAULTS: 'GRUB_CMDLINE_LINUX_DEFAULT="quiet"\nGRUB_CMDLINE_LINUX=""\n',
}
_RED_HAT = {"/usr/sbin/grub2-mkconfig": MKCONFIG, "/boot/grub2/grub.cfg": "blscfg\n"}


def _entry(kernel: str, options: str) -> dict[str, str]:
    return {f"/boot/loader/entries/0123-{kernel}.conf": f"linux /vmlinuz-{kernel}\noptions {options}\n"}


#: What the trees of hardware do not have: the loader of the distribution that each machine runs
LOADERS: dict[str, dict[str, str]] = {
    "hgx": {**_DEBIAN, MENU: menu("iommu=pt", "quiet")},
    "cloud-gpu": {**_RED_HAT, **_entry("6.1.141", "root=UUID=0 ro console=ttyS0,115200n8 quiet")},
    "small-vm": {**_DEBIAN, MENU: menu("console=ttyS0")},
    "container": {},
    "grace": {**_DEBIAN, MENU: menu("init_on_alloc=0 iommu.passthrough=1")},
    "epyc256": {
        **_RED_HAT,
        **_entry(
            "6.12.0",
            "root=UUID=0 ro isolcpus=managed_irq,domain,8-15,136-143 nohz_full=8-15,136-143 "
            "rcu_nocbs=8-15,136-143",
        ),
        "/etc/kernel/cmdline": "root=UUID=0 ro isolcpus=managed_irq,domain,8-15,136-143\n",
    },
    "tiny-vm": {**_RED_HAT, **_entry("5.14.0", "root=/dev/mapper/rhel-root ro quiet")},
    "oci-gpu": {**_DEBIAN, MENU: menu("console=ttyS0 iommu=pt")},
    "gcp-gpu": {**_DEBIAN, MENU: menu("console=ttyS0,115200")},
    "gb200": {**_DEBIAN, MENU: menu("console=ttyS0 nvme_core.io_timeout=0")},
}


class Captured(Host):
    """A tree with the files of a loader laid over it."""

    def __init__(self, root: str, over: pathlib.Path) -> None:
        super().__init__(root, mounted(boot.MOUNTS))
        self._over = over

    def real(self, path: str, follow: bool = True) -> str:
        if path.startswith(("/boot", "/etc", "/usr")):
            return f"{self._over}{path}"
        return super().real(path, follow)


def plan(name: str, folder: pathlib.Path) -> Plan:
    for path, text in LOADERS[name].items():
        (folder / path[1:]).parent.mkdir(parents=True, exist_ok=True)
        (folder / path[1:]).write_text(text)
    return engine.evaluate(Captured(tree(name), folder), Request("golden", boot, DECLARATION))


def described(found: Plan) -> list[str]:
    lines = [line for row in found.rows for line in _row(row)]
    for step in found.steps:
        if isinstance(step, FileWrite) and "declared.d" not in step.path:
            lines.append(f"{step.path} ({f'then {step.notify}' if step.notify else 'nobody is told'})")
            text = (step.content or b"").decode().splitlines()
            # Of a drop-in what is particular about it.
            start = "GRUB_CMDLINE" if step.path.endswith(".cfg") else ""
            lines += [f"    {line}" for line in text if line.startswith(start)]
    return lines


def _row(row: Row) -> list[str]:
    boot_layer = row.reading.boot
    return [
        row.setting.key,
        f"    declared {row.setting.claim}, want {row.reading.want}",
        f"    runtime {row.reading.runtime}, boot {boot_layer.value} ({boot_layer.source or '-'})",
        f"    {row.status}, {row.info.severity}: {row.reason or '-'}",
    ]


@pytest.mark.parametrize("name", MACHINES)
def test_the_plan_for_every_machine(name: str, tmp_path: pathlib.Path) -> None:
    text = "\n".join(described(plan(name, tmp_path))) + "\n"
    assert text == (GOLDEN / f"{name}.boot.txt").read_text(encoding="utf-8")
