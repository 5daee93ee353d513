# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whatever stands in a declaration, or in a file of the machine: it is reported and costs its own part."""

from __future__ import annotations

import copy
import json
import os
import pathlib
from collections.abc import Iterator
from typing import Any

import pytest
from ansible_collections.mlnode.tuning.tests.unit import cases, door
from ansible_collections.mlnode.tuning.tests.unit.effort import EFFORT
from ansible_collections.mlnode.tuning.tests.unit.faults import in_memory
from ansible_collections.mlnode.tuning.tests.unit.machine import FILES, KERNEL, THP, Machine
from ansible_collections.mlnode.tuning.tests.unit.nodes import CASES
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mlnode.agent import cli, drift, explain, node
from mlnode.agent.registry import KINDS
from mlnode.checks.audit import run as audit
from mlnode.engine import declared, engine
from mlnode.engine.declared import Declaration
from mlnode.model.errors import DeclarationError, HostError, MlnodeError
from mlnode.report import topology_table
from mlnode.topology import hardware

from ..knobs.qos.node import ROCE, QosNode

pytestmark = pytest.mark.robustness

quickly = settings(
    max_examples=20 * EFFORT,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)

#: Something of every kind, in every form that a kind has
WHOLE: dict[str, Any] = {
    **{kind: case.spec for kind, case in CASES.items()},
    "qos": {"rules": [ROCE]},
    **cases.load(pathlib.Path(__file__).with_name("every_form.yml")),
}

#: The setting of another declaration, which has to be applied and judged whatever happens to the first
OTHER = "thp.defrag"


@pytest.fixture(scope="module", name="folder")
def _folder() -> Iterator[pathlib.Path]:
    yield from in_memory()


def made(folder: pathlib.Path) -> Machine:
    """With something of all that is looked at."""
    machine = QosNode.made(folder)
    for path, text in {**KERNEL, **FILES}.items():
        if not machine.exists(path):
            machine.put(path, text if path in FILES else f"{text}\n")
    for path in ("/etc/default/grub", "/boot/grub/grub.cfg", "/etc/nccl.conf", "/etc/sysctl.d/x.conf",
                 "/etc/security/limits.conf", "/etc/default/irqbalance", "/etc/modules-load.d/x.conf",
                 "/etc/systemd/system.conf", "/etc/tuned/active_profile", "/proc/interrupts",
                 "/proc/1/limits", "/proc/1/status", "/etc/mlnode/management.json"):  # fmt: skip
        if not machine.exists(path):
            machine.put(path, "x\n")
    return machine


@pytest.fixture(scope="module")
def whole(folder: pathlib.Path) -> Machine:
    machine = made(folder / "whole")
    machine.remove("/etc/mlnode/management.json")
    machine.put(
        declared.path_of("other"), declared.render(Declaration("other", {"thp": {"defrag": "never"}}))
    )
    return machine


def test_what_is_mutated_is_sound(whole: Machine) -> None:
    whole.put(declared.path_of("all"), declared.render(Declaration("all", WHOLE)))
    found = node.survey(whole)
    assert found.errors == ()
    assert {item.row.setting.kind for item in found.rows} == {"agent", *KINDS}
    assert OTHER in {item.row.setting.key for item in found.rows}


# -- declarations --------------------------------------------------------------------------

HOSTILE = st.one_of(
    st.sampled_from(
        [None, True, False, 0, -1, 1.5, 1 << 63, 1 << 64, 10**40, "", "0\n\x1c", "²", "\x00", "\ud800",
         "\udcff", "eth0\x00", "9" * 5000, "auto", "max", "0-99999999999", "../../x", "\x1b[2J", "a\nb", "%",
         "1e999", "*", [], {}, [[]], [{}], {"": ""}, {"at_least": "x"}, {"at_most": -1}, {"name": "\x00"}]
    ),
    st.text(max_size=6),
    st.integers(),
    st.lists(st.integers() | st.text(max_size=3), max_size=3),
    st.dictionaries(st.text(max_size=4), st.integers() | st.text(max_size=3), max_size=2),
)  # fmt: skip


@st.composite
def mutated(draw: st.DrawFn) -> dict[str, Any]:
    """A sound specification of one kind with one or two places in it made into something else. What is drawn
    is copied: a list that was put into itself would have no end."""
    kind = draw(st.sampled_from(sorted(WHOLE)))
    document: dict[str, Any] = {kind: copy.deepcopy(WHOLE[kind])}
    for _time in range(draw(st.integers(1, 2))):
        places: list[tuple[Any, Any]] = []
        todo: list[Any] = [document]
        while todo:
            part = todo.pop()
            inner = list(part.items()) if isinstance(part, dict) else list(enumerate(part))
            places += [(part, key) for key, _value in inner]
            todo += [value for _key, value in inner if isinstance(value, (dict, list))]
        part, key = draw(st.sampled_from(places)) if places else (document, kind)
        how = draw(st.sampled_from(["replace", "replace", "add", "rename", "remove", "twice"]))
        value = part.pop(key, None) if how in ("rename", "remove") and isinstance(part, dict) else None
        if how == "rename" and isinstance(part, dict):
            part[draw(st.text(max_size=5) | st.sampled_from(["\x00", "\ud800", "nic", "allow"]))] = value
        elif how == "add" and isinstance(part, dict):
            part[draw(st.sampled_from(["new", "allow", "name", "nics", "\x00"]))] = copy.deepcopy(
                draw(HOSTILE)
            )
        elif how == "twice" and isinstance(part, list):
            part.append(copy.deepcopy(part[key]))
        elif how != "remove":
            part[key] = copy.deepcopy(draw(HOSTILE))
    return document


def judged(machine: Machine) -> None:
    """Nothing but words comes of it, and the other declaration is looked at and applied all the same."""
    machine.forget()
    machine.put(f"{THP}/defrag", "always defer defer+madvise [madvise] never\n")
    for look in (node.survey, node.apply_all):
        found = look(machine)
        key = {item.row.setting.key: item for item in found.rows}[OTHER]
        assert "other" in key.declared_by
    assert machine.now(f"{THP}/defrag").endswith("[never]") or any("thp" in words for words in found.errors)
    assert cli.main(["check", "--root", machine.root]) in (cli.OK, cli.ERROR, cli.DRIFT)
    json.dumps(drift.answer(machine, {"fail_at": "low", "ignore": [], "declarations": {}}))


@quickly
@given(mutated())
def test_a_mutated_declaration_costs_its_own_part(whole: Machine, document: dict[str, Any]) -> None:
    text = json.dumps({"format": declared.FORMAT, "name": "all", "kinds": document})
    whole.put(declared.path_of("all"), text)
    (kind, spec), *_more = [*document.items(), ("thp", {})]
    if not (kind == "thp" and isinstance(spec, dict) and "defrag" in spec):  # which two names may disagree on
        judged(whole)
    if kind in KINDS and isinstance(spec, dict):
        try:
            engine.evaluate(whole, door.request("all", kind, spec))
        except MlnodeError:
            pass
    try:
        explain.explain(whole, "vm.swappiness")
    except MlnodeError:
        pass


@settings(quickly, max_examples=10 * EFFORT)
@given(st.data())
def test_so_does_a_file_whose_bytes_are_damaged(whole: Machine, data: st.DataObject) -> None:
    content = bytearray(declared.render(Declaration("all", WHOLE)))
    at = data.draw(st.integers(0, len(content)))
    end = data.draw(st.integers(at, min(len(content), at + 40)))
    content[at:end] = data.draw(
        st.binary(max_size=8) | st.sampled_from([b"", b"[" * 50000, b"1" * 5000, b"NaN"])
    )
    whole.put(declared.path_of("all"), bytes(content))
    judged(whole)


DAMAGED = {
    "deep": '{"thp": ' + '{"a":' * 100_000 + "1" + "}" * 100_001,
    "half of a character": '{"nccl": {"variables": {"NCCL_DEBUG": "\\ud800"}}}',
    "infinite": '{"thp": {"enabled": Infinity}}',
    "NUL": '{"nic": {"rules": [{"name": "a", "nics": {"names": ["a\\u0000"]}}]}}',
    "digits": '{"nic": {"rules": [{"name": "a", "nics": {"speeds": [' + "9" * 5000 + "]}}]}}",
    "twice": '{"thp": {"enabled": "never"}, "thp": {"enabled": "always"}}',
    "one more end": "{}}",
}


@pytest.mark.parametrize("content", DAMAGED.values(), ids=DAMAGED)
def test_one_damaged_file_does_not_stop_a_boot(whole: Machine, content: str) -> None:
    path = declared.path_of("all")
    whole.put(path, f'{{"format": 1, "name": "all", "kinds": {content}}}')
    judged(whole)
    [words] = node.survey(whole).errors
    assert words.startswith(f"{path} is damaged (")
    assert words.endswith("): restore it, or remove it and run the playbook again")


@pytest.mark.parametrize(
    "value",
    ["\ud800", "\x00", float("nan"), 10**5000, "x" * 5_000_000],
    ids=["half", "NUL", "not a number", "digits", "long"],
)
def test_what_no_reader_would_take_is_not_written(machine: Machine, value: Any) -> None:
    before = machine.tree()
    for kind, spec in (("thp", {"enabled": value}), ("nccl", {"variables": {"NCCL_DEBUG": value}})):
        with pytest.raises(DeclarationError):
            door.apply(machine, door.request("a", kind, spec))
    assert machine.tree() == before


# -- files of the machine ------------------------------------------------------------------

CONTENTS = [
    b"9" * 5000 + b"\n",
    "²\n".encode(),
    b"0\n\x1c",
    b"",
    b"\0\n",
    b"-",
    b"--1\n",
    b"\xff\xfe",
    b"[1]\n9 9 9\n",
    b"-1\n",
    b"0-99999999999\n",
    b"eth0\0x\t00000000\t0102A8C0\t0003\t0\t0\t100\t00000000\t0\t0\t0\n",
]


#: With it each fourth name has one of the contents, and each has all of them with more effort
_STRIDE = 4 * len(CONTENTS) if EFFORT == 1 else 1


@pytest.fixture(scope="module")
def strange(folder: pathlib.Path) -> Machine:
    machine = made(folder / "strange")
    machine.put(declared.path_of("all"), declared.render(Declaration("all", WHOLE)))
    return machine


def looked_at(machine: Machine) -> None:
    machine.forget()
    node.survey(machine)
    topology_table.table(hardware.topology(machine), None)
    audit.all_checks(machine)


def alike(machine: Machine) -> dict[str, list[str]]:
    """Name of a file → all that are called so, but declarations."""
    found: dict[str, list[str]] = {}
    for folder, _folders, files in os.walk(machine.root):
        for name in files:
            path = os.path.join(folder, name)
            if not os.path.islink(path) and declared.FOLDER not in path:
                found.setdefault(name, []).append(path)
    return found


@pytest.mark.parametrize("content", CONTENTS, ids=range(len(CONTENTS)))
def test_no_file_of_the_machine_ends_in_another_error(
    strange: Machine, content: bytes, request: pytest.FixtureRequest
) -> None:
    """Each time all of a name, of some names: others are for the other contents."""
    names = sorted(alike(strange).items())
    first = 4 * CONTENTS.index(content) % _STRIDE
    known = {"core_id", "osrelease", "speed", "routes", "route"}
    for at, (name, paths) in enumerate(names):
        if at % _STRIDE != first and name not in known:
            continue
        old = [pathlib.Path(path).read_bytes() for path in paths]
        for path in paths:
            pathlib.Path(path).write_bytes(content)
        try:
            looked_at(strange)
        finally:
            for path, text in zip(paths, old):
                pathlib.Path(path).write_bytes(text)


@pytest.mark.parametrize("path", ["/sys/class/net/a\x00/mtu", "/sys/class/net/\ud800", "\x00"])
def test_what_is_no_path_is_an_error_of_the_machine(machine: Machine, path: str) -> None:
    for ask in (
        machine.read,
        machine.exists,
        machine.names,
        machine.is_link,
        machine.snapshot,
        machine.link_target,
    ):
        with pytest.raises(HostError, match="EINVAL"):
            ask(path)
    assert machine.value(path).unreadable is not None
    with pytest.raises(HostError, match="EINVAL"):
        machine.write_file(path, b"")
