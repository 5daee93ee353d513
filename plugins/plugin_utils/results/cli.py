# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The command mlnode-results: results on the controller, compared, followed over time, and merged.

Exit status as for mlnode: 0 as expected, 1 an error, 2 wrong usage, 3 something is worse or missing.
"""

from __future__ import annotations

import argparse
import pathlib
from collections.abc import Sequence
from typing import Any

from ...module_utils._mlnode.agent import output
from ...module_utils._mlnode.model.errors import MlnodeError, printable
from ..fleet_report import document, files, merge, page, table
from . import compare, effects, fleet, inventory, nccl, result, trend
from .change import is_success

#: argparse exits with 2.
OK, ERROR, NOT_OK = 0, 1, 3


def main(words: Sequence[str]) -> int:
    asked = _parser().parse_args(words)
    output.begin()
    try:
        status = int(asked.run(asked))
    except MlnodeError as error:
        _complain(str(error))
        status = ERROR
    except OSError as error:
        _complain(f"cannot write {error.filename}: {error.strerror}")
        status = ERROR
    return output.ended(status, ERROR)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="mlnode-results", description="Results of a fleet on the controller."
    )
    commands = parser.add_subparsers(metavar="COMMAND", required=True)

    command = commands.add_parser("compare", help="changes between two campaigns, or two results of nccl.yml")
    command.add_argument("a", metavar="A", type=pathlib.Path, help="the earlier result, a JSON file")
    command.add_argument("b", metavar="B", type=pathlib.Path, help="the later one")
    command.set_defaults(run=_compare)

    command = commands.add_parser("trend", help="the series of each node over all campaigns of a folder")
    command.add_argument(
        "folder", metavar="FOLDER", type=pathlib.Path, help="the folder with the results of campaign.yml"
    )
    command.set_defaults(run=_trend)

    command = commands.add_parser("effects", help="verdicts and intervals of effect.yml")
    command.add_argument("files", metavar="FILE", type=pathlib.Path, nargs="+", help="results, JSON files")
    command.set_defaults(run=_effects)

    command = commands.add_parser(
        "merge", help="join fleet reports and campaigns, with every node of the inventory"
    )
    command.add_argument(
        "files", metavar="FILE", type=pathlib.Path, nargs="+", help="fleet reports and campaigns, JSON"
    )
    command.add_argument(
        "-i", "--inventory", action="append", default=[],
        help="the inventory, as for ansible-playbook (default: from ansible.cfg)",
    )  # fmt: skip
    command.add_argument(
        "-g",
        "--group",
        action="append",
        default=[],
        help="only hosts of this group; may be given several times",
    )
    command.add_argument(
        "-o", "--output", type=pathlib.Path, metavar="FILE", help="write the merged report as JSON"
    )
    command.add_argument("--html", type=pathlib.Path, metavar="FILE", help="write it as a page")
    command.set_defaults(run=_merge)

    for command in commands.choices.values():
        command.add_argument("--json", action="store_true", help="print JSON, and not a table")
    return parser


def _compare(asked: argparse.Namespace) -> int:
    before, after = map(result.brief, (asked.a, asked.b))
    if "nccl" in before or "nccl" in after:
        groups = nccl.compare(nccl.read(before, asked.a), nccl.read(after, asked.b))
        _print(asked, nccl.document(groups), nccl.lines(groups, output.width()))
        return OK if is_success(groups.verdict) else NOT_OK
    comparison = compare.compare(result.read(before, str(asked.a)), result.read(after, str(asked.b)))
    _print(asked, compare.document(comparison), compare.lines(comparison, output.width()))
    return OK if is_success(comparison.verdict) else NOT_OK


def _trend(asked: argparse.Namespace) -> int:
    if not asked.folder.is_dir():
        raise MlnodeError(f"{asked.folder} is not a folder")
    paths = sorted(asked.folder.glob("*.json"))
    if not paths:
        raise MlnodeError(f"{asked.folder} holds no result: no file in it is called *.json")
    kinds: dict[str, list[trend.Point]] = {}
    unread = []
    for path in paths:
        try:
            fields = result.brief(path)
            if "effect" in fields:  # effect.yml writes into the same folder
                continue
            run = result.read(fields, str(path))
        except MlnodeError as error:
            unread.append(str(error))
        else:
            kinds.setdefault(run.kind, []).append(trend.point(run))
    if not kinds and not unread:
        raise MlnodeError(f"{asked.folder} holds no result of a campaign")
    trends = [trend.trend(points) for points in kinds.values()]
    lines = [line for kind_trend in trends for line in (*trend.lines(kind_trend, output.width()), "")][:-1]
    _print(asked, trend.whole(trends, unread), lines)
    for reason in unread:
        _complain(reason)
    if unread:
        return ERROR
    return NOT_OK if not all(is_success(kind_trend.verdict) for kind_trend in trends) else OK


def _effects(asked: argparse.Namespace) -> int:
    read = [effects.read(result.brief(path), path) for path in asked.files]
    _print(asked, effects.document(read), effects.lines(read, output.width()))
    return OK if effects.is_success(read) else NOT_OK


def _merge(asked: argparse.Namespace) -> int:
    hosts = inventory.hosts(asked.inventory, asked.group)
    reports, campaigns = [], []
    for path in asked.files:
        fields = result.load(path)
        if "campaign" in fields:
            campaigns.append(result.read(fields, str(path)))
        else:
            reports.append(merge.read(fields, str(path)))
    merged = merge.merge(reports, hosts)
    fleet.add_all(merged, campaigns)
    for path, form in ((asked.output, document), (asked.html, page)):
        if path:
            files.write(path, form.lines(merged))
            if not asked.json:
                output.say(f"{path} is written")
    if asked.json:
        output.say("".join(document.lines(merged)).rstrip())
    else:
        output.say("\n".join(table.lines(merged, output.width())))
    return OK if {*merged.states()} <= {"ok"} else NOT_OK


def _print(asked: argparse.Namespace, body: Any, lines: Sequence[str]) -> None:
    if asked.json:
        output.print_json(body)
    else:
        output.say("\n".join(lines))


def _complain(message: str) -> None:
    output.say_aside(f"mlnode-results: {printable(message)}")
