# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rank of a process in its job, from the variables of its launcher, and the names that may be read at all."""

from __future__ import annotations

from itertools import chain
from typing import Container, Mapping

from ...knobs.nccl import environment, names
from ...model import accelerators, values
from ...model.record import NamedTuple, regex


class Rank(NamedTuple):
    """None for a number that no variable has."""

    rank: int | None
    world: int | None
    local_rank: int | None


#: Variables of launchers in the order of Rank: torchrun (torch.distributed.run), Open MPI (its FAQ, running),
#: PMI of MPICH and Hydra, srun(1), PMIx. torchrun is the first: it runs inside of a step of Slurm with one
#: task.
_SLURM = ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID")
_LAUNCHERS = (
    ("RANK", "WORLD_SIZE", "LOCAL_RANK"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"),
    ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"),
    _SLURM,
    ("PMIX_RANK", "", ""),
)
_LOCAL_WORLD = ("LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS")
#: Number of a step. A batch script has the number of tasks of its job, and is rank 0. Its step has no number,
#: or one after SLURM_MAX_NORMAL_STEP_ID of slurm/slurm.h.
_STEP, _SPECIAL_STEPS = "SLURM_STEP_ID", 0xFFFFFFF0

_OTHERS = (
    *accelerators.VISIBLE,
    *("SLURM_JOB_ID", _STEP, "HOME"),
)
#: Rendezvous of torch.distributed and size of a Slurm job, by which places on several nodes are one job
_OF_JOB = ("MASTER_ADDR", "MASTER_PORT", "SLURM_JOB_NUM_NODES")
_NAMES = frozenset((*chain(*_LAUNCHERS), *_LOCAL_WORLD, *_OTHERS)) - {""}
#: Libraries of communication and threads: UCX, libfabric, OpenMP, OpenMPI's own, GLOO, TORCH_NCCL
_PREFIXED = regex(r"(?:UCX|FI|OMP|GLOO|TORCH_NCCL|TORCH_DISTRIBUTED)_[A-Z0-9_]{1,63}\Z")
_OF_NCCL = ("NCCL_", "RCCL_", "OFI_NCCL_", "SHARP_COLL_")
#: Parts of the name of a secret
_SECRET = regex(r"(?:PSK|KEY|SECRET|TOKEN|PASSWORD|PASSWD|CREDENTIAL)")
#: Differ between ranks by design
_PER_RANK = frozenset(("NCCL_HOSTID", "NCCL_PARAM_DUMP_ALL"))


def known(name: str, declared: Container[str] = ()) -> bool | None:
    """True for a variable whose value may be read; False if only its name may be, because the value may be a
    secret; None for any other. declared: names of NCCL with a value that a declaration shows anyway."""
    if name in _NAMES or name in _OF_JOB:
        return True
    if name.startswith(_OF_NCCL) and environment.is_name(name):
        is_listed = name in names.KNOWN or name in names.UNFIT or name in declared
        return is_listed and not _SECRET.search(name)
    return True if _PREFIXED.match(name) and not _SECRET.search(name) else None


def compared(name: str) -> bool:
    """True for a variable that all ranks of a job should have alike."""
    return name not in _NAMES and name not in _PER_RANK


def rank(variables: Mapping[str, str | None]) -> Rank:
    """Numbers by the launcher that sets the most, the first of several: two launchers may count differently.
    The local rank may be of another launcher with the same rank."""
    known = [_rank(variables, names_of) for names_of in _LAUNCHERS]
    own = max(known, key=lambda rank: (rank.rank is not None, rank.world is not None, rank != _NOTHING))
    alike = (other.local_rank for other in known if other[:2] == own[:2] and other.local_rank is not None)
    return Rank(own.rank, own.world, next(alike, None) if own.local_rank is None else own.local_rank)


_NOTHING = Rank(None, None, None)
_GREATEST = 2**31 - 1


def _rank(variables: Mapping[str, str | None], names_of: tuple[str, ...]) -> Rank:
    if variables.keys().isdisjoint(names_of):
        return _NOTHING
    step = values.number(variables.get(_STEP))
    if names_of == _SLURM and (step is None or step >= _SPECIAL_STEPS):
        return _NOTHING
    return Rank(*(_number(variables.get(name)) for name in names_of))


def _number(text: str | None) -> int | None:
    """Launchers count in int (MPI_Comm_rank(3)). A job may write anything there, and the answer of its node
    holds no greater number."""
    number = values.number(text)
    return None if number is None or number > _GREATEST else number


def local_ranks(variables: Mapping[str, str | None]) -> int | None:
    """Number of the ranks of the job on this node; None if no variable has it."""
    return _first(variables, _LOCAL_WORLD)


def _first(variables: Mapping[str, str | None], names_of: tuple[str, ...]) -> int | None:
    numbers = (_number(variables.get(name)) for name in names_of)
    return next((number for number in numbers if number is not None), None)
