# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Vendors of GPUs and NICs stand below the noun, in drivers/: no code and no text of knobs/ and checks/ has
one.

Comments and docstrings may, and so may sources: they say where a fact comes from.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest
from ansible_collections.mlnode.tuning.tests.unit import shipped
from mlnode.drivers.gpu import awake, modules
from mlnode.drivers.gpu import drivers as gpu_drivers
from mlnode.drivers.roce import registry
from mlnode.model import accelerators

LIBRARY = shipped.LIBRARY / "_mlnode"

#: Names of processors and of clouds as well. AMD's processors have words of the kernel: see HARMLESS.
_OTHERS = {"Intel", "AWS", "Google"}
_NAMES = {
    *(vendor.name for vendor in accelerators.VENDORS.values()),
    *(driver.MODULE for driver in gpu_drivers.ALL),
    *(driver.partition("_")[0] for driver in registry.DRIVERS),
    *("Mellanox", "Broadcom", "Pensando", "mlx4", "amdkfd", "nicctl", "irdma"),
} - {*_OTHERS, "netdevsim"}
VENDOR = re.compile(rf"(?<![a-z])(?:{'|'.join(sorted(_NAMES))})(?![a-z])", re.IGNORECASE)

#: Names of devices that the kernel chooses, as examples in messages; kernel words about processors; documents
HARMLESS = re.compile(r"mlx5_[0-9]|amd[_-](?:iommu|pstate)|kvm_amd|https://\S+")
#: Arguments that say where a fact comes from
SOURCES = {"source", "reference"}

#: File → part of a text that stays, and why
ALLOWED = {
    "checks/audit/facts.py": ("NV-Kernels pull request", "a source"),
    "checks/audit/isolation.py": ("nodewright-packages", "a source"),
    "checks/jobs/remedy.py": ("MELLANOX_VISIBLE_DEVICES", "the variable of enroot for devices of any vendor"),
    "checks/rdma/inventory.py": ("enable_roce", "the one driver with this option of devlink"),
    "checks/subnet/fabric.py": ("Aggregation Node", "the name that the node gives itself"),
    "knobs/nccl/names.py": ("RCCL_USE_AMD_SMI_LIB", "names of the variables of a library"),
    "knobs/nics/schema.py": ("mlx5_core", "an example of a driver to choose NICs by"),
}


def texts(code: str) -> Iterator[tuple[int, str]]:
    """Line and text of each name and string, without docstrings and sources."""
    tree = ast.parse(code)
    left_out = {id(part) for node in ast.walk(tree) for part in _sources(node)}
    for node in ast.walk(tree):
        if id(node) in left_out:
            continue
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value
        elif isinstance(node, ast.Name):
            yield node.lineno, node.id
        elif isinstance(node, ast.Attribute):
            yield node.lineno, node.attr
        elif isinstance(node, ast.ImportFrom):
            yield node.lineno, node.module or ""
            yield from ((node.lineno, f"{alias.name} {alias.asname}") for alias in node.names)
        elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            yield node.lineno, node.name


def _sources(node: ast.AST) -> Iterator[ast.AST]:
    if isinstance(node, (ast.Module, ast.FunctionDef, ast.ClassDef)) and ast.get_docstring(node) is not None:
        first = node.body[0]
        assert isinstance(first, ast.Expr)
        yield first.value
    if isinstance(node, ast.keyword) and node.arg in SOURCES:
        yield from ast.walk(node.value)


def vendors(code: str) -> list[tuple[int, str]]:
    return [(line, text) for line, text in texts(code) if VENDOR.search(HARMLESS.sub("", text))]


def test_each_vendor_of_gpus_is_in_all_lists() -> None:
    """They are three, as a module of one area loads no whole driver."""
    names = [driver.VENDOR for driver in gpu_drivers.ALL]
    assert [module.VENDOR for module in modules.ALL] == names
    assert [gpu.VENDOR for gpu in awake.ALL] == names


@pytest.mark.parametrize("package", ["knobs", "checks"])
def test_no_vendor_stands_above_the_drivers(package: str) -> None:
    named: dict[str, list[tuple[int, str]]] = {}
    for path in sorted((LIBRARY / package).rglob("*.py")):
        where = path.relative_to(LIBRARY).as_posix()
        allowed, _why = ALLOWED.get(where, ("\0", ""))
        rest = [pair for pair in vendors(path.read_text(encoding="utf-8")) if allowed not in pair[1]]
        if rest:
            named[where] = rest
    assert named == {}, "put it below drivers/, behind the interface"


@pytest.mark.parametrize("where", ALLOWED)
def test_every_exception_is_used(where: str) -> None:
    code = (LIBRARY / where).read_text(encoding="utf-8")
    assert any(ALLOWED[where][0] in text for _line, text in vendors(code))


@pytest.mark.parametrize(
    "line",
    [
        "_VENDOR = 'NVIDIA'",
        "x = 'GPUs of AMD have no such mode'",
        "from ..drivers.gpu import nvidia_smi as smi",
        "if driver == 'mlx5_core': pass",
        "def read_bnxt(): pass",
        "advice = 'load mlx5_ib for mlx5_0'",
        "nvidia.persistence()",
    ],
)
def test_a_vendor_is_seen(line: str) -> None:
    assert vendors(line)


@pytest.mark.parametrize(
    "line",
    [
        "'''Sources of mlx5.'''",
        "Option('bool', 'text', source='NVIDIA, Driver Persistence')",
        "x = 'an RDMA device such as mlx5_0'",
        "x = 'amd_iommu=off'",
        "service = 'iceberg'",
    ],
)
def test_a_source_an_example_and_a_processor_are_no_vendor(line: str) -> None:
    assert not vendors(line)
