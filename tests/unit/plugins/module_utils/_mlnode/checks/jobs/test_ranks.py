# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest
from mlnode.checks.jobs import ranks


@pytest.mark.parametrize(
    ("variables", "rank"),
    [
        ("SLURM_PROCID=3 SLURM_NTASKS=8 SLURM_LOCALID=1 SLURM_STEP_ID=0", (3, 8, 1)),
        ("SLURM_PROCID=0 SLURM_NTASKS=8 SLURM_LOCALID=0", (None, None, None)),
        ("SLURM_PROCID=0 SLURM_NTASKS=8 SLURM_LOCALID=0 SLURM_STEP_ID=4294967291", (None, None, None)),
        ("RANK=5 SLURM_PROCID=0 SLURM_NTASKS=8", (5, None, None)),
        ("RANK=5 WORLD_SIZE=16 SLURM_PROCID=0 SLURM_NTASKS=2 SLURM_LOCALID=1 SLURM_STEP_ID=0", (5, 16, None)),
        ("PMIX_RANK=3 SLURM_PROCID=3 SLURM_NTASKS=8 SLURM_LOCALID=1 SLURM_STEP_ID=0", (3, 8, 1)),
        ("PMI_RANK=3 PMI_SIZE=8 SLURM_PROCID=3 SLURM_NTASKS=8 SLURM_LOCALID=1 SLURM_STEP_ID=0", (3, 8, 1)),
        ("LOCAL_RANK=2", (None, None, 2)),
        ("RANK=2147483647 WORLD_SIZE=2147483648 LOCAL_RANK=99999999999999999999", (2147483647, None, None)),
        ("HOME=/root", (None, None, None)),
    ],
)
def test_the_rank_is_of_one_launcher(variables: str, rank: tuple[int | None, ...]) -> None:
    pairs = (pair.partition("=") for pair in variables.split())
    assert ranks.rank({name: value for name, _equals, value in pairs}) == rank
