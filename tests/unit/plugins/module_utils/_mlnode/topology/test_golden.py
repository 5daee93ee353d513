# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The topology of every machine of the fixtures, against texts that were read line by line."""

from __future__ import annotations

import re

import pytest
from ansible_collections.mlnode.tuning.tests.fixtures.build import tree
from ansible_collections.mlnode.tuning.tests.fixtures.machines import MACHINES
from ansible_collections.mlnode.tuning.tests.unit.plugins.module_utils._mlnode.topology import golden
from ansible_collections.mlnode.tuning.tests.unit.work import calls
from mlnode.host.host import Host
from mlnode.topology import hardware


@pytest.mark.parametrize("name", MACHINES)
def test_the_topology_of_every_machine(name: str) -> None:
    for file, text in golden.texts(name).items():
        assert text == (golden.FOLDER / file).read_text(encoding="utf-8"), (
            f"{file} differs; if the new text is right, python -m {golden.__name__} writes it"
        )


def test_the_example_in_the_documentation_is_what_the_command_prints() -> None:
    page = (golden.FOLDER.parents[2] / "docs/guide/topology.md").read_text(encoding="utf-8")
    shown = page.split("$ mlnode topology\n")[1].split("...\n```")[0]

    assert golden.texts("hgx")["hgx.topology.txt"].startswith(shown)
    [block] = re.findall(r"```text\n(.*?)```", page, re.DOTALL)
    assert {*block.splitlines()} <= {*golden.texts("epyc256")["epyc256.topology.txt"].splitlines()}


def test_a_file_more_is_the_same_work_on_a_large_node() -> None:
    """256 CPUs and 2,048 interrupts beside 96 of each. One call more for every second pair of CPUs is too
    much."""

    def per_file(name: str) -> float:
        host = Host(tree(name), hardware.MOUNTS)
        return calls(lambda: hardware.read(host)) / calls(lambda: hardware.read(host), "open")

    assert per_file("epyc256") <= 1.3 * per_file("cloud-gpu")
