# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Requests to systemd, with their result. On a machine that is short of CPU time or memory, a request may
time out; the state of the unit then shows the result."""

from __future__ import annotations

import time
from typing import Mapping

from ..model.errors import HostError, UnansweredError, printable
from . import unit_words
from .host import Host

#: One request: a job alone may take 90 s (systemd-system.conf(5), DefaultTimeoutStartSec=)
REQUEST_SECONDS = 120.0
#: All requests and checks of the unit
TOTAL_SECONDS = 360.0
_POLL_SECONDS = 2.0

#: Verb → states in which it is done. A restart has none, because the unit may not have begun with it.
_DONE: Mapping[str, tuple[str, ...]] = {"start": ("active",), "stop": ("inactive", "failed")}


def job(host: Host, verb: str, unit: str, purpose: str) -> None:
    """Start, stop or restart a unit with systemd. Raises HostError if that failed, and UnansweredError if the
    result is still unknown."""
    until = time.monotonic() + TOTAL_SECONDS
    while True:
        try:
            _request(host, verb, unit, purpose)
            return
        except UnansweredError as error:
            late = error
        if _is_done(host, verb, unit, purpose, until):
            return
        if time.monotonic() >= until:
            raise UnansweredError(purpose, "systemctl", None, f"{late.kernel}, several times") from late


def reload(host: Host, purpose: str) -> None:
    """Have systemd read its units again, which may be asked for any number of times. Raises HostError,
    UnansweredError."""
    until = time.monotonic() + TOTAL_SECONDS
    while True:
        try:
            host.must_run(["systemctl", "daemon-reload"], purpose, REQUEST_SECONDS)
            return
        except UnansweredError:
            if time.monotonic() >= until:
                raise


def _request(host: Host, verb: str, unit: str, purpose: str) -> None:
    """Send one request. Raises HostError with the last lines of the unit, and UnansweredError."""
    done = host.run(["systemctl", verb, unit], REQUEST_SECONDS)
    if done.rc == 0:
        return
    messages = done.err.strip().splitlines() or [f"exit status {done.rc}"]
    # The hint at journalctl means that the journal has the reason. Without it, as for an unknown unit, the
    # journal is about something else.
    words = unit_words.last(host, unit) if "journalctl" in done.err else ""
    raise HostError(purpose, "systemctl", None, printable(messages[0]).rstrip("."), words)


def _is_done(host: Host, verb: str, unit: str, purpose: str, until: float) -> bool:
    """False if the request has to be repeated. Raises HostError if it failed."""
    while time.monotonic() < until:
        state = _state(host, unit)
        if state and state.get("Job", "") in ("", "0"):
            active = state.get("ActiveState", "")
            if verb == "start" and active == "failed":
                detail = f"{unit} has failed (Result={state.get('Result', '')})"
                raise HostError(purpose, "systemctl", None, detail, unit_words.last(host, unit))
            return active in _DONE.get(verb, ())
        time.sleep(_POLL_SECONDS)
    return False


def _state(host: Host, unit: str) -> dict[str, str]:
    """Properties of a unit; empty if systemd does not answer."""
    properties = ("ActiveState", "Job", "Result")
    try:
        done = host.run(["systemctl", "show", *(f"--property={name}" for name in properties), "--", unit])
    except UnansweredError:
        return {}
    return {name: value for name, _equals, value in (line.partition("=") for line in done.out.splitlines())}
