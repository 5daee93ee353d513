# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What nccl-tests prints and writes, as captured from public sources and as its writer of JSON writes it."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest
from ansible_collections.mlnode.tuning.plugins.plugin_utils.nccl_tests import read
from ansible_collections.mlnode.tuning.tests.unit import cases, nccl_machine
from ansible_collections.mlnode.tuning.tests.unit.nccl_machine import Faults, Run

CAPTURED = pathlib.Path(__file__).parents[4] / "fixtures/nccl"
PATH = "/tmp/1.json"
MIB = 1 << 20


def captured(name: str) -> str:
    return (CAPTURED / name).read_text("utf-8")


def run(**faults: Any) -> Run:
    return Run(["a", "b"], gpus=2, least=MIB, most=8 * MIB, path=PATH, faults=Faults(**faults))


def both(run: Run) -> read.Reading:
    return read.read(nccl_machine.table(run), nccl_machine.document(run), PATH)


# -- tables that were captured --------------------------------------------------------------------


def test_a_table_is_read() -> None:
    found = read.read(captured("two_nodes.txt"), None, PATH)

    assert (found.source, found.ranks, found.out_of_bounds) == ("table", 2, 0)
    assert (found.version, found.nccl) == ("2.18.2", 23007)
    assert [device.hostname for device in found.devices] == ["a", "b"]
    assert len(found.rows) == 8
    assert found.rows[-1].size == 128 << 20
    assert found.rows[-1].out_of_place == read.Measure(5871.07, 22.86, 22.86, 0)


@pytest.mark.parametrize(
    "label", ["[1,0]<stdout>:", "[1,12]<stdout>: ", "[prterun-a-4711@1,0]<stdout>: ", "0: ", " 3: ", "003: "]
)
@pytest.mark.parametrize("name", ["two_nodes.txt", "rccl_two_nodes.txt", "wrong_results.txt"])
def test_the_label_of_a_launcher_is_no_part_of_the_table(label: str, name: str) -> None:
    lines = captured(name).rstrip("\n").split("\n")
    text = "".join(f"{label}{line}\n" for line in lines)
    assert read.read(text, None, PATH) == read.read(captured(name), None, PATH)
    with pytest.raises(ValueError, match="table"):
        read.read(f"a line of another program\n{text}", None, PATH)


def test_the_label_of_a_launcher_is_no_part_of_the_path_of_the_json() -> None:
    text = "".join(f"0: {line}\n" for line in nccl_machine.table(run()).split("\n"))
    assert read.read(text, nccl_machine.document(run()), PATH) == both(run())
    with pytest.raises(ValueError, match="is from another run"):
        read.read(text.replace(PATH, "/tmp/2.json"), nccl_machine.document(run()), PATH)


def test_a_table_of_rccl_tests_is_read() -> None:
    """RCCL writes its versions between the devices and the table."""
    found = read.read(captured("rccl_two_nodes.txt"), None, PATH)

    assert (found.source, found.ranks, found.out_of_bounds) == ("table", 16, 0)
    assert (found.version, found.nccl) == ("develop:448c4c7", 22203)
    assert {device.hostname for device in found.devices} == {"a", "b"}
    assert found.rows[-1].out_of_place == read.Measure(90115, 190.64, 357.46, 0)
    text = captured("rccl_two_nodes.txt").replace("RCCL version", "version").replace("rccl-tests:", "tests:")
    without = read.read(text, None, PATH)
    assert (without.version, without.nccl, without.rows) == ("", 0, found.rows)


def test_wrong_elements_are_read() -> None:
    found = read.read(captured("wrong_results.txt"), None, PATH)

    wrong = {row.size: (row.out_of_place.wrong, row.in_place.wrong) for row in found.rows}
    assert {size: both for size, both in wrong.items() if any(both)} == {1 << 20: (96, 32)}
    assert found.out_of_bounds == 4


@cases.table
def test_what_was_captured_without_a_result_is_none(name: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        read.read(captured(name), None, PATH)


@cases.table
def test_a_table_that_does_not_agree_with_itself_is_none(old: str, new: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        read.read(captured("two_nodes.txt").replace(old, new), None, PATH)


def test_a_size_that_is_there_twice_is_none() -> None:
    text = captured("two_nodes.txt")
    line = text.splitlines()[11]

    with pytest.raises(ValueError, match="twice"):
        read.read(text.replace(line, f"{line}\n{line}"), None, PATH)


# -- JSON ------------------------------------------------------------------------------------------


def test_json_is_read() -> None:
    found = both(run())

    assert (found.source, found.ranks, found.nccl, found.errors) == ("json", 4, 23007, ())
    assert [row.size for row in found.rows] == [MIB, 2 * MIB, 4 * MIB, 8 * MIB]
    assert len(found.rows[0].processes) == 2
    assert [len(times) for times in found.rows[0].processes[0]] == [20] * 4


def test_both_forms_are_the_same_result() -> None:
    whole = run(wrong=MIB)
    table = read.read(nccl_machine.table(whole, announced=False), None, PATH)

    assert both(whole).out_of_bounds == table.out_of_bounds == 1
    for one, other in zip(both(whole).rows, table.rows, strict=True):
        assert one.in_place.time == pytest.approx(other.in_place.time, rel=0.001)
        assert one.in_place.wrong == other.in_place.wrong


def test_of_a_process_with_several_gpus_all_are_counted() -> None:
    text = nccl_machine.document(run()).replace('"ngpus":1', '"ngpus":8')

    with pytest.raises(ValueError, match="with 32 GPUs"):
        read.read("", text, PATH)


@pytest.mark.parametrize("lost", [1, 2, 100, 1000])
def test_json_that_is_cut_off_is_none(lost: int) -> None:
    with pytest.raises(ValueError, match="damaged"):
        both(run(cut=lost))


@cases.table
def test_json_that_is_not_as_nccl_tests_writes_it_is_none(old: str, new: str, words: str) -> None:
    text = nccl_machine.document(run())
    assert old in text

    with pytest.raises(ValueError, match=words):
        read.read("", text.replace(old, new), PATH)


def test_a_file_with_another_name_is_of_another_run() -> None:
    stdout = nccl_machine.table(run()).replace(f"to {PATH}", f"to {PATH}.0")

    with pytest.raises(ValueError, match=r"to write /tmp/1[.]json, got .*1[.]json[.]0"):
        read.read(stdout, nccl_machine.document(run()), PATH)


def test_a_file_that_was_announced_has_to_be_there() -> None:
    with pytest.raises(ValueError, match="which is not there"):
        read.read(nccl_machine.table(run()), None, PATH)
