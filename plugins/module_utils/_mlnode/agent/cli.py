# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The command `mlnode`. Exit status: 0 compliant, 1 error, 2 usage, 3 drift."""

from __future__ import annotations

import importlib
import os
import signal
import sys
from typing import TYPE_CHECKING, Any, Callable, NoReturn, Sequence

from ..host.host import Host
from ..linux import systemd_show
from ..model.errors import MlnodeError, counted, is_denial, printable, shown
from ..model.version import VERSION
from . import mounts, output, own_archive, registry
from .arguments import DRIFT, ERROR, OK, USAGE, parser

if TYPE_CHECKING:
    import argparse

    from .node import Survey

# Each command imports its own modules: a start takes longer than most commands do.

#: Seconds that NICs wait for another run: a new menu of the boot loader takes up to five minutes. No user
#: waits for it, and no later run would handle a NIC that was given up.
_NICS_WAIT = 330.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status."""
    output.begin()
    given = [*(sys.argv[1:] if arguments is None else arguments)]
    if not given:  # on standard error, and no success: a script has lost its arguments
        output.say_aside(parser().format_help().rstrip("\n"))
        return USAGE
    options = parser(given[0]).parse_args(given)
    if options.command in _ABOUT:
        return output.ended(_ABOUT[options.command](options), ERROR)
    return output.ended(_on_host(Host(options.root, mounts.ALL), options), ERROR)


def _on_host(host: Host, options: argparse.Namespace) -> int:
    """A command that looks at a machine, or changes it."""
    command = options.command
    changes = command in _CHANGING and not getattr(options, "dry_run", False)
    if not host.live and changes:
        return _fail(f"{command} changes the machine it runs on: --root is for reading only", USAGE)
    if not os.path.isdir(host.root):
        return _fail(f"--root {options.root}: no such folder", USAGE)
    if host.live and command in _CHANGING and not host.is_superuser():
        return _fail(_ROOT_NEEDED.format(command if changes else f"{command} --dry-run"), ERROR)
    # An apply that is terminated or loses its connection must roll back: only an exception triggers that.
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # as under nohup
            signal.signal(number, _terminated)
    if command in _LOOKING:
        systemd_show.ask(host)  # before their imports, which take as long as the answer
    try:
        return _COMMANDS[command](host, options)
    except MlnodeError as error:
        return _fail(str(error), ERROR)
    except ImportError as error:  # another process may install an agent at any time
        return _fail(f"{error}: was mlnode replaced while it ran? Run it again", ERROR)
    except KeyboardInterrupt:
        return _fail(_INTERRUPTED.get(command, "interrupted"), ERROR)


#: All declared settings, without a change
_LOOKING = ("status", "check")

#: Commands for root only. A preview has to read the origin, or it would show needless writes.
_CHANGING = ("apply", "revert", "pull", "enrol", "confirm", "undo")
_ROOT_NEEDED = "root is needed for `mlnode {}`"

#: Message after an interruption
_INTERRUPTED = {
    "apply": "interrupted; the setting in work was put back, run it again for the rest",
    "revert": "interrupted; run it again to put back the rest",
}


def _terminated(_signal: int, _frame: object) -> NoReturn:
    raise KeyboardInterrupt


def _status(host: Host, options: argparse.Namespace) -> int:
    from . import node_report
    from .node import survey

    node = survey(host)
    return _report(host, node, options, node_report.settings(node))


def _check(host: Host, options: argparse.Namespace) -> int:
    from . import node_report
    from .node import survey

    node = survey(host)
    hidden = {"ok"} if options.all else {"ok", *_AS_GOOD_AS_CAN_BE}
    wanted = [item for item in node_report.settings(node) if item["status"] not in hidden]
    return _report(host, node, options, wanted)


#: Statuses that are neither right nor drift: no run can change them
_AS_GOOD_AS_CAN_BE = ("unsupported", "managed", "clamped")


def _apply(host: Host, options: argparse.Namespace) -> int:
    from ..report import document, table
    from . import node_report
    from .node import apply_all

    only = registry.WITH_LINKS if options.nics else ()
    if options.dry_run:
        from . import preview

        foreseen = preview.foresee_all(host, only)
        status = _report(host, foreseen.node, options, _of_run(node_report.settings(foreseen.node)))
        if not options.json:
            for line in foreseen.lines:
                output.say_wrapped(line)
        return DRIFT if status == OK and foreseen.node.changed else status
    # The run may have to wait for another that installs an agent; a late import would then load the new code,
    # unless this process has it in memory, as at boot. Most nodes declare half of the areas.
    del table, document
    if not own_archive.is_in_memory():
        registry.imported()
        mounts.imported()
        output.imported()
    node = apply_all(host, only, _NICS_WAIT) if options.nics else apply_all(host)
    return _report(host, node, options, _of_run(node_report.settings(node)))


def _of_run(settings: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Settings that a run has changed, could not make right, or got less of than it asked for."""
    return [item for item in settings if item["status"] not in ("ok", "unsupported", "managed")]


def _revert(host: Host, options: argparse.Namespace) -> int:
    from ..engine import confirm_store, revert
    from . import node_report

    output.imported()  # as the command removes itself
    undone = confirm_store.report(host)
    stays: Sequence[str] = ()
    if options.without_origin:
        from . import without_origin

        removal = without_origin.remove(host)
        changes, stays = [*removal.changes], removal.stays
    else:
        changes = revert.revert(host)
    if undone:
        _fail(undone, OK)
        confirm_store.acknowledge(host)
    done = [{"key": change.key, "value": change.result} for change in changes]
    waits = any(change.at_boot for change in changes)
    if options.json:
        result = {"format": node_report.FORMAT, "mlnode": VERSION, "reverted": done, "reboot_required": waits}
        output.print_json({**result, "stays": [*stays]})
        return OK
    for line in counted(f"{item['key']}: {shown(item['value'])}" for item in done):
        output.say_wrapped(printable(line))
    number = sum(change.changes for change in changes)
    output.say(f"{number} put back" if number else "nothing to put back")
    for text in stays:
        output.say_wrapped(f"stays: {text}")
    if waits:
        output.say("the running kernel keeps its command line: reboot to have the old one again")
    return OK


def _explain(host: Host, options: argparse.Namespace) -> int:
    from .explain import explain, text

    facts = explain(host, options.key)
    if options.json:
        output.print_json(facts)
    else:
        output.say(text(facts, output.width(), output.has_colours()), painted=output.has_colours())
    if facts["status"] == "unknown" and is_denial(facts["why"]) and not host.is_superuser():
        return _fail(f"root is needed to look at {facts['key']}", ERROR)
    return DRIFT if facts["drift"] == "yes" else OK


def _confirm(host: Host, options: argparse.Namespace) -> int:
    from ..engine import confirm

    first = confirm.confirm(host, options.id)
    output.say(f"{options.id} is confirmed" if first else f"{options.id} had been confirmed before")
    return OK


def _undo(host: Host, options: argparse.Namespace) -> int:
    from ..engine import confirm, confirm_store
    from . import call, lease, mounts, registry

    # The run may have to wait for another that installs an agent; a late import would then load the new code.
    registry.imported()
    mounts.imported()
    output.imported()
    done: confirm_store.Undone | None
    if lease.holds(host, options.id):
        done = (lease.end_when_due if options.when_due else lease.end)(host, options.id, call.CALLS)
    elif options.when_due:
        done = confirm.undo_when_due(host, options.id)
    else:
        done = confirm.undo(host, options.id)
    if done is None:
        return OK
    if done.stuck:
        return _fail(done.text, ERROR)
    output.say(done.text)
    return OK


def _call(host: Host, _options: argparse.Namespace) -> int:
    from . import call

    # Bytes: a text that this locale cannot decode is refused with a message, too.
    question = sys.stdin.buffer.read()
    heard: list[bool] = []
    reply = call.answer(host, question, begin=lambda: heard.append(output.say(call.BEGUN)))
    heard.append(output.say(call.MARK + output.as_json(reply)))
    if not all(heard):
        call.unheard(host, question, reply)
    return OK


def _self(host: Host, _options: argparse.Namespace) -> int:
    from . import state

    output.say(output.as_json(state.answers(host)))
    return OK


def _topology(host: Host, options: argparse.Namespace) -> int:
    from ..report import topology_table
    from ..report.topology import document
    from ..topology import hardware

    topology = hardware.topology(host)
    if options.json:
        output.print_json(document(topology))
    else:
        output.say(topology_table.table(topology, output.width()))
    return OK


def _help(options: argparse.Namespace) -> int:
    from . import arguments

    about: argparse.ArgumentParser = parser()
    if options.about:
        about = arguments.commands(about)[options.about][0]
    output.say(about.format_help().rstrip("\n"))
    return OK


def _completion(_options: argparse.Namespace) -> int:
    from . import completion

    output.say(completion.bash())
    return OK


def _man(_options: argparse.Namespace) -> int:
    from . import manual

    output.say(manual.page())
    return OK


#: About the command itself, not about a machine
_ABOUT = {"help": _help, "completion": _completion, "man": _man}


def _imported_command(module: str, name: str) -> Callable[[Host, argparse.Namespace], int]:
    """A command in its own module, which is imported when it runs."""

    def run(host: Host, options: argparse.Namespace) -> int:
        command = getattr(importlib.import_module(f".{module}", __package__), name)
        return int(command(host, options))

    return run


_COMMANDS = {
    "status": _status,
    "check": _check,
    "apply": _apply,
    "revert": _revert,
    "explain": _explain,
    "call": _call,
    "self": _self,
    "topology": _topology,
    "nccl": _imported_command("nccl", "command"),
    "audit": _imported_command("verdicts", "audit"),
    "preflight": _imported_command("verdicts", "preflight"),
    "job": _imported_command("job", "job"),
    "render": _imported_command("render", "command"),
    "metrics": _imported_command("metrics", "command"),
    "pull": _imported_command("pull", "command"),
    "enrol": _imported_command("enrol", "enrol"),
    "confirm": _confirm,
    "undo": _undo,
}


def _report(host: Host, node: Survey, options: argparse.Namespace, settings: list[dict[str, Any]]) -> int:
    from ..engine import confirm_store, origin
    from ..report import document
    from . import node_report

    counts = document.summary(item.row for item in node.rows)
    if options.json:
        output.print_json(node_report.node(node))
    else:
        _print_text(node, settings, counts)
    for note in (*confirm_store.notes(host), origin.note(host)):
        if note:
            _fail(note, OK)
    if node.errors:
        return ERROR
    return DRIFT if node.drifted else OK


def _print_text(node: Survey, settings: list[dict[str, Any]], counts: dict[str, int]) -> None:
    from ..report import table

    if settings:
        colours = output.has_colours()
        output.say(table.render(settings, output.width(), colours), painted=colours)
        output.say("")
    if node.rows:
        summary = ", ".join(f"{number} {status}" for status, number in counts.items())
        output.say_wrapped(f"{len(node.rows)} {'setting' if len(node.rows) == 1 else 'settings'}: {summary}")
    elif not node.errors:
        output.say("0 settings: all that is declared here is left alone (null)")
    for error in node.errors:
        _fail(error, ERROR)


def _fail(message: str, status: int) -> int:
    output.complain(message)
    return status
