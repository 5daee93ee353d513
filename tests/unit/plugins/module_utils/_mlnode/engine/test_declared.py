# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json

import pytest
from ansible_collections.mlnode.tuning.tests.unit import cases, door
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine
from ansible_collections.mlnode.tuning.tests.unit.nodes import CASES, Case
from mlnode.agent import declare
from mlnode.agent.declare import Order
from mlnode.agent.registry import KINDS
from mlnode.engine import declared, engine
from mlnode.engine.declared import Declaration
from mlnode.knobs.sysctl.kind import kind as sysctl
from mlnode.model.errors import DeclarationError, HostError, StoreError

PATH = f"{declared.FOLDER}/default.json"


def put(machine: Machine, text: str, path: str = PATH) -> None:
    machine.put(path, "")
    with open(machine.root + path, "wb") as stream:
        stream.write(text.encode("utf-8", "surrogateescape"))


def test_what_is_written_is_read_again(machine: Machine) -> None:
    kinds = {
        "thp": {"enabled": "madvise"},
        "sysctl": {"settings": {"b": "ä", "a": None, "c": {"at_least": 1}}},
    }
    written = Declaration("node_1-x", kinds)
    machine.write_file(written.path, declared.render(written))
    read = declared.load(machine, "node_1-x")
    assert read == written
    assert read is not None
    assert list(read.kinds) == ["thp", "sysctl"]
    assert list(read.kinds["sysctl"]["settings"]) == ["b", "a", "c"], "the order of the writes"
    assert declared.load_all(machine) == [written]


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_what_a_run_has_written_need_not_be_read(case: Case) -> None:
    """Each kind's specification is the same once it was JSON."""
    written = Declaration("kept", {case.kind: case.request.spec}, {case.kind: ["a"]})
    content = declared.render(written)
    assert declared.parse(content, written.path) == written
    assert declared.to_write(written) == content
    assert declared.parse(content, written.path) is written


def test_no_declaration_is_not_a_damaged_one(machine: Machine) -> None:
    assert declared.load(machine, "default") is None
    assert declared.load_all(machine) == []


@cases.table
def test_a_damaged_file_is_named_and_nothing_is_changed(machine: Machine, text: str) -> None:
    put(machine, text)
    before = machine.tree()
    request = engine.Request("default", sysctl, {"settings": {"vm.swappiness": 10}})
    for ask in (
        lambda: declared.load(machine, "default"),
        lambda: declared.load_all(machine),
        lambda: engine.evaluate(machine, request),
        lambda: door.apply(machine, request),
    ):
        with pytest.raises(StoreError, match=PATH):
            ask()
    assert machine.tree() == before


def test_the_file_of_a_name_that_is_none_is_named(machine: Machine) -> None:
    path = f"{declared.FOLDER}/Default.json"
    put(machine, '{"format": 1, "name": "Default", "kinds": {}}', path)
    with pytest.raises(StoreError, match=path):
        declared.load_all(machine)


def test_damaged_files_can_be_set_aside_but_are_told(machine: Machine) -> None:
    put(machine, "{")
    good = Declaration("good", {})
    put(machine, declared.render(good).decode(), good.path)
    errors: list[str] = []
    assert declared.load_all(machine, errors) == [good]
    assert len(errors) == 1
    assert PATH in errors[0]


def test_an_unreadable_file_is_no_missing_one(machine: Machine) -> None:
    put(machine, declared.render(Declaration("default", {})).decode())
    machine.unreadable[PATH] = 5
    for ask in (lambda: declared.load(machine, "default"), lambda: declared.load_all(machine)):
        with pytest.raises(HostError, match=f"{PATH}: EIO"):
            ask()


def test_other_files_of_the_folder_are_left_alone(machine: Machine) -> None:
    put(machine, "half", f"{declared.FOLDER}/.default.json.mlnode-tmp")
    put(machine, "notes", f"{declared.FOLDER}/README")
    assert declared.load_all(machine) == []


@pytest.mark.parametrize("name", ["a", "0", "default", "a-b_c", "a" * 63])
def test_names_that_may_be_files(name: str) -> None:
    assert declared.path_of(name) == f"{declared.FOLDER}/{name}.json"


@pytest.mark.parametrize(
    "name", ["", ".", "..", "a/b", "../x", "A", "-a", "_a", "a b", "a\n", "a.b", "é", "a" * 64, "٣"]
)
def test_names_that_may_not(machine: Machine, name: str) -> None:
    before = machine.tree()
    with pytest.raises(DeclarationError, match="use 1 to 63"):
        declared.path_of(name)
    with pytest.raises(DeclarationError, match="use 1 to 63"):
        declare.requests(machine, Order(name, KINDS, {"thp": {"enabled": "never"}}, ("thp",)))
    assert machine.tree() == before


def test_one_kind_is_replaced_and_the_others_are_kept() -> None:
    old = Declaration("n", {"thp": {"enabled": "never"}, "sysctl": {"settings": {"a": 1}}})
    new = declared.updated(old, "n", "thp", {"enabled": "always"})
    assert new.kinds == {"thp": {"enabled": "always"}, "sysctl": {"settings": {"a": 1}}}
    assert old.kinds["thp"] == {"enabled": "never"}
    assert list(new.kinds) == ["thp", "sysctl"], "in place, so that a second run finds the same file"


def test_what_declares_nothing_leaves(machine: Machine) -> None:
    old = Declaration("n", {"thp": {"enabled": "never"}, "sysctl": {"settings": {"a": 1}}})
    assert list(declared.updated(old, "n", "thp", {}).kinds) == ["sysctl"]
    assert declared.updated(None, "n", "sysctl", {"settings": {}}).kinds == {}
    freed = {"settings": {"a": None}}
    assert declared.updated(None, "n", "sysctl", freed).kinds == {"sysctl": freed}


def test_the_file_is_plain_json(machine: Machine) -> None:
    door.apply(machine, engine.Request("default", sysctl, {"settings": {"vm.swappiness": 10}}))
    assert json.loads(machine.read(PATH)) == {
        "format": 1,
        "name": "default",
        "kinds": {"sysctl": {"settings": {"vm.swappiness": 10}}},
    }
