# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""One declaration on machines of the fixtures, against texts that were read line by line."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest
from ansible_collections.mlnode.tuning.tests.fixtures.build import tree
from ansible_collections.mlnode.tuning.tests.unit.machine import mounted
from mlnode.engine import engine
from mlnode.engine.engine import Plan, Request
from mlnode.engine.kind import Row
from mlnode.engine.steps import FileWrite
from mlnode.host.host import Host
from mlnode.knobs.nccl.kind import kind as nccl

GOLDEN = pathlib.Path(__file__).parents[6] / "fixtures" / "golden"

DECLARATION: dict[str, Any] = {
    "variables": {
        "NCCL_IB_HCA": "auto",
        "NCCL_SOCKET_IFNAME": "auto",
        "NCCL_IB_GID_INDEX": "auto",
        "NCCL_IB_TC": "auto",
        "NCCL_IB_TIMEOUT": 20,
        "NCCL_DEBUG": "WARN",
    }
}

_QOS = (
    '{"format": 1, "name": "fabric", "kinds": {"qos": {"rules": [{"name": "rails", "traffic_class": 106}]}}}'
)

#: What the trees of hardware do not have: the files of the system that each machine runs
FILES: dict[str, dict[str, str]] = {
    "hgx": {
        "/etc/nccl.conf": "# from the image\nNCCL_DEBUG=VERSION\nNCCL_IB_GID_INDEX=3\nNCCL_ALGO=Ring\n",
        "/etc/environment": "NCCL_IB_TIMEOUT=22\n",
        "/etc/profile.d/nccl.sh": "export NCCL_SOCKET_IFNAME=eno1\n",
    },
    # A node that was tuned has its origin.
    "roce8": {
        "/etc/mlnode/declared.d/fabric.json": _QOS,
        "/etc/mlnode/origin.json": '{"format": 1, "entries": []}',
    },
    "grace": {"/etc/nccl.conf": "NCCL_DEBUG=WARN\n"},
    "cloud-gpu": {},
    "small-vm": {},
    "container": {},
    "epyc256": {},
    "tiny-vm": {},
    "oci-gpu": {},
    "gcp-gpu": {},
    "gb200": {},
}


class Captured(Host):
    """A tree with a folder /etc laid over it."""

    def __init__(self, root: str, over: pathlib.Path) -> None:
        super().__init__(root, mounted(nccl.MOUNTS))
        self._over = over

    def real(self, path: str, follow: bool = True) -> str:
        return f"{self._over}{path}" if path.startswith("/etc") else super().real(path, follow)


def plan(name: str, folder: pathlib.Path) -> Plan:
    for path, text in FILES[name].items():
        (folder / path[1:]).parent.mkdir(parents=True, exist_ok=True)
        (folder / path[1:]).write_text(text)
    return engine.evaluate(Captured(tree(name), folder), Request("golden", nccl, DECLARATION))


def described(found: Plan) -> list[str]:
    lines = [line for row in found.rows for line in _row(row)]
    for step in found.steps:
        if isinstance(step, FileWrite) and "declared.d" not in step.path:
            lines.append(f"{step.path} ({f'then {step.notify}' if step.notify else 'nobody is told'})")
            lines += [f"    {line}" for line in (step.content or b"").decode().splitlines()]
    return lines


def _row(row: Row) -> list[str]:
    reading = row.reading
    return [
        row.setting.key,
        f"    declared {row.setting.claim}, want {reading.want}",
        f"    runtime {reading.runtime}, boot {reading.boot.value} ({reading.boot.source or '-'})",
        f"    {row.status}, {row.info.severity}: {row.reason or '-'}",
        *(f"    note: {note}" for note in [reading.note] if note not in ("", row.reason)),
    ]


@pytest.mark.parametrize("name", FILES)
def test_the_plan_for_every_machine(name: str, tmp_path: pathlib.Path) -> None:
    text = "\n".join(described(plan(name, tmp_path))) + "\n"
    assert text == (GOLDEN / f"{name}.nccl.txt").read_text(encoding="utf-8")
