# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Arguments of the command: one parser, from which help, completion and manual page are made as well."""

from __future__ import annotations

import argparse
import sys
from typing import Any, NoReturn

from ..model.version import VERSION
from . import output

OK, ERROR, USAGE, DRIFT = 0, 1, 2, 3

EXIT = "exit status: 0 as declared, 1 error, 2 wrong usage, 3 drift (audit, preflight, job: a failed check)"

DESCRIPTION = "Shows, checks, applies and reverts the declared tuning of this node."

#: As most terminals have
_HELP_COLUMNS = 80

#: Command → its description. The first tuple has commands that look at a node, and can read a captured tree
#: as well.
_LOOKS = (
    ("status", "the table of all settings"),
    ("check", "only settings that are not as declared"),
    ("apply", "apply the declared settings (at boot: the service does this)"),
    ("revert", "put back every value and file mlnode has changed"),
    ("topology", "CPUs, NUMA nodes, NICs and GPUs, how near they are, and how to bind processes to them"),
    ("nccl", "variables of NCCL that a job here would find, each with its origin and meaning"),
    ("audit", "settings and hardware that cost speed or may be broken, whether declared or not"),
)
_MACHINE_READ = (
    ("call", "answer an action of a controller, which asks with JSON on the standard input"),
    (
        "self",
        "answer a module of one area: whether the next boot runs the agent, and changes that wait (JSON)",
    ),
)
_MORE = {
    "preflight": "verify in a few seconds that this node is ready for a job, without its neighbours",
    "job": "what running jobs get of the declaration, in their namespaces, limits and environments",
    "metrics": "check the node, and export the result to node_exporter (its timer does this)",
    "pull": "look for a new declaration of this node on a web server, and apply it (its timer does this)",
    "enrol": "have this node look for its declaration on a web server, as at the first boot of an image",
    "explain": "everything about one setting",
    "confirm": "keep a change that would undo itself, over a new connection",
    "undo": "undo a change that waits to be confirmed",
    "render": "print declared settings as texts for switches, containers and Slurm, to use by hand",
    "completion": "print a shell completion script for commands, options and settings",
    "man": "print the manual page, for `mlnode man | man -l -`",
    "help": "this text, or the help of a command",
}
_WAITING = ("confirm", "undo")

#: Commands that read a captured tree and print JSON, too
_SHARED = (*dict(_LOOKS), "metrics", "explain")

#: Network operating systems of knobs/qos/switches.py, which no start needs
NOS = ("cumulus", "sonic", "eos", "nxos")

#: Texts of `mlnode render`: for switches, and those of agent/render.py, which no start needs
SWITCH = "switch"
CONTAINERS = ("kubelet", "pod", "cni-tuning", "docker-run", "podman-run", "enroot", "slurm-prolog")

#: Options of `mlnode job`, each of which may be given several times
_JOBS = {
    "--pid": ("PID", "look at this process (default: all that have a GPU or an RDMA device open)"),
    "--cgroup": ("PATH", "look at the processes of a control group and the groups below it"),
    "--container": ("NAME", "look at a container, by its name or the beginning of its id"),
    "--slurm-job": ("ID", "look at the tasks of a Slurm job"),
    "--pod": ("NAME", "look at a pod, by NAME, NAMESPACE/NAME or its uid"),
}

#: Shells that completion scripts are made for
SHELLS = ("bash",)


class Parser(argparse.ArgumentParser):
    """Parser with a fixed width. argparse asks for the terminal's width at each added option; for that it
    imports shutil with all compression modules, though only a help text needs a width. argparse also ignores
    errors of its output, such as a full device."""

    def _get_formatter(self) -> argparse.HelpFormatter:
        return argparse.HelpFormatter(self.prog, width=_HELP_COLUMNS)

    def _print_message(self, message: str, file: object = None) -> None:
        if file is sys.stdout:
            output.say(message.rstrip("\n"))
        else:
            output.say_aside(message.rstrip("\n"))

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
        if message:
            self._print_message(message, sys.stderr)
        raise SystemExit(output.ended(status, ERROR))


def parser(only: str = "") -> Parser:
    """The parser of all commands. only: the first word that was given, for a parser of no other command: to
    make all of them is a fifth of a start, and an apply at boot needs one."""
    parser = Parser(prog="mlnode", description=DESCRIPTION, epilog=EXIT)
    parser.add_argument("--version", action="version", version=f"mlnode {VERSION}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    common = Parser(add_help=False)
    common.add_argument("--json", action="store_true", help="print JSON instead of text")
    common.add_argument("--root", default="/", metavar="DIR", help="read a captured tree below DIR")
    texts = {**dict(_LOOKS), **dict(_MACHINE_READ), **_MORE}
    for name in [only] if only in texts else texts:
        parents = [common] if name in _SHARED else []
        text = texts[name]
        subparser = commands.add_parser(name, help=text, description=text, parents=parents, epilog=EXIT)
        if not parents:
            subparser.set_defaults(root="/", json=False)
        _add_options(name, subparser, [*texts])
    return parser


def _add_options(name: str, subparser: argparse.ArgumentParser, names: list[str]) -> None:
    """Add the options and arguments that only this command has. names: of all commands."""
    if name in dict(_MACHINE_READ):
        subparser.set_defaults(json=True)
    elif name == "check":
        about = (
            "also settings that cannot be as declared here, which is not drift: unsupported, managed, clamped"
        )
        subparser.add_argument("--all", action="store_true", help=about)
    elif name == "apply":
        about = "only the settings of NICs, for when one has arrived"
        subparser.add_argument("--nics", action="store_true", help=about)
        about = "show what would be changed, and change nothing (exit status 3 if anything would)"
        subparser.add_argument("--dry-run", action="store_true", help=about)
    elif name == "revert":
        about = (
            "if the origin is lost: remove the files of mlnode, and list the values that stay until a reboot"
        )
        subparser.add_argument("--without-origin", action="store_true", help=about)
    elif name == "nccl":
        subparser.add_argument(
            "--all", action="store_true", help="also documented variables that nothing sets"
        )
    elif name == "metrics":
        subparser.add_argument(
            "--print", action="store_true", help="to the standard output, and keep nothing"
        )
        about = "only values that change by the minute: governor and RDMA counters (its timer does this)"
        subparser.add_argument("--watch", action="store_true", help=about)
    elif name == "pull":
        subparser.add_argument("--json", action="store_true", help="print the report as JSON")
        about = "fetch and check it, and show what would be changed (exit status 3 if anything would)"
        subparser.add_argument("--dry-run", action="store_true", help=about)
    elif name == "enrol":
        subparser.add_argument(
            "--url", required=True, metavar="URL", help="the folder that publish.yml has filled"
        )
        about = "the node's name in the inventory (default: the host name)"
        subparser.add_argument("--node", metavar="NAME", help=about)
        about = "a public key that signs documents; may be given several times"
        subparser.add_argument("--signer", required=True, action="append", metavar="KEY", help=about)
        about = "show whether this would change anything, and change nothing (exit status 3 if so)"
        subparser.add_argument("--dry-run", action="store_true", help=about)
    elif name == "preflight":
        form = subparser.add_mutually_exclusive_group()
        form.add_argument("--json", action="store_true", help="print JSON instead of text")
        about = "print one line, for the reason of a scheduler"
        form.add_argument("--brief", action="store_true", help=about)
    elif name == "job":
        subparser.add_argument("--json", action="store_true", help="print JSON instead of text")
        for option, (word, about) in _JOBS.items():
            more: Any = {"type": int} if option == "--pid" else {}
            subparser.add_argument(option, action="append", default=[], metavar=word, help=about, **more)
    elif name == "explain":
        subparser.add_argument("key", metavar="KEY", help="such as vm.swappiness or thp.enabled")
    elif name in _WAITING:
        subparser.add_argument("id", metavar="ID", help="as `mlnode status` shows it")
        if name == "undo":
            about = "wait until its time is over, and do nothing if it was confirmed (its timer does this)"
            subparser.add_argument("--when-due", action="store_true", help=about)
    elif name == "render":
        subparser.add_argument("what", choices=(SWITCH, *CONTAINERS), metavar="WHAT", help="%(choices)s")
        about = f"with {SWITCH}, print only this network operating system: %(choices)s"
        subparser.add_argument("--nos", choices=NOS, metavar="NOS", help=about)
        subparser.add_argument("--root", default="/", metavar="DIR", help="read a captured tree below DIR")
    elif name == "completion":
        subparser.add_argument("shell", choices=SHELLS, metavar="SHELL", help="bash")
    elif name == "help":
        subparser.add_argument("about", nargs="?", metavar="COMMAND", choices=names, help="such as check")


def commands(root_parser: argparse.ArgumentParser) -> dict[str, tuple[argparse.ArgumentParser, str]]:
    """Command → its parser, and its text in the list of commands."""
    for action in root_parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            texts = {item.dest: item.help or "" for item in action._choices_actions}
            return {name: (subparser, texts[name]) for name, subparser in action.choices.items()}
    return {}


def options(subparser: argparse.ArgumentParser) -> list[argparse.Action]:
    """Options of a command, without --help."""
    return [
        action
        for action in subparser._actions
        if action.option_strings and "--help" not in action.option_strings
    ]


def positionals(subparser: argparse.ArgumentParser) -> list[argparse.Action]:
    """Positional arguments of a command."""
    return [
        action
        for action in subparser._actions
        if not action.option_strings and not isinstance(action, argparse._SubParsersAction)
    ]
