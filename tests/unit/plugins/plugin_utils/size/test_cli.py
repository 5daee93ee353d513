# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The command mlnode-size as it is called."""

from __future__ import annotations

import json
import pathlib
import re
import subprocess
import sys

import jsonschema
import pytest
from ansible_collections.mlnode.tuning.plugins.plugin_utils.size import cli

ROOT = pathlib.Path(__file__).parents[5]
GUIDE = (ROOT / "docs/guide/size.md").read_text(encoding="utf-8")
SCHEMA = json.loads((ROOT / "docs/schema/size.schema.json").read_text(encoding="utf-8"))

TRAFFIC = "traffic --parameters 175e9 --gpus 1024 --tensor 8 --pipeline 8 --step 5"
FABRIC = "fabric --nodes 512"

OF_A_JOB = [
    *("parameters", "bytes", "gpus", "step", "tensor", "pipeline", "zero"),
    *("gpus-per-node", "rails", "gbit", "usable"),
]
BAD = [
    *("0", "-1", "nan", "inf", "-inf", "1e400", "1e999999"),
    *("x", "1_0", "\u0663", "0x1", "\x1b[31m", "9" * 5000),
]


def call(capsys: pytest.CaptureFixture[str], words: str) -> tuple[int, str, str]:
    try:
        status = cli.main(words.split())
    except SystemExit as end:
        status = int(end.code or 0)
    return status, *capsys.readouterr()


@pytest.mark.parametrize("words", [TRAFFIC, FABRIC])
def test_output_of_the_guide(capsys: pytest.CaptureFixture[str], words: str) -> None:
    status, out, err = call(capsys, words)

    assert (status, err) == (0, "")
    assert f"$ mlnode-size {words}\n" in GUIDE
    # Notes are wrapped there.
    table = out.rpartition("\n\n")[0]
    assert table in GUIDE


@pytest.mark.parametrize("words", [TRAFFIC, FABRIC, f"{FABRIC} --oversubscription 2 --rails 1"])
def test_json(capsys: pytest.CaptureFixture[str], words: str) -> None:
    status, out, _err = call(capsys, f"{words} --json")

    assert status == 0
    jsonschema.validate(json.loads(out), SCHEMA)


def test_rails_are_as_many_as_gpus_unless_given(capsys: pytest.CaptureFixture[str]) -> None:
    words = "traffic --parameters 7e9 --gpus 64 --step 1 --gpus-per-node 4 --json"
    assert json.loads(call(capsys, words)[1])["given"]["rails"] == 4
    assert json.loads(call(capsys, f"{words} --rails 2")[1])["given"]["rails"] == 2


@pytest.mark.parametrize("number", BAD)
@pytest.mark.parametrize("name", OF_A_JOB)
def test_a_bad_number_of_a_job_is_one_line(
    capsys: pytest.CaptureFixture[str], name: str, number: str
) -> None:
    if (name, number) == ("zero", "0"):
        return
    status, out, err = call(capsys, f"{TRAFFIC} --{name}={number}")

    assert (status, out) == (2, "")
    assert err.startswith(f"mlnode-size: --{name}: ")
    assert err.count("\n") == 1
    assert err[:-1].isprintable()


@pytest.mark.parametrize("number", ["0", "nan", "1e400", "1.5x"])
@pytest.mark.parametrize("name", ["nodes", "rails", "ports", "gbit", "oversubscription"])
def test_a_bad_number_of_a_fabric_is_one_line(
    capsys: pytest.CaptureFixture[str], name: str, number: str
) -> None:
    status, out, err = call(capsys, f"{FABRIC} --{name}={number}")

    assert (status, out, err.count("\n")) == (2, "", 1)
    assert err.startswith(f"mlnode-size: --{name}: expected ")


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ("", "COMMAND"),
        ("size", "'size'"),
        ("traffic", "--parameters, --gpus, --step"),
        ("fabric", "--nodes"),
        (f"{TRAFFIC} more", "more"),
        (f"{TRAFFIC} --tensor 3", "--gpus: expected a multiple of 24"),
        ("fabric --nodes 8193", "--nodes: expected at most 8192"),
    ],
)
def test_a_wrong_call_is_one_line(capsys: pytest.CaptureFixture[str], words: str, named: str) -> None:
    status, out, err = call(capsys, words)

    assert (status, out, err.count("\n")) == (2, "", 1)
    assert named in err


def test_extremes_stay_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    words = "traffic --parameters 1e15 --bytes 8 --gpus 10000000 --step 1e-6 --gbit 0.1 --usable 0.01"
    status, out, _err = call(capsys, words)

    assert status == 0
    assert not re.search(r"\b(inf|nan)\b", out)


def test_the_script() -> None:
    done = subprocess.run(
        [ROOT / "scripts/mlnode-size", *FABRIC.split()],
        env={"PATH": "/usr/bin:/bin", "PYTHON": sys.executable},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert "rail-optimized  3      128" in done.stdout
