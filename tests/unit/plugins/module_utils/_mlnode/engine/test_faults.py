# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every change of a real apply fails once: all is as before, and the next run works."""

from __future__ import annotations

import errno
import os
import pathlib
import shutil
from collections.abc import Callable
from typing import Any

import pytest
from ansible_collections.mlnode.tuning.tests.unit import door
from ansible_collections.mlnode.tuning.tests.unit.effort import EFFORT, some
from ansible_collections.mlnode.tuning.tests.unit.faults import ERRNOS, Gate, Gated, failing, install
from ansible_collections.mlnode.tuning.tests.unit.machine import THP
from mlnode.agent import install as agent
from mlnode.engine import declared, engine, origin, revert
from mlnode.knobs.sysctl.kind import kind as sysctl
from mlnode.knobs.thp.kind import kind as thp
from mlnode.model.errors import MlnodeError, TransactionError

pytestmark = pytest.mark.robustness

SETTINGS = {
    "vm.swappiness": 10,
    "vm.dirty_bytes": 268435456,
    "net.core.default_qdisc": "fq",
    "net.ipv4.tcp_congestion_control": "bbr",
    "net.ipv4.ip_local_reserved_ports": {"at_least": "30000-32767"},
}
SYSCTL = engine.Request("default", sysctl, {"settings": SETTINGS})
THP_ALL = engine.Request(
    "default", thp, {"enabled": "madvise", "defrag": "never", "khugepaged": {"defrag": 0}}
)
THP_PLAIN = engine.Request("default", thp, {"defrag": "never", "khugepaged": {"defrag": 0}})

#: What the message of a failed kernel write has to name: path → key and value
NAMED = {
    "/proc/sys/vm/swappiness": ("vm.swappiness", "'10'"),
    "/proc/sys/vm/max_map_count": ("vm.max_map_count", "'65530'"),  # of the declaration before: it goes back
    "/proc/sys/vm/dirty_bytes": ("vm.dirty_bytes", "'268435456'"),
    "/proc/sys/net/core/default_qdisc": ("net.core.default_qdisc", "'fq'"),
    "/proc/sys/net/ipv4/tcp_congestion_control": ("net.ipv4.tcp_congestion_control", "'bbr'"),
    "/proc/sys/net/ipv4/ip_local_reserved_ports": ("net.ipv4.ip_local_reserved_ports", "'30000-32767'"),
    f"{THP}/enabled": ("thp.enabled", "'madvise'"),
    f"{THP}/defrag": ("thp.defrag", "'never'"),
    f"{THP}/khugepaged/defrag": ("thp.khugepaged.defrag", "'0'"),
}

#: Files an apply writes; the first is the declaration, as the agent could finish the work with it alone
FILES = [
    declared.path_of("default"),
    "/etc/sysctl.d/zz-mlnode-default.conf",
    "/etc/modules-load.d/mlnode-default.conf",
]


#: Of the changes, in `make test`
POSITIONS = 6

#: Every change fails with one errno, each in its turn; with more effort every change fails with all of them.
TURNS = pytest.mark.parametrize("turn", range(len(ERRNOS) if EFFORT > 1 else 1))


def errno_at(position: int, turn: int) -> int:
    return ERRNOS[(position + turn) % len(ERRNOS)]


def fresh_node(machine: Gated) -> None:
    """Nothing was ever declared."""


def tuned_node(machine: Gated) -> None:
    """Another declaration of the same name came before: files exist, and so does an origin."""
    spec = {"settings": {"vm.swappiness": 1, "vm.max_map_count": 262144}}
    door.apply(machine, engine.Request("default", sysctl, spec))
    machine.put("/etc/modules-load.d/theirs.conf", "loop\n")


def make_template(folder: pathlib.Path, prepare: Callable[[Gated], None]) -> pathlib.Path:
    machine = Gated.debian(str(folder / "template"))
    assert isinstance(machine, Gated)
    prepare(machine)
    return folder / "template"


def copy(template: pathlib.Path, name: str) -> Gated:
    target = template.parent / name
    shutil.copytree(template, target, symlinks=True)
    return Gated(str(target))


def what_changes(template: pathlib.Path, patch: pytest.MonkeyPatch, request: engine.Request) -> list[str]:
    machine = copy(template, "probe")
    gate = Gate()
    install(patch, machine, gate)
    assert door.apply(machine, request).changed
    patch.undo()
    return [what.replace(machine.root, "") for what in gate.seen]


@pytest.mark.parametrize(
    ("prepare", "request_"),
    [
        (fresh_node, SYSCTL),
        (fresh_node, THP_ALL),
        # The files are there already: other code paths.
        (tuned_node, SYSCTL),
        (tuned_node, THP_ALL),
    ],
    ids=lambda value: getattr(value, "__name__", None) or (getattr(value, "kind", None) and value.kind.KIND),
)
@TURNS
def test_a_failure_anywhere_leaves_all_as_it_was(
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
    prepare: Callable[[Gated], None],
    request_: engine.Request,
    turn: int,
) -> None:
    template = make_template(tmp_path, prepare)
    changes = what_changes(template, monkeypatch, request_)
    for position, change in some([*enumerate(changes, start=1)], POSITIONS):
        number = errno_at(position, turn)
        name = errno.errorcode[number]
        machine = copy(template, str(position))
        before = machine.tree()
        install(monkeypatch, machine, Gate(position, failing(number)))
        try:
            door.apply(machine, request_)
        except MlnodeError as error:
            text = str(error)
            where = f"{position}: {change}: {text}"
            assert machine.tree() == before, where
            assert name in text or os.strerror(number) in text, where
            kind, _blank, path = change.partition(" ")
            if kind == "kernel":
                key, value = NAMED[path]
                assert f"cannot write {value} to {path}: {name}" in text, where
                assert text.startswith(f"{key}: "), where
            elif kind == "run":
                assert path.rpartition(" ")[2] in text, where
                assert "net." in text, where
            else:
                assert any(file in text for file in (*FILES, origin.PATH, origin.COPY)), where
        else:
            # Clearing away a temporary file that is not there is all that may fail unseen.
            assert change.startswith("unlink "), change
        monkeypatch.undo()
        after = door.apply(machine, request_)
        assert not engine.evaluate(machine, request_).steps, change
        assert after.changed or change.startswith("unlink ")
        shutil.rmtree(machine.root)


def test_every_kind_of_change_was_among_them(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Gated.debian(str(tmp_path / "template"))
    changes = what_changes(tmp_path / "template", monkeypatch, SYSCTL)
    assert isinstance(machine, Gated)
    assert [change for change in changes if change.startswith(("kernel", "run"))] == [
        "kernel /proc/sys/vm/swappiness",
        "kernel /proc/sys/vm/dirty_bytes",
        "run modprobe -- sch_fq",
        "kernel /proc/sys/net/core/default_qdisc",
        "run modprobe -- tcp_bbr",
        "kernel /proc/sys/net/ipv4/tcp_congestion_control",
        "kernel /proc/sys/net/ipv4/ip_local_reserved_ports",
    ]
    renamed = [change.rpartition("/")[2] for change in changes if change.startswith("rename")]
    assert renamed == [
        *[".origin.json.mlnode-tmp"] * 2,
        ".default.json.mlnode-tmp",
        ".zz-mlnode-default.conf.mlnode-tmp",
        ".mlnode-default.conf.mlnode-tmp",
    ]
    first_kernel = changes.index("kernel /proc/sys/vm/swappiness")
    assert any("origin.json" in change for change in changes[:first_kernel]), (
        "remembered before the first write"
    )


@TURNS
def test_an_installation_that_fails_anywhere_leaves_nothing(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, turn: int
) -> None:
    template = make_template(tmp_path, fresh_node)
    probe = copy(template, "probe")
    gate = Gate()
    install(monkeypatch, probe, gate)
    agent.install(probe)
    monkeypatch.undo()
    for position, change in some([*enumerate(gate.seen, start=1)], POSITIONS):
        number = errno_at(position, turn)
        machine = copy(template, str(position))
        before = machine.tree()
        install(monkeypatch, machine, Gate(position, failing(number)))
        try:
            agent.install(machine)
        except MlnodeError as error:
            assert errno.errorcode[number] in str(error)  # noqa: PT017  # not every position fails
            assert machine.tree() == before, change
        else:
            assert change.startswith("unlink ")
        monkeypatch.undo()
        agent.install(machine)
        assert agent.plan(machine) == []
        shutil.rmtree(machine.root)


@TURNS
def test_a_revert_that_fails_anywhere_can_be_repeated(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, turn: int
) -> None:
    template = Gated.debian(str(tmp_path / "template"))
    original = template.tree()
    for request in (THP_PLAIN, SYSCTL):
        door.apply(template, request)
    agent.install(template)
    probe = copy(tmp_path / "template", "probe")
    gate = Gate()
    install(monkeypatch, probe, gate)
    revert.revert(probe)
    monkeypatch.undo()
    assert probe.tree() == original
    for position, change in some([*enumerate(gate.seen, start=1)], POSITIONS):
        number = errno_at(position, turn)
        machine = copy(tmp_path / "template", str(position))
        install(monkeypatch, machine, Gate(position, failing(number)))
        try:
            revert.revert(machine)
        except TransactionError as error:
            assert error.stuck  # noqa: PT017  # not every position fails
            assert "not everything could be put back" in str(error), change  # noqa: PT017  # not every position fails
        except MlnodeError as error:
            assert errno.errorcode[number] in str(error)  # noqa: PT017  # not every position fails
        monkeypatch.undo()
        revert.revert(machine)
        if change.startswith("run modprobe -r"):
            machine.run(change.split()[1:])  # a module that is in use stays, and is not tried again
        assert machine.tree() == original, f"{position}: {change}"
        shutil.rmtree(machine.root)


class Everything(Gated):
    """From one path's write on, every kernel write fails, the ones of the rollback too."""

    stops_at = ""
    stopped = False

    def write_kernel(self, path: str, value: str) -> None:
        self.stopped = self.stopped or path == self.stops_at
        if self.stopped:
            self.fails = dict.fromkeys(NAMED, errno.EIO)
            self.fails.update(dict.fromkeys(("/proc/sys/vm/dirty_ratio",), errno.EIO))
        super().write_kernel(path, value)


def test_a_rollback_that_fails_says_so_and_keeps_the_origin(tmp_path: pathlib.Path) -> None:
    machine = Everything.debian(str(tmp_path))
    assert isinstance(machine, Everything)
    machine.stops_at = "/proc/sys/net/ipv4/ip_local_reserved_ports"
    before: dict[str, Any] = machine.tree()
    with pytest.raises(TransactionError) as caught:
        door.apply(machine, SYSCTL)
    text = str(caught.value)
    assert text.startswith("net.ipv4.ip_local_reserved_ports: cannot write '30000-32767' to ")
    assert "COULD NOT be put back: " in text
    for key in (
        "vm.swappiness",
        "vm.dirty_bytes",
        "net.core.default_qdisc",
        "net.ipv4.tcp_congestion_control",
    ):
        assert any(words.startswith(f"{key} (cannot write ") for words in caught.value.stuck), key
    assert machine.now("/proc/sys/vm/swappiness") == "10"
    assert origin.Origin.load(machine).value_of("/proc/sys/vm/swappiness") == "60"
    healthy = Gated(machine.root)
    revert.revert(healthy)
    assert healthy.tree() == before
