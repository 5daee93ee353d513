# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""One value that one device does not take is one row, with every kind that has devices: the others are set,
it is not tried again, a playbook and a boot come to the same, and a revert leaves nothing of it."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pytest
from ansible_collections.mlnode.tuning.plugins.plugin_utils import profile
from ansible_collections.mlnode.tuning.tests.unit import door, questions
from ansible_collections.mlnode.tuning.tests.unit.faults import in_memory
from ansible_collections.mlnode.tuning.tests.unit.nodes import CASES, Case, Node, made
from mlnode.agent import call
from mlnode.agent import node as whole
from mlnode.engine import answers, boot_run, declared, engine, revert
from mlnode.engine.engine import Request
from mlnode.engine.kind import Row
from mlnode.engine.steps import KernelWrite, kernel_writes
from mlnode.model.errors import HostError, StoreError
from mlnode.model.setting import Status

KINDS = ("cpu", "gpu", "storage", "nic", "rail", "qos", "irq")

#: What a device does with a value: 0 where it ignores it, else the error of the write; `after`: it takes the
#: others of a write that sets several
WAYS: Mapping[str, tuple[int, bool]] = {
    "ignored": (0, True),
    "refused": (errno.EOPNOTSUPP, False),
    "half taken": (errno.EINVAL, True),
}


class Stubborn(Node):
    """Beside another class of node: the device of one kernel file does not take a value."""

    file = ""
    way: tuple[int, bool] = (0, True)
    tried: list[str]

    def write_kernel(self, path: str, value: str) -> None:
        folder, _slash, name = self.file.rpartition("/")
        names = path.rpartition("/")[2].split(",")
        several = path != self.file and path.startswith(f"{folder}/") and name in names
        if path != self.file and not several:
            super().write_kernel(path, value)
            return
        self.tried.append(path)
        number, after = self.way
        if several and after:
            others = [pair for pair in zip(names, value.split()) if pair[0] != name]
            super().write_kernel(
                f"{folder}/{','.join(one for one, _text in others)}", " ".join(text for _one, text in others)
            )
        if number:
            raise HostError(f"write {value!r} to", path, number)


def stubborn(node: Node, file: str, way: tuple[int, bool]) -> Stubborn:
    node.__class__ = type("Stubborn", (Stubborn, type(node)), {})
    assert isinstance(node, Stubborn)
    node.file, node.way, node.tried = file, way, []
    return node


def writes(node: Node, case: Case) -> list[KernelWrite]:
    found = [*kernel_writes(engine.evaluate(node, case.request).steps)]
    node.forget()
    return found


def chosen(found: Sequence[KernelWrite]) -> KernelWrite:
    """One that is set with others, where there is such a one."""
    ours = [write for write in found if write.file.taker]
    return next((write for write in ours if write.file.joined), ours[0])


@pytest.fixture(params=KINDS)
def case(request: pytest.FixtureRequest) -> Case:
    return CASES[request.param]


@pytest.fixture
def build(case: Case) -> Iterator[Callable[[str], Node]]:
    for folder in in_memory():

        def build(name: str, folder: Any = folder) -> Node:
            node = made(case, folder / name)
            node.enable_agent()
            return node

        yield build


def by_site(node: Node, request: Request) -> tuple[Sequence[Row], bool]:
    outcomes = engine.apply_together(node, lambda: [request])
    return outcomes.outcomes[0].rows, outcomes.changed


def by_boot(node: Node, request: Request) -> tuple[Sequence[Row], bool]:
    outcome, errors = boot_run.apply_each(node, request)
    assert errors == []
    return outcome.rows, outcome.changed


RUNS = pytest.mark.parametrize("run", [by_site, by_boot])
EVERY_WAY = pytest.mark.parametrize("way", WAYS)
ASKED = pytest.mark.parametrize("profile", [True, False], ids=["profile", "operator"])


def asked(case: Case, profile: bool) -> Request:
    keys = {setting.key for setting in door.parse(case.kind, case.spec)}
    return case.request._replace(profile=frozenset(keys if profile else ()))


def shown(rows: Sequence[Row]) -> dict[str, tuple[str, str]]:
    return {row.setting.key: (str(row.status), row.reason) for row in rows}


@RUNS
@EVERY_WAY
@ASKED
def test_one_value_that_one_device_does_not_take_is_one_row(
    build: Callable[[str], Node], case: Case, run: Any, way: str, profile: bool
) -> None:
    node = build("node")
    if run is by_boot:  # a boot finds what a playbook has declared
        door.apply(node, case.request._replace(layers=(engine.Layer.BOOT,)))
        node.forget()
    before = node.state()
    found = writes(node, case)
    target = chosen(found)
    node = stubborn(node, target.file.path, WAYS[way])
    request = asked(case, profile)

    rows, _changed = run(node, request)

    assert node.tried, "nothing was tried"
    assert node.value(target.file.path).text is not None
    for write in found:
        has = answers.values.fits(node.read(write.file.path), write.file.want, write.file.among)
        assert has is (write.file.path != target.file.path), write.file.path
    assert {row.status for row in rows if row.setting.key != target.key} <= {Status.OK, Status.CHANGED}
    [row] = [row for row in rows if row.setting.key == target.key]
    assert "not tried again until" in row.reason
    own, several = row.status, len(row.reading.parts) > 1
    wanted = {Status.REFUSED} if not profile else {Status.CHANGED} if several else {Status.UNSUPPORTED}
    assert own in wanted, shown(rows)[target.key]

    # A second run changes nothing and tries nothing, and a look says the same.
    node.forget()
    node.tried.clear()
    tuned = node.state()
    again, changed = run(node, request)
    assert not changed
    assert (node.tried, node.state()) == ([], tuned)
    [row] = [row for row in again if row.setting.key == target.key]
    assert row.status is (Status.OK if profile and several else own)
    assert "not tried again until" in row.reason
    node.forget()
    [seen] = engine.preview(node, [request]).outcomes
    assert shown(seen.rows) == shown(again)
    assert seen.steps == ()

    node.forget()
    revert.revert(node)
    node.unload()
    if run is by_site:
        assert node.state() == before
    assert not node.exists(answers.FOLDER)


def test_whichever_setting_it_is_a_second_run_leaves_it_alone(
    build: Callable[[str], Node], case: Case
) -> None:
    """What one value moves along with it is none of the others' business where it is not set."""
    found = writes(build("plan"), case)
    for key in dict.fromkeys(write.key for write in found if write.file.taker):
        node = build(key)
        target = next(write for write in found if write.key == key and write.file.taker)
        node = stubborn(node, target.file.path, (errno.EBUSY, True))
        request = asked(case, profile=False)
        by_site(node, request)
        node.forget()
        node.tried.clear()
        tuned = node.state()
        again, changed = by_site(node, request)
        assert (changed, node.tried, node.state()) == (False, [], tuned), key
        refused = [row.setting.key for row in again if row.status is Status.REFUSED]
        # Some have it by what the others do: trust in DSCPs comes with the first of them.
        moved_along = answers.values.fits(node.read(target.file.path), target.file.want)
        assert (key in refused) is not moved_along, shown(again)
        assert {row.status for row in again} <= {Status.OK, Status.REFUSED}, shown(again)


@EVERY_WAY
@ASKED
def test_a_playbook_and_a_boot_come_to_the_same(
    build: Callable[[str], Node], case: Case, way: str, profile: bool
) -> None:
    results = []
    for name, run in (("site", by_site), ("boot", by_boot)):
        node = build(name)
        door.apply(node, case.request._replace(layers=(engine.Layer.BOOT,)))
        node.forget()
        node = stubborn(node, chosen(writes(node, case)).file.path, WAYS[way])
        rows, _changed = run(node, asked(case, profile))
        results.append((shown(rows), node.memory(), node.names(answers.FOLDER)))
    assert results[0] == results[1]


def test_it_is_tried_again_once_the_device_or_the_value_is_another_one(
    build: Callable[[str], Node], case: Case
) -> None:
    node = build("node")
    target = chosen(writes(node, case))
    node = stubborn(node, target.file.path, (errno.EOPNOTSUPP, False))
    request = asked(case, profile=False)
    by_site(node, request)
    node.forget()

    known, part = answers.Answers(node), target.file
    assert known.answer_to(part) is not None
    assert known.answer_to(part._replace(want="another")) is None
    assert known.answer_to(part._replace(runtime="another")) is None
    real = node.real(part.taker)
    os.rename(real, f"{real}.old")
    (os.mkdir if os.path.isdir(f"{real}.old") else lambda path: open(path, "x").close())(real)
    assert known.answer_to(part) is None


def test_a_damaged_note_holds_nothing_back(build: Callable[[str], Node], case: Case) -> None:
    node = build("node")
    target = chosen(writes(node, case))
    for text in ("", "{", "[]", "null", '{"want": 1}', '{"want": "a", "got": 7}', "[" * 100_000):
        node.put(f"{answers.FOLDER}/{target.file.path.strip('/').replace('/', '!')}", text)
        assert answers.Answers(node).answer_to(target.file) is None
    by_site(node, case.request)
    assert answers.values.fits(node.read(target.file.path), target.file.want, target.file.among)


# -- who has asked -------------------------------------------------------------------------

#: As a controller asks for it
OPTIONS = questions.declare({"nic": {}}, install=False)
ADAPTIVE = "nic.fabric.coalesce.adaptive-rx"


@pytest.fixture
def virtio() -> Iterator[Node]:
    """With a second NIC whose device has no notification coalescing: it accepts the value and ignores it."""
    for folder in in_memory():
        node = made(CASES["nic"], folder / "node")
        node.enable_agent()
        for nic in (one for one in vars(node)["nics"].values() if one.coalesce):
            nic.driver, nic.ignores = "virtio_net", {"coalesce/adaptive-rx"}
            nic.coalesce["adaptive-rx"] = 0
        yield node


def ask(node: Node, overrides: dict[str, Any], **options: Any) -> tuple[dict[str, Any], dict[str, str]]:
    """The answer to the profile for training with these overrides, and the statuses."""
    found = profile.declared({"profile": "training", **overrides}, {}, lambda value: value)
    answer = call.CALLS["declare"](node, {**OPTIONS, **found._asdict(), **options})
    node.forget()
    settings = answer["areas"].get("nic", {}).get("settings", [])
    return answer, {item["key"]: item["status"] for item in settings}


def booted(node: Node) -> dict[str, str]:
    """The statuses of a boot, which has forgotten what a NIC answered."""
    for name in node.names(answers.FOLDER):
        os.unlink(f"{node.root}{answers.FOLDER}/{name}")
    node.forget()
    survey = whole.apply_all(node)
    node.forget()
    assert survey.errors == ()
    return {item.row.setting.key: str(item.row.status) for item in survey.rows}


def test_the_training_profile_does_not_fail_on_a_nic_that_ignores_it(virtio: Node) -> None:
    answer, statuses = ask(virtio, {})
    assert not answer["failed"], answer["msg"]
    assert statuses.pop(ADAPTIVE) == "unsupported"
    assert {*statuses.values()} <= {"ok", "changed", "clamped"}
    assert [text for text in answer["warnings"] if ADAPTIVE in text]
    # What was not taken is no difference that was made.
    assert "adaptive-rx" not in str([one for one in answer["diff"] if "/etc/" not in str(one)])
    answer, _statuses = ask(virtio, {})
    assert (answer["changed"], answer["failed"]) == (False, False)
    assert booted(virtio)[ADAPTIVE] == "unsupported"


def test_what_the_operator_declares_himself_fails_after_all_else_is_applied(virtio: Node) -> None:
    own = {"nic": {"rules": {"fabric": {"coalesce": {"adaptive-rx": True}, "rings": 2048}}}}
    answer, statuses = ask(virtio, own)
    assert answer["failed"]
    assert answer["msg"].startswith(f"node: refused: {ADAPTIVE}: ")
    assert "adaptive-rx on: the write was accepted, and it stays off" in answer["msg"]
    assert statuses.pop(ADAPTIVE) == "refused"
    assert {*statuses.values()} <= {"ok", "changed", "clamped"}
    # A look at it says the same, and so does a boot.
    answer, statuses = ask(virtio, own, check=True)
    assert (answer["failed"], answer["changed"], statuses[ADAPTIVE]) == (True, False, "refused")
    assert booted(virtio)[ADAPTIVE] == "refused"
    # Without it all is well.
    answer, statuses = ask(virtio, {"nic": {"rules": {"fabric": {"coalesce": None, "rings": 2048}}}})
    assert not answer["failed"], answer["msg"]
    assert ADAPTIVE not in statuses


def test_another_override_of_the_rule_leaves_it_the_profiles(virtio: Node) -> None:
    answer, statuses = ask(virtio, {"nic": {"rules": {"fabric": {"rings": 2048}}}})
    assert (answer["failed"], statuses[ADAPTIVE]) == (False, "unsupported")
    kept = declared.load(virtio, "node")
    assert kept is not None
    assert ADAPTIVE in kept.profile["nic"]
    assert not {key for key in kept.profile["nic"] if ".ring." in key}


def test_unsupported_may_be_declared_a_failure(virtio: Node) -> None:
    answer, _statuses = ask(virtio, {}, on_unsupported="fail")
    assert answer["failed"]
    assert f"unsupported: {ADAPTIVE}" in answer["msg"]


@pytest.mark.parametrize("raw", [[], "x", {"nic": "x"}, {"nic": [1]}, None])
def test_a_file_with_another_form_of_it_is_damaged(virtio: Node, raw: Any) -> None:
    path = declared.path_of("node")
    virtio.put(path, json.dumps({"format": 1, "name": "node", "kinds": {}, "profile": raw}))
    with pytest.raises(StoreError, match="profile holds"):
        declared.load(virtio, "node")
