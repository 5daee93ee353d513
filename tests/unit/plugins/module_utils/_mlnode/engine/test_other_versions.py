# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""An agent and what another version of mlnode has written on the node."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

import pytest
from ansible_collections.mlnode.tuning.tests.unit import cases, door, questions
from ansible_collections.mlnode.tuning.tests.unit.machine import THP, Machine
from ansible_collections.mlnode.tuning.tests.unit.nodes import CASES
from mlnode.agent import archive as agent_zip
from mlnode.agent import call, cli, node
from mlnode.agent import install as agent
from mlnode.agent.registry import KINDS
from mlnode.engine import declared, handlers, origin, origin_paths, partial, revert
from mlnode.engine.engine import Request
from mlnode.knobs.sysctl.kind import kind as sysctl
from mlnode.knobs.thp.kind import kind as thp
from mlnode.model.errors import DeclarationError, StoreError
from mlnode.model.setting import Status

#: One sound setting of each kind, with others in a form that only a newer version knows; what is left of it,
#: and how often something is reported
NEWER: dict[str, dict[str, Any]] = {
    **{
        kind: {"spec": {**case.spec, "new": 1}, "left": case.spec, "count": 1} for kind, case in CASES.items()
    },
    **cases.load(pathlib.Path(__file__).with_name("newer_forms.yml")),
}


@pytest.mark.parametrize("kind", NEWER)
def test_a_setting_in_a_newer_form_costs_itself(kind: str) -> None:
    spec, left, count = NEWER[kind].values()
    with pytest.raises(DeclarationError):
        door.parse(kind, spec)
    before = json.dumps(spec)

    found, errors = partial.understood(KINDS[kind], spec)

    left = door.checked(kind, left)
    assert found == left
    assert json.dumps(spec) == before
    assert list(found) == [name for name in spec if name in left], "the order of the declaration"
    assert len(errors) == count, errors
    assert door.parse(kind, found)
    assert partial.understood(KINDS[kind], left) == (found, [])


def test_a_rule_is_told_by_its_place() -> None:
    _left, errors = partial.understood(KINDS["nic"], NEWER["nic"]["spec"])
    assert [words for words in errors if words.startswith("nic.rules[3].name: is required")]
    assert [words for words in errors if words.startswith("nic.rules[4]: must be a dictionary, got 'x'")]


@cases.table
def test_what_gives_the_others_their_meaning_costs_them_all(kind: str, spec: dict[str, Any]) -> None:
    found, errors = partial.understood(KINDS[kind], spec)
    assert door.parse(kind, found) == []
    assert len(errors) == 1


# -- runs ----------------------------------------------------------------------------------


def declare(machine: Machine, name: str, kinds: Mapping[str, Any], form: int = declared.FORMAT) -> str:
    text = json.dumps({"format": form, "name": name, "kinds": kinds, "comment": "of a newer version"})
    machine.put(declared.path_of(name), text)
    return text


def test_a_boot_applies_the_rest_and_keeps_what_it_does_not_understand(machine: Machine) -> None:
    machine.enable_agent()
    spec: dict[str, dict[str, Any]] = {"settings": {"vm.swappiness": 10, "vm.max_map_count": 262144}}
    door.apply(machine, Request("a", sysctl, spec))
    spec["settings"]["vm.dirty_ratio"] = {"at_most": 3}
    text = declare(machine, "a", {"sysctl": spec, "thp": {"enabled": "madvise", "new": 1}, "new": {"x": 1}})
    drop_in = "/etc/sysctl.d/zz-mlnode-a.conf"
    machine.put(drop_in, machine.read(drop_in) + "vm.dirty_ratio = 3\n")
    lines = machine.read(drop_in)
    machine.put("/proc/sys/vm/swappiness", "60\n")

    found = node.apply_all(machine)

    assert {item.row.setting.key: item.row.status for item in found.rows} == {
        "agent.boot": Status.OK,
        "vm.swappiness": Status.CHANGED,
        "vm.max_map_count": Status.OK,
        "thp.enabled": Status.CHANGED,
    }
    where = [words.partition(":")[0] for words in found.errors]
    assert where == [declared.path_of("a"), "a, thp", "a, sysctl"]
    assert "thp.new: unknown" in found.errors[1]
    assert "vm.dirty_ratio: {'at_most': 3} is not" in found.errors[2]
    assert machine.read(drop_in) == lines, "its line of the setting that is not understood"
    assert machine.read(declared.path_of("a")) == text

    again = node.survey(machine)
    assert not again.compliant
    assert {item.row.status for item in again.rows} == {Status.OK}
    assert again.errors == found.errors


def test_a_playbook_refuses_all_of_it_before_anything_is_touched(machine: Machine) -> None:
    before = machine.tree()
    for spec in ({"enabled": "madvise", "new": 1}, {"enabled": "madvise", "khugepaged": {"new": 1}}):
        with pytest.raises(DeclarationError, match="new: unknown"):
            door.apply(machine, door.request("a", "thp", spec))
    assert machine.tree() == before
    declare(machine, "b", {"thp": {"defrag": "never", "new": 1}})
    before = machine.tree()
    with pytest.raises(DeclarationError, match=r"b\.json: thp\.new: unknown"):
        door.apply(machine, Request("a", thp, {"enabled": "madvise"}))
    assert machine.tree() == before


def test_names_that_disagree_are_seen_beside_what_is_not_understood(machine: Machine) -> None:
    declare(machine, "a", {"thp": {"enabled": "madvise", "new": 1}})
    declare(machine, "b", {"thp": {"enabled": "never"}})
    found = node.apply_all(machine)
    assert found.rows == ()
    of_a, unknown, of_b = found.errors
    assert all("the two must agree" in words for words in (of_a, of_b))
    assert "thp.new: unknown" in unknown


def recorded(machine: Machine, **more: Any) -> None:
    """The origin of a drop-in, with something that only a newer version knows."""
    machine.enable_agent()
    door.apply(machine, Request("a", sysctl, {"settings": {"vm.swappiness": 10}}))
    document = json.loads(machine.read(origin.PATH))
    entry = next(entry for entry in document["entries"] if entry["id"].startswith("file:/etc/sysctl.d"))
    entry.update(more)
    machine.put(origin.PATH, json.dumps(document), 0o600)


@pytest.mark.parametrize("more", [{"notify": "a newer one"}, {"merge": "lines"}])
def test_a_revert_that_is_not_understood_removes_nothing(machine: Machine, more: dict[str, Any]) -> None:
    recorded(machine, **more)
    before = machine.tree()
    with pytest.raises(StoreError, match="nothing was changed: revert the node with the agent"):
        revert.revert(machine)
    assert machine.tree() == before


def test_nor_does_one_of_a_sort_that_is_not_known(machine: Machine) -> None:
    recorded(machine)
    document = json.loads(machine.read(origin.PATH))
    document["entries"].append({"id": "firmware:x", "key": "x", "value": "1", "firmware": "x"})
    machine.put(origin.PATH, json.dumps(document), 0o600)
    before = machine.tree()
    with pytest.raises(StoreError, match="the field 'firmware' is unknown"):
        revert.revert(machine)
    assert machine.tree() == before


SITE = questions.declare({"sysctl": {"settings": {"vm.swappiness": 20}}}, name="a", risky=False, diff=False)


@pytest.mark.parametrize("form", ["entry", "format"])
def test_the_agent_that_has_recorded_an_origin_is_there_when_site_refuses_it(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    """And what the message says leads on."""
    machine.put("/usr/local/bin/.keep", "")
    assert call._declare(machine, {**SITE, "interpreter": sys.executable})["failed"] is False
    document = json.loads(machine.read(origin.PATH))
    if form == "format":
        document["format"] = 0
    else:
        next(entry for entry in document["entries"] if entry["id"].startswith("file:/etc/sysctl.d"))[
            "merge"
        ] = "x"
    machine.put(origin.PATH, json.dumps(document), 0o600)
    machine.put(origin.COPY, machine.read(origin.PATH), 0o600)
    before = machine.tree()
    for check in (True, False):
        # Of another interpreter: the command would be replaced.
        answer = call._declare(machine, {**SITE, "check": check})
        assert answer["failed"]
        for words in ("nothing was changed", "run mlnode revert on the node, then site.yml again"):
            assert words in answer["msg"]
        assert machine.tree() == before, "the command as well"

    with monkeypatch.context() as older:
        if form == "entry":
            older.setitem(origin_paths._SORTS, "file", origin_paths._SORTS["file"] | {"merge"})
        else:
            older.setattr(origin, "FORMAT", 0)
        revert.revert(machine)
    machine.forget()
    assert machine.now("/proc/sys/vm/swappiness") == "60"

    answer = call._declare(machine, {**SITE, "interpreter": sys.executable})
    assert (answer["failed"], answer["msg"]) == (False, "")
    assert machine.now("/proc/sys/vm/swappiness") == "20"


def test_every_refresh_of_this_version_is_known() -> None:
    for name in handlers.HANDLERS:
        entry = {"id": "file:/x", "key": "/x", "value": "", "file": "/x", "notify": name}
        origin_paths.refuse_unknown(entry)


# -- agents of other versions --------------------------------------------------------------


@pytest.fixture(scope="module")
def sources() -> dict[str, bytes]:
    return agent._files()


def built(sources: Mapping[str, bytes], path: pathlib.Path, changes: Mapping[str, tuple[str, str]]) -> str:
    """An agent of a version whose sources differ by these replacements."""
    files = dict(sources)
    for name, (old, new) in changes.items():
        text = files[name].decode("utf-8")
        assert old in text, f"{name} no longer holds {old!r}"
        files[name] = text.replace(old, new).encode("utf-8")
    path.write_bytes(agent_zip.build(files, sys.executable, compiled=False))
    return str(path)


def run(command: str, *words: str) -> tuple[int, str, str]:
    done = subprocess.run(
        [sys.executable, "-I", command, *words], capture_output=True, text=True, check=False, timeout=60
    )
    return done.returncode, done.stdout, done.stderr


KIND_REMOVED = {"mlnode/agent/registry.py": ('    "thp": "thp",\n', "")}
OPTION_REMOVED = {
    "mlnode/knobs/thp/schema.py": ('"defrag": Option(\n        "str"', '"of_later": Option(\n        "str"')
}
FORM_REMOVED = {"mlnode/knobs/sysctl/parse.py": ('("at_least", "exactly", "for_bytes")', '("at_least",)')}
NEXT_FORMAT = {"mlnode/engine/declared.py": ("FORMAT = 1", "FORMAT = 2")}

#: Changes of the sources → settings that are judged all the same, and the words of the error
OLDER: dict[str, tuple[dict[str, tuple[str, str]], list[str], str]] = {
    "without a kind": (
        KIND_REMOVED,
        ["vm.swappiness", "vm.nr_hugepages"],
        "kind 'thp' is unknown to this version",
    ),
    "without an option": (
        OPTION_REMOVED,
        ["vm.swappiness", "vm.nr_hugepages", "thp.enabled"],
        "all, thp: thp.defrag: unknown",
    ),
    "without a form": (
        FORM_REMOVED,
        ["vm.swappiness", "thp.enabled", "thp.defrag"],
        "all, sysctl: vm.nr_hugepages: {'for_bytes': 1048576} is not",
    ),
}  # fmt: skip


@pytest.mark.parametrize("changes, judged, words", OLDER.values(), ids=OLDER)
def test_an_older_agent_judges_what_it_understands(
    changes: dict[str, tuple[str, str]],
    judged: list[str],
    words: str,
    sources: dict[str, bytes],
    machine: Machine,
    tmp_path: pathlib.Path,
) -> None:
    machine.enable_agent()
    door.apply(machine, Request("all", thp, {"enabled": "madvise", "defrag": "never"}))
    settings = {"vm.swappiness": 10, "vm.nr_hugepages": {"for_bytes": 1 << 20}}
    door.apply(machine, Request("all", sysctl, {"settings": settings}))
    assert cli.main(["check", "--root", machine.root]) == cli.OK
    before = machine.tree()

    status, out, err = run(built(sources, tmp_path / "older", changes), "status", "--root", machine.root)

    assert status == cli.ERROR
    assert [line.split()[0] for line in out.splitlines()[1:-2]] == [
        "agent.boot",
        *sorted(judged, key=lambda key: not key.startswith("thp")),
    ]
    assert len(err.splitlines()) == 1
    assert words in err
    assert machine.tree() == before


def test_an_older_agent_names_the_document_of_a_newer_one(
    sources: dict[str, bytes], machine: Machine, tmp_path: pathlib.Path
) -> None:
    declare(machine, "new", {"thp": {"enabled": "never"}}, form=2)
    declare(machine, "old", {"thp": {"defrag": "madvise"}})
    older = built(sources, tmp_path / "older", {})
    status, out, err = run(older, "status", "--root", machine.root)
    assert status == cli.ERROR
    assert "thp.defrag" in out
    assert err == (
        f"mlnode: {declared.path_of('new')}: format 2 is newer than 1, the newest that this version of "
        "mlnode reads: install the agent of the version that wrote it\n"
    )
    with pytest.raises(StoreError, match="format 2 is newer than 1"):
        door.apply(machine, Request("old", thp, {"defrag": "never"}))
    assert machine.now(f"{THP}/defrag").partition("[")[2].startswith("madvise")


def test_a_newer_agent_names_the_document_of_an_older_one(
    sources: dict[str, bytes], machine: Machine, tmp_path: pathlib.Path
) -> None:
    declare(machine, "new", {"thp": {"defrag": "madvise"}}, form=2)
    declare(machine, "old", {"thp": {"enabled": "never"}})
    newer = built(sources, tmp_path / "newer", NEXT_FORMAT)
    status, out, err = run(newer, "status", "--root", machine.root)
    assert status == cli.ERROR
    assert "thp.defrag" in out
    assert err == (
        f"mlnode: {declared.path_of('old')}: format 1 is not 2, which this version of mlnode writes\n"
    )
