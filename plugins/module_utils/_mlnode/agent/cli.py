# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The command `mlnode`. Exit status: 0 compliant, 1 error, 2 usage, 3 drift."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
from typing import TYPE_CHECKING, Any, NoReturn, Sequence

from ..host.host import Host
from ..model.errors import MlnodeError, counted, paragraphs, printable, shown
from ..model.version import VERSION
from . import mounts, registry

if TYPE_CHECKING:
    from .node import Survey

# What a command needs, it imports itself: a start takes longer than most commands do.

OK, ERROR, USAGE, DRIFT = 0, 1, 2, 3

#: How long NICs wait for another run: a new menu of the boot loader takes up to five minutes. No user
#: waits for it, and no other run would come for a NIC that was given up.
_NICS_WAIT = 330.0

_EXIT = "exit status: 0 as declared, 1 error, 2 wrong usage, 3 drift (audit: a check that fails)"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status."""
    options = _parser().parse_args(arguments)
    host = Host(options.root, mounts.ALL)
    if not host.live and options.command in ("apply", "revert"):
        return _fail(f"{options.command} changes the machine it runs on: --root is for reading only", USAGE)
    if not os.path.isdir(host.root):
        return _fail(f"--root {options.root}: no such folder", USAGE)
    # A terminated apply, or one whose connection is lost, must roll back: only an exception makes it do so.
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # as under nohup
            signal.signal(number, _terminated)
    try:
        return _COMMANDS[options.command](host, options)
    except MlnodeError as error:
        return _fail(str(error), ERROR)
    except ImportError as error:  # another process may install an agent at any time
        return _fail(f"{error}: was mlnode replaced while it ran? Run it again", ERROR)
    except KeyboardInterrupt:
        return _fail(_INTERRUPTED.get(options.command, "interrupted"), ERROR)


#: As most terminals have
_HELP_COLUMNS = 80

#: What an interruption leaves behind
_INTERRUPTED = {
    "apply": "interrupted; the setting in work was put back, run it again for the rest",
    "revert": "interrupted; run it again to put back the rest",
}


def _terminated(_signal: int, _frame: object) -> NoReturn:
    raise KeyboardInterrupt


class _Parser(argparse.ArgumentParser):
    """argparse asks for the width of the terminal at each option that is added, for which it imports shutil
    and with it all ways of compression, though only a help text has a width."""

    def _get_formatter(self) -> argparse.HelpFormatter:
        return argparse.HelpFormatter(self.prog, width=_HELP_COLUMNS)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="mlnode", description="Shows, checks, applies and undoes what this node is declared to be.",
        epilog=_EXIT,
    )  # fmt: skip
    parser.add_argument("--version", action="version", version=f"mlnode {VERSION}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    common = _Parser(add_help=False)
    common.add_argument("--json", action="store_true", help="print JSON instead of text")
    common.add_argument("--root", default="/", metavar="DIR", help="read a captured tree below DIR")
    for name, text in (
        ("status", "the table of all settings"),
        ("check", "only what is not as declared"),
        ("apply", "make this node what is declared (at boot: the service does this)"),
        ("revert", "put back every value and file mlnode has changed"),
        ("topology", "CPUs, NUMA nodes, NICs and GPUs, how near they are, and how to bind processes to them"),
        ("nccl", "variables of NCCL that a job here would find, each with its origin and meaning"),
        ("audit", "what of this machine costs speed or may be broken, whatever is declared"),
    ):
        one = commands.add_parser(name, help=text, description=text, parents=[common], epilog=_EXIT)
        if name == "revert":
            about = "where the origin is lost: remove what mlnode owns, and list what stays until a reboot"
            one.add_argument("--without-origin", action="store_true", help=about)
        if name == "apply":
            about = "only what NICs are declared to be, as when one has arrived"
            one.add_argument("--nics", action="store_true", help=about)
    text = "answer an action of a controller, which asks with JSON on the standard input"
    one = commands.add_parser("call", help=text, description=text, epilog=_EXIT)
    one.set_defaults(root="/", json=True)
    text = "what modules of one area ask: whether the next boot runs the agent, and changes that wait (JSON)"
    one = commands.add_parser("self", help=text, description=text, epilog=_EXIT)
    one.set_defaults(root="/", json=True)
    text = "check the node, and export the result to node_exporter (its timer does this)"
    one = commands.add_parser("metrics", help=text, description=text, parents=[common], epilog=_EXIT)
    one.add_argument("--print", action="store_true", help="to the standard output, and keep nothing")
    text = "everything about one setting"
    one = commands.add_parser("explain", help=text, description=text, parents=[common], epilog=_EXIT)
    one.add_argument("key", metavar="KEY", help="such as vm.swappiness or thp.enabled")
    for name, text in (
        ("confirm", "keep a change that would undo itself, over a new connection"),
        ("undo", "undo a change that waits to be confirmed"),
    ):
        one = commands.add_parser(name, help=text, description=text, epilog=_EXIT)
        one.set_defaults(root="/", json=False)
        one.add_argument("id", metavar="ID", help="as `mlnode status` shows it")
        if name == "undo":
            about = "wait until its time is over, and do nothing if it was confirmed (its timer does this)"
            one.add_argument("--when-due", action="store_true", help=about)
    return parser


def _status(host: Host, options: argparse.Namespace) -> int:
    from . import node_report
    from .node import survey

    node = survey(host)
    return _report(host, node, options, node_report.settings(node))


def _check(host: Host, options: argparse.Namespace) -> int:
    from . import node_report
    from .node import survey

    node = survey(host)
    wanted = [item for item in node_report.settings(node) if options.json or item["status"] != "ok"]
    return _report(host, node, options, wanted)


def _apply(host: Host, options: argparse.Namespace) -> int:
    from ..report import table
    from . import node_report
    from .node import apply_all

    # It may have to wait for a run that installs another agent, and what is imported late is of that one.
    del table
    registry.imported()
    mounts.imported()
    node = apply_all(host, registry.ON_ARRIVAL, _NICS_WAIT) if options.nics else apply_all(host)
    wanted = [item for item in node_report.settings(node) if options.json or item["status"] != "ok"]
    return _report(host, node, options, wanted)


def _revert(host: Host, options: argparse.Namespace) -> int:
    from ..engine import confirm, revert
    from . import node_report

    undone = confirm.report(host)
    stays: Sequence[str] = ()
    if options.without_origin:
        from . import without_origin

        removal = without_origin.remove(host)
        changes, stays = [*removal.changes], removal.stays
    else:
        changes = revert.revert(host)
    if undone:
        _fail(undone, OK)
        confirm.acknowledge(host)
    done = [{"key": change.key, "value": change.result} for change in changes]
    waits = any(change.at_boot for change in changes)
    if options.json:
        result = {"format": node_report.FORMAT, "mlnode": VERSION, "reverted": done, "reboot_required": waits}
        _print_json({**result, "stays": [*stays]})
        return OK
    for line in counted(f"{item['key']}: {shown(item['value'])}" for item in done):
        _say(printable(line))
    number = sum(change.changes for change in changes)
    _say(f"{number} put back" if number else "nothing to put back")
    for text in stays:
        _say(f"stays: {text}")
    if waits:
        _say("the running kernel keeps its command line: reboot to have the old one again")
    return OK


def _explain(host: Host, options: argparse.Namespace) -> int:
    from .explain import explain

    facts = explain(host, options.key)
    if options.json:
        _print_json(facts)
    else:
        for name, value in facts.items():
            for number, line in enumerate(_lines(value)):
                _say(f"{name.replace('_', ' ') if number == 0 else '':<12} {printable(line)}")
    return DRIFT if facts["drift"] == "yes" else OK


def _confirm(host: Host, options: argparse.Namespace) -> int:
    from ..engine import confirm

    first = confirm.confirm(host, options.id)
    _say(f"{options.id} is confirmed" if first else f"{options.id} had been confirmed before")
    return OK


def _undo(host: Host, options: argparse.Namespace) -> int:
    from ..engine import confirm
    from . import mounts, registry

    # It may have to wait for a run that installs another agent, and what is imported late is of that one.
    registry.imported()
    mounts.imported()
    if options.when_due:
        done = confirm.undo_when_due(host, options.id)
    else:
        done = confirm.undo(host, options.id)
    if done is None:
        return OK
    if done.stuck:
        return _fail(done.text, ERROR)
    _say(done.text)
    return OK


def _call(host: Host, _options: argparse.Namespace) -> int:
    from . import call

    # Bytes: a text that this locale cannot decode is refused with a message, too.
    question = sys.stdin.buffer.read()
    heard: list[bool] = []
    reply = call.answer(host, question, begin=lambda: heard.append(_say(call.BEGUN)))
    heard.append(_say(call.MARK + _json(reply)))
    if not all(heard):
        call.unheard(host, question, reply)
    return OK


def _self(host: Host, _options: argparse.Namespace) -> int:
    from . import state

    _say(_json(state.answers(host)))
    return OK


def _topology(host: Host, options: argparse.Namespace) -> int:
    from ..report import topology_table
    from ..report.topology import document
    from ..topology import read

    topology = read.of(host)
    if options.json:
        _print_json(document(topology))
    else:
        _say(topology_table.table(topology, _width()))
    return OK


def _nccl(host: Host, options: argparse.Namespace) -> int:
    from . import nccl, node_report

    report = nccl.in_force(host)
    if options.json:
        _print_json({"format": node_report.FORMAT, "mlnode": VERSION, **report.document()})
    elif report.variables:
        _say(nccl.table(report, _width()))
    else:
        _say("no variable of NCCL is set on this node")
    for problem in report.problems:
        _fail(problem, ERROR)
    return ERROR if report.problems else OK


def _audit(host: Host, options: argparse.Namespace) -> int:
    from ..checks.audit import run as audit
    from ..checks.model import Verdict, summary
    from ..report import audit as audit_report
    from . import node_report

    checks = audit.all_checks(host)
    if options.json:
        listed = [check.document() for check in checks]
        _print_json(
            {"format": node_report.FORMAT, "mlnode": VERSION, "checks": listed, "summary": summary(checks)}
        )
    else:
        _say(audit_report.report(checks, _width()))
    return DRIFT if any(check.verdict is Verdict.FAIL for check in checks) else OK


def _metrics(host: Host, options: argparse.Namespace) -> int:
    from . import metrics

    if options.print or options.json or not host.live:
        result = metrics.look(host)
        _print_json(metrics.document(result)) if options.json else _say(result.text.rstrip("\n"))
    else:
        metrics.wait_for_run(host)
        result = metrics.export(host)
    for error in result.errors:
        _fail(error, ERROR)
    return ERROR if result.errors else OK


def _lines(value: Any) -> list[str]:

    if isinstance(value, list):
        return [str(item) for item in value] or ["-"]
    return [shown(value)]


_COMMANDS = {
    "status": _status,
    "check": _check,
    "apply": _apply,
    "revert": _revert,
    "explain": _explain,
    "call": _call,
    "self": _self,
    "topology": _topology,
    "nccl": _nccl,
    "audit": _audit,
    "metrics": _metrics,
    "confirm": _confirm,
    "undo": _undo,
}


def _report(host: Host, node: Survey, options: argparse.Namespace, settings: list[dict[str, Any]]) -> int:
    from ..engine import confirm, origin
    from ..report import document
    from . import node_report

    counts = document.summary(item.row for item in node.rows)
    if options.json:
        _print_json(node_report.node(node))
    else:
        _print_text(node, settings, counts)
    for note in (*confirm.notes(host), origin.note(host)):
        if note:
            _fail(note, OK)
    if node.errors:
        return ERROR
    return DRIFT if node.drifted else OK


def _print_text(node: Survey, settings: list[dict[str, Any]], counts: dict[str, int]) -> None:
    from ..report import table

    if settings:
        _say(table.render(settings, _width()))
        _say("")
    if node.rows:
        summary = ", ".join(f"{number} {status}" for status, number in counts.items())
        _say(f"{len(node.rows)} {'setting' if len(node.rows) == 1 else 'settings'}: {summary}")
    elif not node.errors:
        _say("0 settings: all that is declared here is left alone (null)")
    for error in node.errors:
        _fail(error, ERROR)


def _width() -> int | None:
    if not sys.stdout.isatty():
        return None
    import shutil

    return shutil.get_terminal_size().columns


def _print_json(value: Any) -> None:
    _say(_json(value, indent=2))


def _json(value: Any, indent: int | None = None) -> str:
    """ASCII without control characters: json.dumps() leaves one of them as it is."""
    return json.dumps(value, indent=indent, ensure_ascii=True).replace("\x7f", "\\u007f")


def _say(text: str) -> bool:
    """Write and flush; False where the reader went away (`mlnode check | head`), which is not an error.

    All that is printed goes through here or _fail(), where nothing gets past that a terminal would obey.
    """
    text = paragraphs(text)
    # A kernel value may hold any byte, and a terminal may know few characters: neither ends in a traceback.
    encoding = sys.stdout.encoding or "utf-8"
    try:
        sys.stdout.write(text.encode(encoding, "backslashreplace").decode(encoding) + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        # What is still buffered, and all that follows, goes nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return False
    return True


def _fail(message: str, status: int) -> int:
    sys.stderr.write(f"mlnode: {printable(message)}\n")
    return status
