# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Examples for effect.yml: short runs of programs, and texts of others, have the metrics of their files."""

from __future__ import annotations

import pathlib
import re
import shlex
import subprocess
import sys
from typing import Any

import pytest
import yaml
from ansible_collections.mlnode.tuning.plugins.modules import measure
from ansible_collections.mlnode.tuning.plugins.plugin_utils.effect import metrics
from ansible_collections.mlnode.tuning.tests.unit.roles import ROOT, load

FOLDER = ROOT / "examples/effect"
FILES = sorted(path.stem for path in FOLDER.glob("*.yml"))

#: As vLLM 0.9 prints it, published in yiliu30/vllm-fork
VLLM = """\
============ Serving Benchmark Result ============
Successful requests:                     32
Output token throughput (tok/s):         434.40
Total Token throughput (tok/s):          868.80
---------------Time to First Token----------------
P99 TTFT (ms):                           10999.46
---------------Inter-token Latency----------------
P99 ITL (ms):                            72.47
"""

#: File → more words for a short run
SHORT = {
    "loader": ["--workers", "2", "--batches", "60", "--samples", "2"],
    "storm": ["--clients", "150"],
    "stream": ["--seconds", "2"],
}

#: File → output of a program that is not here
SAID = {
    "vllm": VLLM,
    "nccl": (ROOT / "tests/fixtures/nccl/two_nodes.txt").read_text(encoding="utf-8"),
    "pytorch": f'step 1\n{{"step_ms": {[100.0 + step for step in range(120)]}}}\n',
}


def ran(name: str) -> dict[str, Any]:
    """A result of the module timed_command."""
    if name in SAID:
        return {"stdout": SAID[name], "rc": 0, "seconds": 1.0}
    _python, path, *words = shlex.split(load(f"examples/effect/{name}.yml")["effect_command"])
    command = [sys.executable, str(FOLDER / pathlib.PurePath(path).name), *words, *SHORT[name]]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    return {"stdout": done.stdout, "rc": 0, "seconds": 1.0}


@pytest.mark.parametrize("name", FILES)
def test_a_run_has_all_metrics(name: str) -> None:
    result = ran(name)

    for source in metrics.sources(load(f"examples/effect/{name}.yml")["effect_metrics"]):
        assert metrics.value(source, [result]) > 0


@pytest.mark.parametrize("name", FILES)
def test_all_variables_are_options(name: str) -> None:
    assert {*load(f"examples/effect/{name}.yml")} <= {*yaml.safe_load(measure.DOCUMENTATION)["options"]}


def test_a_storm_with_too_few_files_says_so() -> None:
    words = [sys.executable, str(FOLDER / "serving.py"), "storm", "--clients", "99999999"]

    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)

    assert done.returncode == 1
    assert re.match("expected a hard limit of 100000099 open files, got [0-9]+; use fewer", done.stderr)


def test_the_page_lists_all_files() -> None:
    page = (FOLDER / "README.md").read_text(encoding="utf-8")

    assert re.findall(r"^\| `(\w+)\.yml` \|", page, re.MULTILINE) == [*SHORT, *SAID]
    assert {*SHORT, *SAID} == {*FILES}
