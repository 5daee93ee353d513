# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""tools/docs_support.py: tables of drivers and accelerators in docs/guide/support.md of the site."""

from __future__ import annotations

import importlib
import pathlib
import sys
from collections.abc import Iterator

import pytest
from ansible_collections.mlnode.tuning.tests.unit.roles import ROOT
from ansible_collections.mlnode.tuning.tools import docs_pages, docs_support
from mlnode.model import accelerators

PAGE = (ROOT / "docs/guide/support.md").read_text(encoding="utf-8")
FILES = {
    "__init__.py": "",
    "plain.py": "class Other:\n    pass\n",
    "services.py": 'SUPPORTS = {"restart": "systemctl"}\n',
    "roce/__init__.py": "",
    "roce/model.py": "class RoceDriver:\n    SUPPORTS = {}\n",
    "roce/one.py": (
        "from .model import RoceDriver\n"
        'class One(RoceDriver):\n    SUPPORTS = {"ecn": "configfs", "pfc": "dcb | lldp"}\n'
    ),
    "roce/two.py": (
        "from .model import RoceDriver\n"
        "from .one import One\n"
        'class Two(RoceDriver):\n    SUPPORTS = {"pfc": "dcb"}\n    LACKS = {"cnp": "no switch"}\n'
    ),
    "gpu/__init__.py": "",
    "gpu/three.py": (
        "class Topic:\n    name, source = 'gpu_ecc', '/sys/*/ras'\n"
        "class Three:\n    LOOKS = (((Topic,), print),)\n"
    ),
}


@pytest.fixture(name="package")
def _package(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    for name, text in FILES.items():
        path = tmp_path / "made_up_drivers" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield "made_up_drivers"
    for name in [name for name in sys.modules if name.startswith("made_up_drivers")]:
        del sys.modules[name]


def test_each_driver_is_a_column_of_its_noun(package: str) -> None:
    drivers = [*docs_support.known(importlib.import_module(package))]
    assert [(driver.noun, driver.name) for driver in drivers] == [
        ("gpu", "three"),
        ("roce", "one"),
        ("roce", "two"),
        ("services", "services"),
    ]
    assert docs_support.features(drivers[1:3]) == (
        "| feature | one | two |\n"
        "| --- | --- | --- |\n"
        "| `ecn` | configfs | – |\n"
        "| `pfc` | dcb \\| lldp | dcb |\n"
        "| `cnp` | – | unsupported: no switch |\n"
    )
    assert docs_support.features(drivers[:1]).endswith("| `gpu_ecc` | `/sys/*/ras` |\n")


def test_each_vendor_is_a_row_with_its_files() -> None:
    rows = docs_support.vendors().splitlines()[2:]
    assert [row.split(" | ")[0] for row in rows] == [f"| {it.name}" for it in accelerators.VENDORS.values()]
    for row, (number, vendor) in zip(rows, accelerators.VENDORS.items()):
        assert f"| `{number:04x}` |" in row
        assert all(f"`{name}`" in row for name, _why in vendor.services)
    assert not any(sign in "".join(rows) for sign in "(?{")


def test_the_page_of_the_site_has_the_tables() -> None:
    shown = docs_pages.of_site("guide/support.md", PAGE, "https://forge.example/tuning")
    assert docs_support.tables() in shown
    with pytest.raises(ValueError, match="the place of the drivers is missing"):
        docs_pages.with_drivers("# Support\n")
