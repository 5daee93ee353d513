# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pathlib
import re

import pytest
import yaml
from mlnode.agent import cli
from mlnode.model.version import VERSION

ROOT = pathlib.Path(__file__).parents[6]


def test_library_and_collection_have_one_version() -> None:
    galaxy = yaml.safe_load((ROOT / "galaxy.yml").read_text(encoding="utf-8"))

    assert galaxy["version"] == VERSION


def test_the_version_is_a_semantic_one() -> None:
    # Galaxy accepts no other (semver.org).
    assert re.match(r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z.-]+)?\Z", VERSION)


def test_the_command_tells_its_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["--version"])

    assert (ended.value.code, capsys.readouterr().out) == (0, f"mlnode {VERSION}\n")
