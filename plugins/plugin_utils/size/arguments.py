# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Arguments of mlnode-size. Wrong ones end in one line on standard error and exit status 2."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable
from typing import NoReturn

from ...module_utils._mlnode.agent import output
from ...module_utils._mlnode.model.errors import printable, shown
from .traffic import PASSES

USAGE = 2

#: Far beyond any machine: greater numbers are mistakes, such as a rate in bit/s
_MOST_COUNT = 10_000_000

#: Digits with a point and an exponent, in ASCII: float() takes nan, inf and 1_0, too
_NUMBER = re.compile(r"[0-9]+(\.[0-9]*)?([eE][+-]?[0-9]{1,3})?", re.ASCII)
_COUNT = re.compile(r"[0-9]{1,9}", re.ASCII)


class Parser(argparse.ArgumentParser):
    """An error is one line: the usage of all options would hide it."""

    def error(self, message: str) -> NoReturn:
        refuse(f"{message.removeprefix('argument ')}; see {self.prog} --help")


def refuse(message: str) -> NoReturn:
    """End with one line and the status of wrong usage."""
    output.say_aside(f"mlnode-size: {printable(message)}")
    raise SystemExit(output.ended(USAGE, USAGE))


def _count(least: int, most: int = _MOST_COUNT) -> Callable[[str], int]:
    def parse(text: str) -> int:
        number = int(text) if _COUNT.fullmatch(text) else -1
        if not least <= number <= most:
            expected = f"expected a whole number from {least} to {most}, got {shown(text)!r}"
            raise argparse.ArgumentTypeError(expected)
        return number

    return parse


def _number(least: float, most: float, unit: str) -> Callable[[str], float]:
    def parse(text: str) -> float:
        number = float(text) if _NUMBER.fullmatch(text) else float("nan")
        if not least <= number <= most:
            expected = f"expected {unit} from {least:g} to {most:g}, got {shown(text)!r}"
            raise argparse.ArgumentTypeError(expected)
        return number

    return parse


_parameters = _number(1, 1e15, "a number of parameters")
_bytes = _number(0.5, 8, "bytes")  # 4 bits (FP4) to 64 (FP64)
_seconds = _number(1e-6, 1e6, "seconds")
_gbit = _number(0.1, 1e5, "Gb/s")
_usable = _number(0.01, 1, "a fraction")
_ratio = _number(1, 100, "a ratio, such as 2 for 2:1,")


def parser() -> Parser:
    """`command` is traffic or fabric."""
    top = Parser(
        prog="mlnode-size", description="Size of a training network: traffic of a job, switches of a fabric."
    )
    commands = top.add_subparsers(dest="command", metavar="COMMAND", required=True)
    _traffic(commands.add_parser("traffic", help="gradient exchange of a job, its share of the links"))
    _fabric(commands.add_parser("fabric", help="switches of a fat tree and of a rail-optimized fabric"))
    for command in commands.choices.values():
        command.add_argument("--json", action="store_true", help="print JSON instead of tables")
    return top


def _traffic(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--parameters", type=_parameters, required=True, metavar="N", help="of the model, such as 175e9"
    )
    command.add_argument(
        "--bytes", type=_bytes, default=2, metavar="B",
        help="bytes per parameter in the exchange: 2 for BF16 (default), 4 for FP32",
    )  # fmt: skip
    command.add_argument("--gpus", type=_count(1), required=True, metavar="N", help="of the job")
    command.add_argument(
        "--step", type=_seconds, required=True, metavar="S",
        help="seconds of computation in a step, without waiting for the exchange",
    )  # fmt: skip
    command.add_argument(
        "--tensor", type=_count(1), default=1, metavar="N", help="tensor-parallel GPUs (default 1)"
    )
    command.add_argument(
        "--pipeline", type=_count(1), default=1, metavar="N", help="pipeline stages (default 1)"
    )
    command.add_argument(
        "--zero", type=_count(0, max(PASSES)), default=0, metavar="N",
        help="ZeRO stage of the data-parallel GPUs; 3 for FSDP with full sharding (default 0)",
    )  # fmt: skip
    command.add_argument("--gpus-per-node", type=_count(1, 1024), default=8, metavar="N", help="default 8")
    command.add_argument(
        "--rails", type=_count(1, 1024), metavar="N", help="ports of a node (default: one for each GPU)"
    )
    command.add_argument("--gbit", type=_gbit, default=400, metavar="R", help="Gb/s of a rail (default 400)")
    command.add_argument(
        "--usable", type=_usable, default=1, metavar="F",
        help="fraction of that rate which the exchange reaches, as measured (default 1, the upper bound)",
    )  # fmt: skip


def _fabric(command: argparse.ArgumentParser) -> None:
    command.add_argument("--nodes", type=_count(1), required=True, metavar="N", help="of the fabric")
    command.add_argument(
        "--rails", type=_count(1, 1024), default=8, metavar="N", help="ports of a node (default 8)"
    )
    command.add_argument(
        "--ports", type=_count(4, 4096), default=64, metavar="N", help="of a switch (default 64)"
    )
    command.add_argument("--gbit", type=_gbit, default=400, metavar="R", help="Gb/s of a link (default 400)")
    command.add_argument(
        "--oversubscription", type=_ratio, default=1, metavar="X",
        help="ports for nodes per uplink of a leaf, at most (default 1)",
    )  # fmt: skip
