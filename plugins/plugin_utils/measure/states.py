# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""States of nodes that an effect compares, and the state before the run, to which each is put back.

The state before the run is noted on the controller before anything changes. An unfinished run leaves its
notes, and the next one puts the nodes back to them. Each node changes under a lease (agent/lease.py): it puts
itself back if the controller does not go on.
"""

from __future__ import annotations

import fcntl
import json
import os
import pathlib
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import Any

from ...module_utils._mlnode.model import strict_json
from ...module_utils._mlnode.model.errors import StoreError
from ...module_utils._mlnode.model.lease import BACK, BEGIN, END, RENEW, Lease
from ..agent_call import LEASE
from ..fleet_report import files
from ..fleet_report.names import few
from .nodes import Call, Fleet, MeasureError, say

#: As before the first run; as site.yml declares it; or with another profile
REVERTED, DECLARED, BEFORE = "reverted", "declared", "before"

#: Names of groups of a node, as of site.yml
_NODE: Mapping[str, Mapping[str, Any]] = {
    "group_names": {"type": "list", "elements": "str", "default": []},
    "mlnode_training": {"type": "str", "default": "training"},
    "mlnode_inference": {"type": "str", "default": "inference"},
    "mlnode_fabric": {"type": "str", "default": "fabric"},
}

#: Seconds that a change of a node may take: twice the time of a new menu of the boot loader
CHANGE = 600

_REVERT: Mapping[str, Any] = {"without_origin": False, "check": False, "diff": False}

#: Seconds in which a process ends whose controller has died (nodes.py), with a reserve for a busy machine
_DYING = 5

#: Size of a note at most, in bytes
_MOST = 4096

Answers = dict[str, dict[str, Any]]


class States:
    """original: node → its state before the run. now: node → its state; empty until one is reached. lease:
    seconds after each change, in which the next one has to follow."""

    def __init__(self, fleet: Fleet, folder: str, name: str, before: str) -> None:
        self._fleet, self._name, self._before = fleet, name, before
        self._folder = pathlib.Path(folder, "unfinished")
        self._own = fleet.variables(_NODE)
        #: Of the folder of the notes, locked as long as this process lives; None before
        self._lock: int | None = None
        self._begun: dict[str, list[Any]] = {}
        self.original: dict[str, str] = {}
        self.now = dict.fromkeys(fleet.names, "")
        self.lease = 0
        self._leases = dict.fromkeys(fleet.names, os.urandom(4).hex())
        #: Node → the calls that put it back, and when the last change of it was begun
        self._back: dict[str, list[Any]] = {}
        self._changed: dict[str, float] = {}
        self._without: dict[str, Mapping[str, str]] = {}

    def add(self, state: str, without: Mapping[str, Sequence[str]]) -> None:
        """A further state: as declared, without these areas and settings of each node."""
        self._without[state] = {name: ",".join(names) for name, names in without.items()}

    # -- the state before the run ----------------------------------------------------------------------

    def unfinished(self) -> list[str]:
        """Nodes that an earlier run has left, for which its note counts. Raises MeasureError."""
        left = [name for name in self._fleet.names if os.path.lexists(self._path(name))]
        if left:
            self._wait_for_others(left)
        noted = {name: self._noted(name) for name in self._fleet.names}
        self.original = {name: state for name, (state, _lease) in noted.items() if state}
        self._leases.update((name, lease) for name, (_state, lease) in noted.items() if lease)
        self._prepare([*self.original])
        return [*self.original]

    def detect(self) -> None:
        """Find the state of the other nodes. Raises MeasureError if one is in neither state."""
        names = [name for name in self._fleet.names if name not in self.original]
        off, changed = (self._whole(self._ask(names, state, check=True)) for state in (DECLARED, REVERTED))
        neither = [name for name in names if name in off and name in changed]
        if neither:
            raise MeasureError(
                f"{', '.join(neither)}: neither as declared nor as before the first run, and could not be "
                "left as it was found. Play site.yml or revert.yml first; with --check they show what would "
                "change."
            )
        self.now.update((name, DECLARED if name in changed else REVERTED) for name in names)
        self.original.update((name, self.now[name]) for name in names)
        self._prepare(names)

    def _prepare(self, names: Sequence[str]) -> None:
        """Make the calls that put these nodes back, for their leases. Raises MeasureError."""
        self._back.update((name, [["revert", _REVERT]]) for name in names)
        declared = [name for name in names if self.original[name] == DECLARED]
        for name, parts in self._rendered(declared).items():
            # Nobody confirms it: it is the state that was found.
            changes = {"check": False, "diff": False, "confirm_seconds": 0}
            self._back[name] = [["declare", {**part, **changes}] for part in parts]
        bare = [name for name in names if not self._back[name]]
        if bare:
            raise MeasureError(
                f"{', '.join(bare)}: nothing is declared; expected a host of a group of site.yml"
            )

    def note(self) -> None:
        """Keep the state before the run on the controller. Raises MeasureError."""
        self._share()
        self._begun = self._declarations()
        for name, state in self.original.items():
            note = {"id": self._name, "node": name, "found": state, "lease": self._leases[name]}
            text = json.dumps(note)
            try:
                files.write(self._path(name), [text, "\n"])
            except OSError as error:
                raise MeasureError(f"cannot write {self._path(name)}: {error.strerror}") from error

    def _share(self) -> None:
        """Show other runs in this folder that this one lives. Raises MeasureError."""
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._lock = os.open(self._folder, os.O_RDONLY) if self._lock is None else self._lock
        except OSError as error:
            raise MeasureError(f"cannot write {self._folder}: {error.strerror}") from error
        with suppress(OSError):  # the file system has no locks
            fcntl.flock(self._lock, fcntl.LOCK_SH)

    def _wait_for_others(self, names: Sequence[str]) -> None:
        """Notes are of an unfinished run, unless another run in this folder lives. Raises MeasureError."""
        self._share()
        for _second in range(_DYING):
            try:
                fcntl.flock(self._lock or 0, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return self._share()
            except BlockingIOError:
                time.sleep(1)
            except OSError:  # NFS, on which a folder cannot be locked
                return None
        raise MeasureError(
            f"{few(names)}: another run in {self._folder.parent} may measure it now; wait, or stop that run"
        )

    def put_back(self) -> list[str]:
        """Names of the nodes that could not be put back."""
        for state in sorted({*self.original.values()}):
            names = [name for name, original in self.original.items() if original == state]
            self._reach([name for name in names if self.now[name] != state], state, BACK)
            self._end([name for name in names if self.now[name] == state and name in self._changed], state)
        for name in self.original:
            if self.now[name] == self.original[name]:
                self._forget(name)
        return [name for name, state in self.original.items() if self.now[name] != state]

    def _end(self, names: Sequence[str], state: str) -> None:
        """End the leases of nodes that are back."""
        for name, answer in self._ask(names, state, check=False, step=END).items():
            if why := _problem(answer):
                say(f"{name}: its lease is not ended, and it puts itself back again: {why}")

    def late(self) -> list[str]:
        """Nodes whose lease may have ended since their last change."""
        return [name for name, begun in self._changed.items() if time.monotonic() - begun > self.lease]

    def hold(self) -> None:
        """Raises MeasureError unless all leases last and all declarations are as at the begin. A node that
        was booted is back in its original state, and so are all nodes of a controller that slept, as late()
        does not count that time."""
        for state in sorted({*self.now.values()}):
            names = [name for name, now in self.now.items() if now == state and name in self._changed]
            self._whole(self._ask(names, state, check=True, step=RENEW))
        edited = [name for name, parts in self._declarations().items() if parts != self._begun[name]]
        if edited:
            raise MeasureError(
                f"{few(edited)}: the declaration is another one than at the begin; leave its files until the "
                "end of a run"
            )

    def _declarations(self) -> dict[str, list[Any]]:
        """Areas of all declarations of each node, in all states. Raises MeasureError."""
        states = (DECLARED, BEFORE) if self._before else (DECLARED,)
        known: dict[str, list[Any]] = {name: [] for name in self._fleet.names}
        for state in states:
            for name, parts in self._rendered(self._fleet.names, state).items():
                known[name] += [part["areas"] for part in parts]
        return known

    def _forget(self, name: str) -> None:
        path = self._path(name)
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            say(
                f"{path}: cannot be removed: {error.strerror}; remove it, or the next run "
                f"puts {name} back to that state"
            )

    def _noted(self, name: str) -> tuple[str, str]:
        """State and lease of an unfinished run; both empty without one. Raises MeasureError."""
        path = self._path(name)
        try:
            note = strict_json.loads(files.read(path, _MOST, follow=False).decode(), str(path), most=_MOST)
            if note["found"] in (DECLARED, REVERTED):
                return str(note["found"]), str(note["lease"])
        except FileNotFoundError:
            return "", ""
        except (OSError, StoreError, KeyError, TypeError, ValueError):
            pass
        raise MeasureError(
            f"{path}: expected the state of {name} before a run; revert the node and remove the file"
        )

    def _path(self, name: str) -> pathlib.Path:
        safe = re.sub(r"[^A-Za-z0-9_.-]", "_", name)
        return self._folder / f"effect-{safe}.json"

    # -- other states ----------------------------------------------------------------------------------

    def reach(self, state: str) -> list[str]:
        """Names of the nodes that this has changed. Raises MeasureError."""
        return self._whole(self.reached(state))

    def reached(self, state: str) -> Answers:
        """Answers of the nodes that were not in this state. Raises MeasureError."""
        answers = self._reach([name for name in self._fleet.names if self.now[name] != state], state)
        self._whole(answers)
        return answers

    def previewed(self, state: str) -> Answers:
        """Answers of all nodes in check mode. Raises MeasureError."""
        answers = self._ask(self._fleet.names, state, check=True)
        self._whole(answers)
        return answers

    def rendered(self) -> list[Mapping[str, Any]]:
        """Areas of each declaration of each node; no node is asked. Raises MeasureError."""
        return [part["areas"] for parts in self._rendered(self._fleet.names).values() for part in parts]

    def _rendered(self, names: Sequence[str], state: str = DECLARED) -> dict[str, list[Mapping[str, Any]]]:
        """Options of the calls that declare a node; no node is asked. Raises MeasureError."""
        answers = self._ask(names, state, check=True, more={"node_rendered": True})
        self._whole(answers)
        return {name: [part["rendered"] for part in answer["parts"]] for name, answer in answers.items()}

    def _reach(self, names: Sequence[str], state: str, step: str = RENEW) -> Answers:
        # Until it is reached the state is unknown.
        self.now.update(dict.fromkeys(names, ""))
        answers = self._ask(names, state, check=False, step=step)
        self.now.update((name, state) for name, answer in answers.items() if not _problem(answer))
        return answers

    def _ask(
        self,
        names: Sequence[str],
        state: str,
        check: bool,
        step: str = BEGIN,
        more: Mapping[str, Any] = MappingProxyType({}),
    ) -> Answers:
        """Answer of each node: failed if one of its declarations failed, changed if one changed it. parts:
        the answers of its declarations. step: of the lease. more: variables of the roles."""
        answers: Answers = {name: {"changed": False, "parts": []} for name in names}
        self._fleet.own = {name: {LEASE: self._lease(name, step)} for name in names}
        if not check:
            self._changed.update(dict.fromkeys(names, time.monotonic()))
        for calls in self._calls(names, state, check, more):
            for name, answer in self._fleet.ask(
                {name: call for name, call in calls.items() if not _problem(answers[name])}
            ).items():
                before = answers[name]
                changed = bool(answer.get("changed")) or before["changed"]
                answers[name] = {**answer, "changed": changed, "parts": [*before["parts"], answer]}
        self._fleet.own = {}
        return answers

    def _lease(self, name: str, step: str) -> dict[str, Any]:
        begins = step == RENEW and name not in self._changed
        words, calls = self.original.get(name, ""), self._back.get(name, [])
        return Lease(self._leases[name], BEGIN if begins else step, self.lease, words, calls)._asdict()

    def _calls(
        self, names: Sequence[str], state: str, check: bool, more: Mapping[str, Any]
    ) -> Iterable[dict[str, Call]]:
        keywords = {"check_mode": check}
        if state == REVERTED:
            yield dict.fromkeys(names, Call("mlnode.tuning.node_revert", {}, CHANGE, keywords))
            return
        without = self._without.get(state, {})
        of_node: dict[str, Call] = {}
        of_fabric: dict[str, Call] = {}
        for name in names:
            own = {**more, **({"node_without": without[name]} if without.get(name) else {})}
            profile = self._profile(name, state)
            if profile:
                of_node[name] = self._declaration("mlnode.tuning.node", {**profile, **own}, keywords)
            if self._is_in(name, "mlnode_fabric"):
                of_fabric[name] = self._declaration("mlnode.tuning.fabric", own, keywords)
        yield of_node
        yield of_fabric

    def _declaration(self, role: str, variables: Mapping[str, Any], keywords: Mapping[str, Any]) -> Call:
        return self._fleet.declaration(role, variables, keywords)._replace(seconds=CHANGE)

    def _profile(self, name: str, state: str) -> dict[str, str]:
        if state == BEFORE:
            return {"node_profile": self._before}
        if self._is_in(name, "mlnode_inference"):
            return {"node_usual_profile": "inference"}
        return {"node_usual_profile": "training"} if self._is_in(name, "mlnode_training") else {}

    def _is_in(self, name: str, group: str) -> bool:
        own = self._own[name]
        return own[group] in own["group_names"]

    @staticmethod
    def _whole(answers: Answers) -> list[str]:
        """Names of the nodes that would change. Raises MeasureError."""
        problems = [f"{name}: {why}" for name, answer in answers.items() if (why := _problem(answer))]
        if problems:
            raise MeasureError("; ".join(problems))
        return [name for name, answer in answers.items() if answer["changed"]]


def _problem(answer: Mapping[str, Any]) -> str:
    if answer.get("failed") or answer.get("unreachable"):
        return str(answer.get("msg") or "no answer")
    return ""
