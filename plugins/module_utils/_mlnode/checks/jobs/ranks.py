# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rank of a process in its job, from the variables of its launcher, and the names that may be read at all."""

from __future__ import annotations

from typing import Mapping

from ...knobs.nccl import environment, names
from ...model import values
from ...model.record import NamedTuple, regex


class Rank(NamedTuple):
    """None for a number that no variable has."""

    rank: int | None
    world: int | None
    local_rank: int | None


#: torchrun (torch.distributed.run), Open MPI (its FAQ, running), PMI of MPICH and Hydra, srun(1). torchrun's
#: come first: it runs inside of a step of Slurm with one task.
_RANK = ("RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID")
_WORLD = ("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS")
_LOCAL = ("LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID")
_LOCAL_WORLD = ("LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS")

_OTHERS = (
    *("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"),
    *("SLURM_JOB_ID", "HOME"),
)
#: Rendezvous of torch.distributed and size of a Slurm job, by which places on several nodes are one job
_OF_JOB = ("MASTER_ADDR", "MASTER_PORT", "SLURM_JOB_NUM_NODES")
_NAMES = frozenset((*_RANK, *_WORLD, *_LOCAL, *_LOCAL_WORLD, *_OTHERS))
#: Libraries of communication and threads: UCX, libfabric, OpenMP, OpenMPI's own, GLOO, TORCH_NCCL
_PREFIXED = regex(r"(?:UCX|FI|OMP|GLOO|TORCH_NCCL|TORCH_DISTRIBUTED)_[A-Z0-9_]{1,63}\Z")
_OF_NCCL = ("NCCL_", "OFI_NCCL_", "SHARP_COLL_")
#: Parts of the name of a secret
_SECRET = regex(r"(?:PSK|KEY|SECRET|TOKEN|PASSWORD|PASSWD|CREDENTIAL)")
#: Differ between ranks by design
_PER_RANK = frozenset(("NCCL_HOSTID", "NCCL_PARAM_DUMP_ALL"))


def known(name: str) -> bool | None:
    """True for a variable whose value may be read; False if only its name may be, because the value may be a
    secret; None for any other."""
    if name in _NAMES or name in _OF_JOB:
        return True
    if name.startswith(_OF_NCCL) and environment.is_name(name):
        return (name in names.KNOWN or name in names.UNFIT) and not _SECRET.search(name)
    return True if _PREFIXED.match(name) and not _SECRET.search(name) else None


def compared(name: str) -> bool:
    """True for a variable that all ranks of a job should have alike."""
    return name not in _NAMES and name not in _PER_RANK


def of(variables: Mapping[str, str | None]) -> Rank:
    return Rank(_first(variables, _RANK), _first(variables, _WORLD), _first(variables, _LOCAL))


def local_ranks(variables: Mapping[str, str | None]) -> int | None:
    """Number of the ranks of the job on this node; None if no variable has it."""
    return _first(variables, _LOCAL_WORLD)


def _first(variables: Mapping[str, str | None], names_of: tuple[str, ...]) -> int | None:
    numbers = (values.number(variables.get(name)) for name in names_of)
    return next((number for number in numbers if number is not None), None)
