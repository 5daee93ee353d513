# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ways through session stacks, held against those that this machine's own libpam takes."""

from __future__ import annotations

import itertools
import os
import pathlib
import re
import tempfile
from collections.abc import Sequence

import pytest
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine
from ansible_collections.mlnode.tuning.tests.unit.strategies import quick
from hypothesis import example, given, strategies
from mlnode.linux import pam_stack
from mlnode.model.errors import HostError

from . import libpam

LIMITS = "pam_limits.so"
#: A module whose value is chosen: pam_debug returns what its argument says
ANY = "pam_debug.so"
FOLDER = "/etc/pam.d"

can_ask = pytest.mark.skipif(
    os.getuid() != 0 or bool(libpam.lacking()), reason=f"needs root and libpam: {libpam.lacking()}"
)


def machine(root: pathlib.Path, files: dict[str, str]) -> Machine:
    made = Machine(str(root))
    for module in (LIMITS, ANY, "pam_permit.so", "pam_deny.so"):
        made.put(f"/usr/lib/security/{module}", "")
    for name, text in files.items():
        made.put(name if name.startswith("/") else f"{FOLDER}/{name}", text)
    return made


def expected(root: pathlib.Path, files: dict[str, str]) -> set[bool]:
    """Whether pam_limits was called, of the sessions that our reading says can open."""
    steps = pam_stack.Stacks(machine(root, files)).sessions("x")
    return {call.step is not None for call in pam_stack.ways(steps, LIMITS)}


def returning(text: str, values: Sequence[str]) -> str:
    """A stack whose modules return these values, each in its turn."""
    first, *rest = text.split(ANY)
    return first + "".join(f"{ANY} open_session={value}{part}" for value, part in zip(values, rest))


def apart(files: dict[str, str]) -> dict[str, str]:
    """With a copy of y for each line of x that includes it: a module may return something else each time."""
    number = itertools.count()
    text = re.sub(r"((?:include|substack) y)\b", lambda found: f"{found[1]}{next(number)}", files["x"])
    copies = {f"y{copy}": files["y"] for copy in range(next(number)) if "y" in files}
    return {**{name: own for name, own in files.items() if name != "y"}, "x": text, **copies}


def asked(root: pathlib.Path, files: dict[str, str]) -> set[bool]:
    """The same, of all that libpam opened, one session for each choice of the values that modules return."""
    root.mkdir(exist_ok=True)
    (root / "limits.conf").write_text(libpam.LINES)
    apart_files = apart(files).items()
    whole = {name: text.replace(LIMITS, f"{LIMITS} conf={root}/limits.conf") for name, text in apart_files}
    modules = [(name, at) for name in whole for at in range(whole[name].count(ANY))]
    names = {value for text in whole.values() for value in re.findall(r"[a-z_]+(?=\s*=)", text)}
    values = ["success", "ignore", "new_authtok_reqd", "auth_err", *sorted(names & set(pam_stack._RETURNS))]
    pairs = []
    for number, chosen in enumerate(itertools.product(dict.fromkeys(values), repeat=len(modules))):
        folder = root / str(number)
        folder.mkdir()
        for name, text in whole.items():
            # Linux-PAM 1.5 looks in /etc for y0
            text = re.sub(r"(include|substack) y(\d+)", rf"\1 {folder}/y\2", text)
            own = [value for (file, _at), value in zip(modules, chosen) if file == name]
            (folder / name).write_bytes(returning(text, own).encode("utf-8", "surrogateescape"))
        pairs.append((str(folder), "x"))
    return {called for value, called in libpam.opened(pairs) if value == 0}


# -- control flow ----------------------------------------------------------------------------

_VALUES = ("success", "ignore", "new_authtok_reqd", "auth_err", "default")
_pair = strategies.builds(
    "{}={}".format,
    strategies.sampled_from(_VALUES),
    strategies.sampled_from(["ignore", "ok", "done", "bad", "die", "reset", "1", "2", "3"]),
)
_WORDS = strategies.sampled_from(["required", "requisite", "sufficient", "optional"])
_control = strategies.one_of(
    _WORDS, strategies.lists(_pair, min_size=1, max_size=3).map(lambda pairs: f"[{' '.join(pairs)}]")
)
_module = strategies.sampled_from([ANY, ANY, "pam_permit.so", "pam_deny.so", "pam_gone.so"])
#: The value that pam_limits itself returns cannot be chosen; with these words, no other one opens more
_own = strategies.one_of(
    strategies.builds("session {} {}\n".format, _control, _module),
    strategies.builds(f"session {{}} {LIMITS}\n".format, _WORDS),
)
_include = strategies.sampled_from(["session substack y\n", "session include y\n", "@include y\n"])
_line = strategies.one_of(_own, _own, _include)
_text = strategies.lists(_line, min_size=1, max_size=6).map("".join)
_part = strategies.lists(_own, max_size=3).map("".join)


@can_ask
@quick
@given(_text, _part)
@example(
    "session substack y\nsession include y\nsession required pam_deny.so\n",
    f"session [success=ignore ignore=3] {ANY}\n" + f"session required {LIMITS}\n" * 2,
)
def test_every_way_is_one_that_libpam_takes(text: str, part: str) -> None:
    part = part or "auth required pam_permit.so\n"
    files = {"x": text, "y": part, "other": "session required pam_deny.so\n"}
    if text.count(ANY) + part.count(ANY) * text.count(" y\n") > 3 or part.count(ANY) > 2:
        return  # thousands of sessions
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        assert expected(root / "ours", files) == asked(root / "theirs", files), files


LAST = f"session required {LIMITS}\n"
OPEN = "session required pam_permit.so\n"
_FLOWS = {
    "sufficient": (f"session sufficient {ANY}\n{LAST}", {True, False}),
    "sufficient after": (f"{LAST}session sufficient {ANY}\n", {True}),
    "sufficient after required": (f"session required {ANY}\nsession sufficient {ANY}\n{LAST}", {True, False}),
    "requisite": (f"session requisite {ANY}\n{LAST}", {True}),
    "optional": (f"session optional {ANY}\n{LAST}", {True}),
    "jump over": (f"session [success=1 default=ignore] {ANY}\n{LAST}{OPEN}", {True, False}),
    "jump on": (f"session [success=1 default=ignore] {ANY}\nsession optional pam_debug.so\n{LAST}", {True}),
    "jump out": (f"session [success=9 default=ignore] {ANY}\n{LAST}", {True}),
    "jump always": (f"session [default=1] {ANY}\n{LAST}{OPEN}", {False}),
    "done": (f"session [success=done default=ignore] {ANY}\n{LAST}", {True, False}),
    "die": (f"session [success=ok default=die] {ANY}\n{LAST}", {True}),
    "rare": (f"session [user_unknown=done default=ok] {ANY}\n{LAST}", {True}),
    "done when it was good": (
        f"session required pam_permit.so\nsession [user_unknown=done default=ok] {ANY}\n{LAST}",
        {True},
    ),
    "reset": (f"session required pam_deny.so\nsession [default=reset] {ANY}\n{LAST}", {True}),
    "closed": (f"session required pam_deny.so\n{LAST}", set()),
    "deny jumps": (f"session [default=1] pam_deny.so\n{LAST}{OPEN}", {False}),
    "gone": (f"session sufficient pam_gone.so\n{LAST}", {True}),
    "gone itself": ("session required pam_permit.so\nsession optional /nowhere/pam_limits.so\n", {False}),
    "primary block": (
        f"session [default=1] pam_permit.so\nsession requisite pam_deny.so\n{OPEN}{LAST}",
        {True},
    ),
}


@can_ask
@pytest.mark.parametrize("name", _FLOWS)
def test_flows(tmp_path: pathlib.Path, name: str) -> None:
    text, calls = _FLOWS[name]
    files = {"x": text, "other": LAST}
    assert asked(tmp_path / "theirs", files) == calls
    assert expected(tmp_path / "ours", files) == calls


_SUB = {
    "a substack ends alone": (f"session sufficient {ANY}\n", {True}),
    "and fails alone": (f"session requisite {ANY}\n", {True}),
    "it may be where the limits are": (f"session sufficient {ANY}\n{LAST}", {True, False}),
}


@can_ask
@pytest.mark.parametrize("name", _SUB)
def test_substacks(tmp_path: pathlib.Path, name: str) -> None:
    part, calls = _SUB[name]
    last = "" if LIMITS in part else LAST
    files = {"x": f"session substack y\n{last}session required pam_permit.so\n", "y": part, "other": LAST}
    assert asked(tmp_path / "theirs", files) == expected(tmp_path / "ours", files) == calls
    # What is included belongs to the stack itself.
    files["x"] = files["x"].replace("substack", "include")
    assert asked(tmp_path / "theirs2", files) == expected(tmp_path / "ours2", files)
    jump = {**files, "x": f"session [success=1 default=ignore] {ANY}\nsession substack y\n{LAST}"}
    assert asked(tmp_path / "theirs3", jump) == expected(tmp_path / "ours3", jump)


# -- lines -----------------------------------------------------------------------------------

_SPELLED = {
    "case": (f"SESSION Required {LIMITS}\n", {True}),
    "silent": (f"-session required {LIMITS}\n", {True}),
    "blanks": (f"\t session \t required\t{LIMITS} \n", {True}),
    "continued": (f"session \\\n required \\\n {LIMITS}\n", {True}),
    "without an end": (LAST[:-1], {True}),
    "comment": (f"# x\n\n{LAST}", {True}),
    "comment behind": (f"session required {LIMITS} # x \\\n", {True}),
    "comment before": (f"session required #{LIMITS}\nsession required pam_permit.so\n", set()),
    "commented": (f"#{LAST}{OPEN}", {False}),
    "brackets": (f"[session] [required] {LIMITS}\n", {True}),
    "closing bracket": (f"session [success=ok]{LIMITS}\n", {True}),
    "spaced": (f"session [ success = ok  default=bad ] {LIMITS}\n", {True}),
    "glued": (f"session [success=okdefault=bad] {LIMITS}\n", {True}),
    "no default": (f"session [success=ignore] {ANY}\n{LAST}", {True}),
    "nothing else": (f"session [auth_err=die] {ANY}\n{LAST}", set()),
    "the later counts": (f"session [success=1 default=ignore success=ok] {ANY}\n{LAST}", {True}),
    "jump over nothing": (f"session [success=0] {ANY}\n{LAST}", set()),
    "unreadable": (f"session [success=okay default=1] pam_permit.so\n{LAST}", set()),
    "no such control": (f"session requird pam_permit.so\n{LAST}", set()),
    "capitals in a control": (f"session [SUCCESS=1 default=ignore] {ANY}\n{LAST}", set()),
    "no module": (f"session optional\n{LAST}", {True}),
    "no control": (f"session\n{LAST}", set()),
    "no such type": (f"sessio required pam_deny.so\n{LAST}", {True}),
    "other types": (f"auth sufficient pam_permit.so\naccount required pam_deny.so\n{LAST}", {True}),
    "only other types": ("auth required pam_permit.so\n", {True}),
}


@can_ask
@pytest.mark.parametrize("name", _SPELLED)
def test_spellings(tmp_path: pathlib.Path, name: str) -> None:
    text, calls = _SPELLED[name]
    files = {"x": text, "other": LAST}
    assert asked(tmp_path / "theirs", files) == calls
    assert expected(tmp_path / "ours", files) == calls


@can_ask
def test_an_absolute_path(tmp_path: pathlib.Path) -> None:
    module = next(pathlib.Path("/usr/lib").glob(f"**/security/{LIMITS}"))
    files = {"x": f"session required {module}\n", "other": ""}
    assert asked(tmp_path / "theirs", files) == {True}
    assert expected(tmp_path / "ours", {**files, str(module): ""}) == {True}


@pytest.mark.parametrize(
    ("files", "where", "words"),
    [
        ({"x": f"session required {LIMITS}\r\n"}, "x:1", "control character"),
        ({"x": f"session required \\ \n{LIMITS}\n"}, "x:1", "blanks behind a backslash"),
        ({"x": f"session required \\\n\n{LAST}"}, "x:2", "to be continued"),
        ({"x": f"session required {LIMITS}\\"}, "x:1", "is the last line"),
        ({"x": f"{LAST}session required {LIMITS} {'a' * 1000}\n"}, "x:2", "longer than 1023"),
        ({"x": f"{LAST}session include gone\n"}, "x:2", "includes gone, which does not exist"),
        ({"x": f"{LAST}@include\n"}, "x:2", "includes a file, which does not exist"),
        ({"x": f"{LAST}session substack y\n", "y": "@include x\n"}, "y:1", f"includes {FOLDER}/x, which"),
        ({"x": "session include y\n", "y": f"sessoin required {LIMITS}\n"}, "y:1", "which PAM does not know"),
        ({"x": "session include y\n" * 5, "y": LAST * 60}, "y:17", "more than 256 lines"),
    ],
)
def test_what_is_not_followed(tmp_path: pathlib.Path, files: dict[str, str], where: str, words: str) -> None:
    with pytest.raises(HostError) as caught:
        expected(tmp_path / "ours", files)
    assert caught.value.path == f"{FOLDER}/{where}"
    assert words in str(caught.value)


def test_many_ways_are_counted_together(tmp_path: pathlib.Path) -> None:
    files = {"x": f"session [success=2 default=ignore] {ANY}\n" * 200 + LAST * 2}
    assert expected(tmp_path / "ours", files) == {True}


def test_substacks_in_each_other_are_few_ways(tmp_path: pathlib.Path) -> None:
    files = {"x": "session substack 1\n", "15": LAST}
    for number in range(1, 15):
        files[str(number)] = f"session optional {ANY}\n" * 9 + f"session substack {number + 1}\n{LAST}"
    assert expected(tmp_path / "ours", files) == {True}


def test_the_line_that_skips_is_named(tmp_path: pathlib.Path) -> None:
    files = {"x": f"@include y\nsession required pam_permit.so\n{LAST}", "y": f"\nsession sufficient {ANY}\n"}
    steps = pam_stack.Stacks(machine(tmp_path, files)).sessions("x")
    calls = pam_stack.ways(steps, LIMITS)
    assert {call.skipped_by.where for call in calls if call.skipped_by} == {f"{FOLDER}/y:2"}
    assert {call.step.where for call in calls if call.step} == {f"{FOLDER}/x:3"}


def test_the_first_folder_counts(tmp_path: pathlib.Path) -> None:
    files = {"/usr/lib/pam.d/x": "session required pam_permit.so\n", "/usr/etc/pam.d/y": LAST}
    assert expected(tmp_path / "ours", files) == {False}
    assert expected(tmp_path / "ours2", {**files, "x": "session include y\n"}) == {True}
