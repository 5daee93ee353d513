# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import errno
import pathlib

import pytest
from ansible_collections.mlnode.tuning.tests.unit import cases
from ansible_collections.mlnode.tuning.tests.unit.plugins.module_utils._mlnode.topology.trees import Tree
from mlnode.topology.sysfs import Reader, integer, natural

PATH = "/sys/some/file"


@cases.table
def test_a_number_is_what_the_kernel_prints(text: str, expected: int | None) -> None:
    assert integer(text) == expected


def test_names_are_sorted_as_people_count() -> None:
    names = ["mlx5_10", "mlx5_2", "eth0", "mlx5_1", "٣", "²"]

    assert sorted(names, key=natural) == ["eth0", "mlx5_1", "mlx5_2", "mlx5_10", "²", "٣"]


def test_what_is_missing_is_a_problem_only_where_it_is_needed(tree: Tree) -> None:
    reader = Reader(tree.host)

    assert reader.text(PATH, needed=False) is None
    assert reader.number(PATH, needed=False) is None
    assert reader.cpus(PATH, needed=False) == ()
    assert reader.names(PATH, needed=False) == []
    assert reader.problems == []

    assert (reader.text(PATH), reader.cpus(PATH), reader.names(PATH)) == (None, (), [])
    assert [(problem.path, problem.what) for problem in reader.problems] == [
        (PATH, f"{PATH} does not exist")
    ] * 3


@pytest.mark.parametrize("needed", [False, True])
def test_what_cannot_be_read_is_always_a_problem(tree: Tree, needed: bool) -> None:
    reader = Reader(tree.refusing({PATH: errno.EACCES}))

    assert reader.text(PATH, needed) is None
    assert reader.cpus(PATH, needed) == ()
    assert reader.names(PATH, needed) == []
    assert reader.link(PATH) == ""
    assert not reader.exists(PATH)
    assert [problem.path for problem in reader.problems] == [PATH] * 5
    assert all(PATH in problem.what and "EACCES" in problem.what for problem in reader.problems)


def test_a_file_that_answers_with_an_error_where_it_does_not_apply_is_no_problem(tree: Tree) -> None:
    reader = Reader(tree.refusing({PATH: errno.EINVAL}))

    assert reader.quiet(PATH) == ""
    assert reader.problems == []


@pytest.mark.parametrize("text", ["", "(null)", " (null)", " "])
def test_every_spelling_of_no_cpus_is_none(tree: Tree, text: str) -> None:
    tree.put(PATH, text)
    reader = Reader(tree.host)

    assert reader.cpus(PATH) == ()
    assert reader.problems == []


def test_a_damaged_file_is_told_with_what_is_in_it(tree: Tree) -> None:
    tree.put(PATH, "rubbish")
    reader = Reader(tree.host)

    assert reader.number(PATH) is None
    assert reader.cpus(PATH) == ()
    assert [problem.what for problem in reader.problems] == [
        f"{PATH}: 'rubbish' is not a number",
        f"{PATH}: 'rubbish' is not a list of CPUs such as 0-3,8",
    ]


def test_a_link_is_a_path_of_the_machine(tree: Tree, tmp_path: pathlib.Path) -> None:
    tree.link("/sys/class/net/eth0", "/sys/devices/pci0000:00/0000:00:03.0/net/eth0")
    reader = Reader(tree.host)

    assert reader.link("/sys/class/net/eth0") == "/sys/devices/pci0000:00/0000:00:03.0/net/eth0"
    assert reader.link("/sys/class/net/eth1") == ""
    assert reader.problems == []


def test_an_empty_folder_is_no_problem(tree: Tree) -> None:
    (tree.root / "sys/empty").mkdir(parents=True)
    reader = Reader(tree.host)

    assert reader.names("/sys/empty") == []
    assert reader.problems == []
