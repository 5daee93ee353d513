# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The facts of a node, whose folder of the compute driver is a stand-in."""

from __future__ import annotations

import os
import pathlib
import subprocess

import pytest
from ansible_collections.mlnode.tuning.plugins.plugin_utils.nccl_tests import scripts


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({}, "processes=0"),
        ({"70/vram_1000": "0", "70/vram_1001": "0"}, "processes=0"),
        ({"70/vram_1000": "4096", "70/vram_1001": "4096", "71/vram_1000": "8"}, "processes=2"),
        ({"70/vram_1000": None}, ""),
    ],
)
def test_processes_on_gpus_without_nvidia_smi(
    tmp_path: pathlib.Path, files: dict[str, str | None], said: str
) -> None:
    proc = tmp_path / "kfd/kfd/proc"
    proc.mkdir(parents=True)
    for name, text in files.items():
        (proc / name).parent.mkdir(exist_ok=True)
        if text is None:
            (proc / name).mkdir()
        else:
            (proc / name).write_text(f"{text}\n")
    script = scripts.PROBE.replace("/sys/class/kfd", str(tmp_path / "kfd")).replace(
        "nvidia-smi", "no-such-tool"
    )
    done = subprocess.run(
        ["sh", "-c", script], capture_output=True, text=True, check=True, env={**os.environ, "GIVEN": ""}
    )
    assert [line for line in done.stdout.splitlines() if line.startswith("processes")] == [said] * bool(said)
