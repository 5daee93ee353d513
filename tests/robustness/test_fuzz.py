# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Declarations and files of every kind, ill-formed at one place: taken with its meaning, or refused in words.

The values that each kind takes are tried in the tests of its own parser; here it is all kinds alike.
"""

from __future__ import annotations

import contextlib
import copy
import io
import json
import os
import pathlib
import re
from collections.abc import Iterator
from typing import Any

import pytest
from ansible_collections.mlnode.tuning.tests.unit import cases, door, questions
from ansible_collections.mlnode.tuning.tests.unit.effort import TRIED, examples
from ansible_collections.mlnode.tuning.tests.unit.faults import in_memory
from ansible_collections.mlnode.tuning.tests.unit.nodes import CASES, Node, install, made
from hypothesis import event, given
from hypothesis import strategies as st
from mlnode.agent import call, cli, node
from mlnode.engine import confirm_store, declared, origin, revert
from mlnode.model.errors import DeclarationError, MlnodeError

pytestmark = pytest.mark.robustness

#: No line of any file, no word of any command and no name of any device holds one of these.
OUTSIDE = ("\n", "\r", "\0", "\x1b", "\x1c", "\x85", "\u2028", "\ud800", "\x7f")

Edits = list[tuple[int, int, bytes]]  # at which byte, how many are cut out, and what is put there
Path = tuple  # of keys and indexes into a declaration


def places(value: Any, at: Path = ()) -> Iterator[Path]:
    """Every place in a declaration, the whole of it first."""
    yield at
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, inner in items:
        yield from places(inner, (*at, name))


def replaced(value: Any, at: Path, new: Any) -> Any:
    if not at:
        return new
    changed = copy.copy(value)
    changed[at[0]] = replaced(value[at[0]], at[1:], new)
    return changed


def found_at(value: Any, at: Path) -> Any:
    for name in at:
        value = value[name]
    return value


SPECS = [(case.kind, spec) for case in CASES.values() for spec in (case.spec, case.other)]

junk = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(20, 4000).map(lambda digits: 10**digits),
    st.floats(),
    st.text(max_size=8),
    st.sampled_from(["", "-1", "0x10", "010", "1e3", "auto", "*", "..", "/", "-", "@", "null", "1 2", "a=b"]),
    st.lists(st.integers() | st.text(max_size=3), max_size=3),
    st.dictionaries(st.text(max_size=5), st.integers(), max_size=3),
)


@st.composite
def ill_formed(draw: st.DrawFn, new: st.SearchStrategy[Any]) -> tuple[str, dict[str, Any]]:
    """A kind, and a declaration of it in which one place is something else."""
    kind, spec = draw(st.sampled_from(SPECS))
    at = draw(st.sampled_from([*places(spec)][1:]))
    how = draw(st.sampled_from(["value", "key", "more"]))
    inside = found_at(spec, at[:-1])
    if how == "value" or not isinstance(inside, dict):
        return kind, replaced(spec, at, draw(new))
    name = draw(st.text(max_size=8))
    if how == "key":
        inside = {name if key == at[-1] else key: value for key, value in inside.items()}
    else:
        inside = {**inside, name: draw(new)}
    return kind, replaced(spec, at[:-1], inside)


@examples(150)
@given(ill_formed(junk))
def test_a_declaration_is_taken_as_it_will_be_read_again_or_refused(
    found: tuple[str, dict[str, Any]],
) -> None:
    TRIED["ill-formed inputs"] += 1
    kind, spec = found
    try:
        settings = door.parse(kind, spec)
    except DeclarationError:
        event(f"{kind}: refused")
        return
    event(f"{kind}: taken")
    kept = declared.Declaration("default", {kind: spec})
    again = declared.parse(declared.render(kept).decode("utf-8"), declared.path_of("default"))
    assert door.parse(kind, again.kinds[kind]) == settings
    assert len({setting.key for setting in settings}) == len(settings)


@st.composite
def with_a_stranger(draw: st.DrawFn) -> tuple[str, dict[str, Any], str]:
    """A kind, and a declaration of which one text or name holds what no grammar has."""
    kind, spec = draw(st.sampled_from(SPECS))
    at = draw(st.sampled_from([*places(spec)][1:]))
    value = found_at(spec, at)
    stranger = draw(st.sampled_from(OUTSIDE))

    def strange(text: str) -> str:
        cut = draw(st.integers(0, len(text)))
        return text[:cut] + stranger + text[cut:]

    inside = found_at(spec, at[:-1])
    if isinstance(inside, dict) and (draw(st.booleans()) or isinstance(value, (dict, list))):
        inside = {strange(str(key)) if key == at[-1] else key: kept for key, kept in inside.items()}
        return kind, replaced(spec, at[:-1], inside), stranger
    if isinstance(value, (dict, list)):
        value = ""
    return kind, replaced(spec, at, strange(str(value))), stranger


@examples(150)
@given(with_a_stranger())
def test_what_no_grammar_has_is_never_accepted(found: tuple[str, dict[str, Any], str]) -> None:
    """Refused, or not taken over: a name without a value is not declared, and a number has no line end."""
    TRIED["ill-formed inputs"] += 1
    kind, spec, stranger = found
    try:
        settings = door.parse(kind, spec)
    except DeclarationError:
        return
    for setting in settings:
        assert stranger not in f"{setting.key} {setting.path} {setting.want} {setting.claim}"


@examples(12)
@given(ill_formed(junk))
def test_a_run_with_an_ill_formed_declaration_ends_in_words(found: tuple[str, dict[str, Any]]) -> None:
    """As a play has it, and as the agent finds it on the node; and then it is undone."""
    TRIED["ill-formed inputs"] += 1
    kind, spec = found
    for folder in in_memory():
        machine = made(CASES[kind], folder / "node")
        bare = machine.state()
        install(machine)
        before = machine.state()
        refused = ""
        try:
            door.apply(machine, door.request("default", kind, spec))
        except MlnodeError as error:
            refused = str(error)
        assert not refused or machine.state() == before, refused
        with contextlib.suppress(MlnodeError):
            document = {"format": declared.FORMAT, "name": "other", "kinds": {kind: spec}}
            machine.put("/etc/mlnode/declared.d/other.json", json.dumps(document))
            node.survey(machine)
        machine.remove("/etc/mlnode/declared.d/other.json")
        machine.remove_empty("/etc/mlnode/declared.d")
        revert.revert(machine)
        machine.unload()
        assert machine.state() == bare


# -- files ---------------------------------------------------------------------------------

#: Kind → files that it reads, with what may be in them
FILES: dict[str, dict[str, str]] = cases.load(pathlib.Path(__file__).with_name("fuzz_files.yml"))

#: Kind → a declaration whose look opens more of its files than the case
DECLARED = {
    # tuned that is stopped has no profile that matters
    "services": CASES["services"].other,
    "containers": {**CASES["containers"].spec, "runtimes": ["podman", "docker", "crio", "kubelet"]},
}

#: Without them the files of NICs are not read, nor without ifup
RUNNING = ("NetworkManager.service", "systemd-networkd.service")

#: Of every kind: what runs keep, and what systemd and the kernel say of any node
COMMON = (
    declared.path_of("default"),
    origin.PATH,
    origin.COPY,
    confirm_store.PENDING,
    confirm_store.UNDONE,
    "/proc/meminfo",
)

TARGETS = [(kind, path) for kind, files in FILES.items() for path in (*files, *COMMON)]

edits = st.lists(
    st.tuples(
        st.integers(0, 200),
        st.integers(0, 12),
        st.one_of(
            st.binary(max_size=6),
            st.sampled_from(
                [b"\n", b"\0", b"\xff", b"=", b"[", b"]", b"{", b"}", b'"', b"'", b"\\", b"\\\n", b"NaN",
                 b"9" * 5000, b"[" * 3000, b"Infinity", b"-1", b"1e999", b"null", b"\x1b[2J", b"\xed\xa0\x80"]
            ),
        ),
    ),
    min_size=1,
    max_size=3,
)  # fmt: skip


def edited(content: bytes, changes: Edits) -> bytes:
    for at, cut, new in changes:
        place = at % (len(content) + 1)
        content = content[:place] + new + content[place + cut :]
    return content


@pytest.fixture(scope="module")
def tuned() -> Iterator[dict[str, Node]]:
    """A node of each kind as it is after a play; its files are put back after each example."""
    for folder in in_memory():
        found = {}
        for kind, files in FILES.items():
            found[kind] = machine = made(CASES[kind], folder / kind)
            install(machine)
            door.apply(machine, door.request("default", kind, DECLARED.get(kind, CASES[kind].spec)))
            for unit in RUNNING:
                machine.put(f"/sys/fs/cgroup/system.slice/{unit}/cgroup.procs", "1\n")
            machine.put("/usr/sbin/ifup", "")
            # Not before: an update-grub has a real shell read them.
            for path, text in files.items():
                machine.put(path, text)
            machine.forget()
        yield found


@contextlib.contextmanager
def ill_written(machine: Node, path: str, changes: Edits, usual: str) -> Iterator[None]:
    """The file is another one in here."""
    before = machine.content(path)
    machine.put(path, edited(usual.encode() if before is None else before, changes), 0o600)
    machine.forget()
    try:
        yield
    finally:
        machine.remove(path)
        if before is not None:
            machine.put(path, before)
        machine.forget()


@examples(50)
@given(st.sampled_from(TARGETS), edits)
def test_an_ill_formed_file_ends_no_look(
    tuned: dict[str, Node], target: tuple[str, str], changes: Edits
) -> None:
    """Whatever is in it, the rest is still looked at, with words about it, and nothing is written."""
    TRIED["ill-formed inputs"] += 1
    kind, path = target
    machine = tuned[kind]
    with ill_written(machine, path, changes, FILES[kind].get(path, "{}")):
        before = machine.state()
        with contextlib.suppress(MlnodeError):
            node.survey(machine)
        with contextlib.suppress(MlnodeError):
            revert.pending(machine)
        assert machine.state() == before


@examples(20)
@given(st.sampled_from(TARGETS), edits, st.sampled_from(["status", "check", "audit", "topology"]))
def test_the_command_prints_lines_and_no_traceback(
    tuned: dict[str, Node], target: tuple[str, str], changes: Edits, command: str
) -> None:
    TRIED["ill-formed inputs"] += 1
    kind, path = target
    machine = tuned[kind]
    said = io.StringIO()
    with ill_written(machine, path, changes, FILES[kind].get(path, "{}")), contextlib.redirect_stdout(
        said
    ), contextlib.redirect_stderr(said):
        assert cli.main([command, "--root", machine.root]) in (cli.OK, cli.ERROR, cli.DRIFT)
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", said.getvalue()), "a terminal would obey it"


@examples(12)
@given(st.sampled_from(sorted({*FILES} - {"boot"})), edits, st.booleans())
def test_a_damaged_store_makes_a_revert_write_nowhere_else(kind: str, changes: Edits, alone: bool) -> None:
    TRIED["ill-formed inputs"] += 1
    # Not of a boot loader, whose files a real shell would read.
    for folder in in_memory():
        machine = made(CASES[kind], folder / "node")
        install(machine)
        door.apply(machine, CASES[kind].request)
        before = {*machine.tree()}
        machine.put(origin.PATH, edited(machine.read_bytes(origin.PATH), changes), 0o600)
        if alone:
            machine.remove(origin.COPY)
        machine.forget()
        with contextlib.suppress(MlnodeError):
            revert.revert(machine)
        assert {*machine.tree()} - before == set(), "a revert has made something"


OPTIONS = st.dictionaries(
    st.sampled_from(
        [
            "ignore",
            "declarations",
            "instead",
            "fail_at",
            "size",
            "sha256",
            "options",
            "call",
            "layers",
            "areas",
            "profile",
            "selected",
            "leave",
            "risky",
            "confirm_seconds",
            "fabric_type",
            "on_unsupported",
            "diff",
            "install",
            "id",
            "padding",
        ]
    )
    | st.text(max_size=4),
    st.recursive(
        junk, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner)
    ),
)


#: What a controller asks → its options; a check of a declaration, as all of them are asked of one node
ASKED: dict[str, dict[str, Any]] = {
    "confirm": {"id": "", "padding": 0},
    "drift": {"ignore": [], "declarations": {}, "fail_at": "low"},
    "look": {"module": "node_audit", "given": {}, "check": True},
    "install": {"interpreter": "/usr/bin/env python3", "reload": False, "check": True, "diff": True},
    "revert": {"without_origin": False, "check": True, "diff": True},
    "declare": questions.declare(
        {"sysctl": {"settings": {"vm.swappiness": 10}}}, interpreter="", check=True, risky=False
    ),
}


@examples(20)
@given(st.text(max_size=40) | OPTIONS.map(json.dumps), OPTIONS)
def test_an_ill_formed_question_of_a_controller_is_answered(
    tuned: dict[str, Node], question: str, options: dict[str, Any]
) -> None:
    TRIED["ill-formed inputs"] += 1
    right = {"size": 0, "sha256": ""}
    questions = [question]
    for name, mine in ASKED.items():
        questions += [
            json.dumps({**right, "call": name, "options": {**mine, **options}}),
            json.dumps({**right, "call": name, "options": mine, **options}),
        ]
    for asked in questions:
        with contextlib.suppress(MlnodeError):
            assert json.dumps(call.answer(tuned["sysctl"], asked))


def test_the_questions_that_are_made_ill_formed_are_answered(tuned: dict[str, Node]) -> None:
    assert {*ASKED} == {*call.CALLS}
    for name, options in ASKED.items():
        question = {"size": 0, "sha256": "", "call": name, "options": options}
        assert "answer" in call.answer(tuned["sysctl"], json.dumps(question))


def note_reads(patch: pytest.MonkeyPatch, machine: Node, opened: set[str]) -> None:
    real = type(machine).read_bytes

    def noting(self: Node, path: str) -> bytes:
        opened.add(os.path.normpath(path))
        return real(self, path)

    patch.setattr(type(machine), "read_bytes", noting)


def test_every_file_that_is_ill_formed_here_is_read(tuned: dict[str, Node]) -> None:
    """Else nothing would be tried: a look at each node opens them."""
    unread: set[str] = set()
    for kind, machine in tuned.items():
        opened: set[str] = set()
        with pytest.MonkeyPatch.context() as patch:
            note_reads(patch, machine, opened)
            machine.forget()
            node.survey(machine)
        unread |= {*FILES[kind]} - opened
    assert sorted(unread) == []
