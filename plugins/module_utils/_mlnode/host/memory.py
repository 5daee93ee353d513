# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Values that stay the same during one run, each made once."""

from __future__ import annotations

from typing import Any, Callable, TypeVar

from ..model.record import NamedTuple

T = TypeVar("T")


class _Begun(NamedTuple):
    """A value that a program is at work for. end: waits for it, and may raise."""

    end: Callable[[], Any]


class Memory:
    """Values by key, made when they are first needed."""

    def __init__(self) -> None:
        self._known: dict[str, Any] = {}
        #: Keys of values that no write to the kernel changes
        self._of_files: set[str] = set()

    def once(self, key: str, make: Callable[[], T], of_files: bool = False) -> T:
        """Value that is constant during one run, such as the topology; made once. forget() discards it.

        of_files: it is made of files of the system and of systemd's view of them, so a change of a kernel
        value does not affect it.
        """
        if of_files:
            self._of_files.add(key)
        if key not in self._known:
            self._known[key] = make()
        elif isinstance(self._known[key], _Begun):
            self._known[key] = self._known.pop(key).end()
        value: T = self._known[key]
        return value

    def ahead(self, key: str, begin: Callable[[], Callable[[], T]], of_files: bool = False) -> None:
        """Begin to make a value that once() will need, because it waits for a program. begin: returns a
        function that ends it."""
        if of_files:
            self._of_files.add(key)
        if key not in self._known:
            self._known[key] = _Begun(begin())

    def forget(self, files: bool = True) -> None:
        """Discard the values of once() after a change. files: False if only kernel values have changed; a
        driver whose writes change more discards the rest."""
        kept = {} if files else {key: self._known[key] for key in self._of_files & {*self._known}}
        self._known = kept
