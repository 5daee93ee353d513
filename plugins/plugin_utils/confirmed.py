# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A change that may cut off the management path, confirmed over a new connection.

The node undoes a change of its management path by itself, unless that succeeds in time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ansible.errors import AnsibleConnectionFailure, AnsibleError
from ansible.utils.display import Display
from ansible_collections.mlnode.tuning.plugins.plugin_utils.agent_call import AgentAction, NoAnswerError

from ..module_utils._mlnode.agent.archive import INTERPRETER

display = Display()

#: Bytes of the answer over the new connection: more than a packet of any MTU (65520 at most, IPoIB in
#: connected mode), even after ssh has compressed the random base64 to three quarters
PADDING = 131072

#: For a connection, in seconds: the change may still be settling, so it is tried often rather than long
CONNECT = 5

#: Between two tries, in seconds
PAUSE = 1.0

#: Seconds after the end of the time to confirm: the timer may be a second late, and the rollback may reset a
#: link, or wait for another run that holds the node's lock
GRACE = 10.0

#: For the node to answer once the old values are back, in seconds: a switch port forwards 30 s after its link
#: came up (spanning tree, twice the forward delay of IEEE 802.1D), and the link has to come up first
ANSWER = 60.0

ADVICE = (
    "Check the MTU of the switch ports, of the peers and of the routers between them (mlnode.tuning.path_mtu "
    "finds the smallest), and the link and the bond of the interface: speed, FEC, LACP"
)


class ConfirmedAction(AgentAction):
    """An action whose change is kept only if the node can still be reached after it."""

    # The new connection has to be made by the run that made the change.
    _supports_async = False

    #: With which an agent runs that is sent along, as the installed one may be of another version
    _python = INTERPRETER

    def confirmed(self, change: Callable[[], dict[str, Any]], seconds: int) -> dict[str, Any]:
        """Answer of a change after its confirmation or rollback. The answer's `confirm` identifies the change
        that waits. The node must have been reached just before: a connection lost now was cut by the change.
        seconds: how long the node waits."""
        if self._task.check_mode:
            return change()
        try:
            answer = change()
        except AnsibleConnectionFailure as error:
            with self._hurried():
                return self._after_loss(error, float(seconds))
        waits = answer.get("confirm") or {}
        if not waits:
            return answer
        with self._hurried():
            return self._prove(answer, str(waits["id"]), min(float(waits["seconds"]), seconds))

    # -- the change was made -----------------------------------------------------------------------

    def _prove(self, answer: dict[str, Any], change_id: str, seconds: float) -> dict[str, Any]:
        """Confirm over a new connection; if that cannot be, find out what became of the change."""
        over = time.monotonic() + seconds
        last = "no answer came in time"
        local = self._connection.transport == "local"
        if local:
            display.warning(
                "only a new connection to this node can show that it is still reached: log in again and type "
                f"`mlnode confirm {change_id}` within {seconds:.0f} s, or the change undoes itself"
            )
        while time.monotonic() < over:
            try:
                state = self._ask(padding=PADDING)
                if len(state["padding"]) != PADDING:
                    raise NoAnswerError("the answer was not complete")
                if state["undone"].get("id") == change_id:
                    return self._undone(change_id, state, last)
                if not local:
                    self._ask(change_id)
                elif state["pending"].get("id") == change_id:
                    raise NoAnswerError("it is not confirmed on the node yet")
                return {**answer, "confirmed": True}
            except NoAnswerError as error:
                last = str(error).rstrip(".: ")
            time.sleep(min(PAUSE, max(0.0, over - time.monotonic())))
        time.sleep(GRACE)
        reply = self._reach(lambda state: state["pending"].get("id") != change_id, time.monotonic() + ANSWER)
        if reply is None:
            return self._silent(
                "the management path was changed, and the node has not answered since. The old values were "
                f"due to be back {time.monotonic() - over:.0f} s ago. The last try: {last}. {ADVICE}"
            )
        return self._undone(change_id, reply, last)

    def _undone(self, change_id: str, state: dict[str, Any], last: str) -> dict[str, Any]:
        """Result of a change that was not confirmed, as the node reports it. last: of the tries to do so."""
        undone = state["undone"] if state["undone"].get("id") == change_id else {}
        outcome = undone.get("text")
        if not outcome:
            outcome = "the management path was changed, and the node no longer knows what became of it"
            if state["pending"].get("id") == change_id:
                change = state["pending"]["words"]
                outcome = f"the change ({change}) was not confirmed in time, and is not undone yet"
        return {
            "failed": True,
            "changed": not undone or bool(undone["stuck"]),
            "confirmed": False,
            "undone": undone,
            "msg": f"{outcome}. {'' if outcome in last else f'The last try: {last}. '}{ADVICE}",
        }

    # -- the connection was lost before the change had answered ---------------------------------------

    def _after_loss(self, error: AnsibleConnectionFailure, seconds: float) -> dict[str, Any]:
        """The extent of the change is unknown, so a waiting change is left to its rollback."""
        state = self._reach(lambda state: not state["pending"], time.monotonic() + seconds + GRACE + ANSWER)
        lost = f"the connection was lost while NICs were being changed ({error})"
        if state is None:
            return self._silent(
                f"{lost}, and the node has not answered since. If the management path was changed, the "
                f"old values were due to be back after {seconds:.0f} s. {ADVICE}"
            )
        if state["pending"]:
            return self._undone(state["pending"]["id"], state, lost)
        if not state["undone"]:
            raise error
        return {
            "failed": True,
            "changed": bool(state["undone"]["stuck"]),
            "confirmed": False,
            "undone": state["undone"],
            "msg": f"{lost}. The node says: {state['undone']['text']}. {ADVICE}",
        }

    def _silent(self, message: str) -> dict[str, Any]:
        # The node is unreachable: an attempt to remove the folder would hide the message.
        self._connection._shell.tmpdir = None
        return {"failed": True, "changed": True, "confirmed": False, "undone": {}, "msg": message}

    # -- the node -------------------------------------------------------------------------------------

    def _reach(self, enough: Callable[[dict[str, Any]], bool], until: float) -> dict[str, Any] | None:
        """First state of the node that is enough, or the last one it reported; None if it reported none."""
        state = None
        while True:
            pause = PAUSE
            try:
                state = self._ask()
                if enough(state):
                    return state
                pause += state["pending"]["left"]
            except NoAnswerError as error:
                display.vvv(f"confirm: {error}")
            if time.monotonic() >= until:
                return state
            time.sleep(pause)

    def _ask(self, change_id: str = "", padding: int = 0) -> dict[str, Any]:
        """Answer of the agent over a new connection. change_id: to keep. Raises NoAnswerError."""
        try:
            self._connection.reset()
            state = self.call("confirm", {"id": change_id, "padding": padding}, self._python)
        except AnsibleError as error:
            raise NoAnswerError(" ".join(str(error).split())) from error
        if state.get("failed"):
            raise NoAnswerError(str(state["msg"]))
        return state

    @contextmanager
    def _hurried(self) -> Iterator[None]:
        """Shorten the timeouts of new connections, if the plugin has options for that. This includes
        connections that fall silent: ssh would wait forever for a large packet that is dropped."""
        before: dict[str, Any] = {}
        for name, change in (("timeout", self._shorter), ("ssh_common_args", self._alive)):
            try:
                before[name] = self._connection.get_option(name)
                self._connection.set_option(name, change(before[name]))
            except (KeyError, AnsibleError):  # the plugin has none
                before.pop(name, None)
        try:
            yield
        finally:
            for name, value in before.items():
                self._connection.set_option(name, value)

    @staticmethod
    def _shorter(timeout: Any) -> int:
        return min(int(timeout or CONNECT), CONNECT)

    @staticmethod
    def _alive(arguments: Any) -> str:
        return f"{arguments or ''} -o ServerAliveInterval={CONNECT} -o ServerAliveCountMax=2".strip()
