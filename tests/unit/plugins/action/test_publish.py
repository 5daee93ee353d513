# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import os
import pathlib
from typing import Any

import pytest
from ansible.errors import AnsibleActionFail
from ansible_collections.mlnode.tuning.plugins.action import declare, publish
from ansible_collections.mlnode.tuning.tests.unit import nodes, pull_site
from ansible_collections.mlnode.tuning.tests.unit.plugins.action.asked import Node
from ansible_collections.mlnode.tuning.tests.unit.pull_site import NODE
from mlnode.agent import pull_document

AREAS = {"pull": {**nodes.PULL, "node": NODE}, "sysctl": {"settings": {"vm.swappiness": 10}}}


@pytest.fixture(scope="module")
def key(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    path = tmp_path_factory.mktemp("key") / "key"
    pull_site.key(path)
    return path


def rendered(monkeypatch: pytest.MonkeyPatch, areas: dict[str, Any], **other: Any) -> dict[str, Any]:
    """What declare returns, which asks no node."""
    found = Node(monkeypatch, declare, render=True, **areas, **other).run()
    assert (found["changed"], found["layers"]) == (False, [])
    question: dict[str, Any] = found["rendered"]
    return question


class Publisher:
    def __init__(self, monkeypatch: pytest.MonkeyPatch, key: pathlib.Path, folder: pathlib.Path) -> None:
        self.monkeypatch, self.key, self.folder = monkeypatch, key, folder

    def run(self, *areas: dict[str, Any], node: str = NODE, check: bool = False) -> dict[str, Any]:
        given = [rendered(self.monkeypatch, one) for one in areas or (AREAS,)]
        action = Node(
            self.monkeypatch, publish, declarations=given, folder=str(self.folder), key=str(self.key)
        )
        action.task.check_mode = check
        action.task.diff = True
        return action.run(inventory_hostname=node)

    def document(self) -> pull_document.Document:
        content = (self.folder / f"{NODE}.signed").read_bytes()
        return pull_document.parse(pull_document.split(content)[1])


@pytest.fixture
def publisher(monkeypatch: pytest.MonkeyPatch, key: pathlib.Path, tmp_path: pathlib.Path) -> Publisher:
    return Publisher(monkeypatch, key, tmp_path / "www" / "mlnode")


def test_a_declaration_is_published_once(publisher: Publisher) -> None:
    first = publisher.run()
    path = publisher.folder / f"{NODE}.signed"
    assert (first["changed"], first["path"]) == (True, str(path))
    assert first["diff"]["before"] == ""
    assert '"vm.swappiness": 10' in first["diff"]["after"]
    assert [one.name for one in publisher.folder.iterdir()] == [path.name]
    assert path.stat().st_mode & 0o777 == 0o644
    before = path.stat()
    assert before.st_mtime == first["serial"]
    again = publisher.run()
    assert (again["changed"], again["serial"]) == (False, first["serial"])
    # But for the time at which it was read last
    after = path.stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_what_is_published_is_what_declare_would_have_asked(publisher: Publisher) -> None:
    publisher.run()
    [found] = publisher.document().declarations
    question = rendered(publisher.monkeypatch, AREAS)
    assert {*found} == {*pull_document.FIELDS}
    assert found == {name: question[name] for name in found}


def test_another_declaration_has_a_greater_serial(
    publisher: Publisher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publish.time, "time", lambda: 1000.5)
    assert publisher.run()["serial"] == 1000
    monkeypatch.setattr(publish.time, "time", lambda: 900.0)  # of a clock that went back
    assert publisher.run({**AREAS, "sysctl": {"settings": {"vm.swappiness": 20}}})["serial"] == 1001
    # In another order, as that is the order of the writes
    assert publisher.run({**AREAS, "sysctl": {"settings": {"vm.swappiness": 30, "vm.dirty_ratio": 5}}})[
        "changed"
    ]
    assert publisher.run({**AREAS, "sysctl": {"settings": {"vm.dirty_ratio": 5, "vm.swappiness": 30}}})[
        "changed"
    ]
    assert publisher.document().serial == 1003


def test_another_key_signs_anew(publisher: Publisher, tmp_path: pathlib.Path) -> None:
    publisher.run()
    other = tmp_path / "other"
    pull_site.key(other)
    publisher.key = other
    assert publisher.run()["changed"]
    assert not publisher.run()["changed"]


@pytest.mark.parametrize("damage", [b"", b"half", None])
def test_a_damaged_file_is_replaced(publisher: Publisher, damage: bytes | None) -> None:
    publisher.run()
    path = publisher.folder / f"{NODE}.signed"
    path.write_bytes(path.read_bytes()[:-100] if damage is None else damage)
    assert publisher.run()["changed"]
    assert publisher.document().node == NODE


def test_check_mode_writes_nothing(publisher: Publisher) -> None:
    assert publisher.run(check=True)["changed"]
    assert not publisher.folder.exists()


@pytest.mark.parametrize(
    ("areas", "words"),
    [
        ({**AREAS, "sysctl": {"settings": {"vm.swappiness": [1]}}}, "node: vm.swappiness"),
        ({**AREAS, "cpu": {"governer": "performance"}}, "node: cpu.governer: unknown"),
        ({"sysctl": AREAS["sysctl"]}, "no declaration has it: set node_pull"),
        ({"pull": {**nodes.PULL, "node": "gpu002.example"}}, "it is 'gpu002.example'"),
        ({"pull": {"url": "https://a.example", "node": NODE}}, "pull.signers: is required"),
    ],
)
def test_what_is_not_published(publisher: Publisher, areas: dict[str, Any], words: str) -> None:
    with pytest.raises(AnsibleActionFail) as caught:
        publisher.run(areas)
    assert words in str(caught.value)
    assert not publisher.folder.exists()


def test_a_name_that_is_a_path(publisher: Publisher) -> None:
    with pytest.raises(AnsibleActionFail, match="the name of a node that pulls"):
        publisher.run(node="../gpu001")


def test_a_key_that_does_not_sign(publisher: Publisher) -> None:
    publisher.key = publisher.key.with_name("none")
    with pytest.raises(AnsibleActionFail, match=r"none\.pub"):
        publisher.run()
    publisher.key.with_suffix(".pub").write_text("ssh-ed25519 AAAA\n", encoding="utf-8")
    with pytest.raises(AnsibleActionFail, match="ssh-keygen cannot sign"):
        publisher.run()
    assert not publisher.folder.exists()


def test_a_disk_that_is_full_keeps_the_old_file(
    publisher: Publisher, monkeypatch: pytest.MonkeyPatch
) -> None:
    publisher.run()
    before = publisher.document()

    def full(_handle: int) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(publish.os, "fsync", full)
    with pytest.raises(AnsibleActionFail, match="No space left"):
        publisher.run({**AREAS, "sysctl": {"settings": {"vm.swappiness": 20}}})
    assert publisher.document() == before
    assert len([*publisher.folder.iterdir()]) == 1
