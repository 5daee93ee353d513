# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Places of processes, with all that is read in their namespaces."""

from __future__ import annotations

from collections import Counter
from functools import partial
from itertools import islice
from typing import Iterable, Iterator, Sequence, Tuple

from ...host.child import Answer
from ...knobs.nccl import file as nccl_file
from ...linux import inside, job_processes
from ...linux.cgroup_names import OTHER, POD
from ...linux.inside import Storage
from ...linux.job_processes import NAMESPACES, JobProcess
from ...model.errors import HostError
from ...model.record import replace
from ...model.setting import Value
from . import defaults, nccl, ranks, readings, shared_memory, sysctls
from .model import Node, Place, Process

#: Properties that all processes of a place share
_Key = Tuple[object, ...]


def places(node: Node, processes: Sequence[JobProcess]) -> list[Place]:
    """Places of these processes, in the order of their first ones. Notes those that have ended. A place with
    one of them, or whose values were to be read through one, is left out. Raises HostError."""
    readings.begin(node.host, processes)
    by_key: dict[_Key, list[JobProcess]] = {}
    for process in processes:
        by_key.setdefault(_key(process), []).append(process)
    here = _own(node)
    groups = [*by_key.values()]
    firsts = [group[0] for group in groups]
    paths = sysctls.paths(node)
    known = partial(ranks.known, declared=nccl.declared(node))
    elsewhere = {_nets(process): process for process in firsts if {*_differing(process, here)} & _NETS}
    # One list for one child: a fork is the longest part of the look at one job.
    parts = (
        [inside.network(node.host, process, paths) for process in elsewhere.values()],
        inside.environments(node.host, processes, known),
        [inside.storage(node.host, process, shared_memory.PATH) for process in firsts],
        [inside.account_home(node.host, process) for process in firsts],
        [inside.devices(node.host, process) for process in firsts],
    )
    answers = iter(inside.ask(node.host, [work for part in parts for work in part]))
    of_networks, of_environments, stores, homes, devices = ([*islice(answers, len(part))] for part in parts)
    _note_ended(node, zip(elsewhere.values(), of_networks))
    _note_ended(node, zip(processes, of_environments))
    for of_firsts in (stores, homes, devices):
        _note_ended(node, zip(firsts, of_firsts))
    own = inside.network_here(node.host, paths)
    networks = {key: inside.network_of(answer, paths) for key, answer in zip(elsewhere, of_networks)}
    environments = dict(zip(processes, map(inside.environment_of, of_environments)))
    pods = _pods(node, firsts)
    sharers = Counter(_files(process) for process in processes if process.devices)
    made = []
    for group, store, answer, files in zip(groups, stores, homes, devices):
        through = elsewhere.get(_nets(group[0]))
        if not any(process and process.pid in node.ended for process in (through, *group)):
            own_defaults = defaults.declared(node.declarations, group[0].job, node.unclear)
            place = Place(
                processes=tuple(Process(process, environments[process]) for process in group),
                network=networks.get(_nets(group[0]), own),
                storage=store.unknown or Storage(*store.value),
                own=_differing(group[0], here),
                sharers=sharers[_files(group[0])],
                pod=pods.get(group[0].job.id, "") if group[0].job.kind == POD else "",
                devices=inside.devices_of(files),
                defaults=own_defaults,
                older=bool(own_defaults.topics) and defaults.is_newer(node.host, node.declarations, group[0]),
            )
            made.append((place, inside.account_home_of(answer)))
    return _with_peers(_with_confs(node, made))


def _note_ended(node: Node, asked: Iterable[tuple[JobProcess, Answer]]) -> None:
    node.ended |= {process.pid for process, answer in asked if inside.is_gone(answer)}


_NETS = {*inside.TYPES}


def _key(process: JobProcess) -> _Key:
    return (process.job, process.namespaces, process.root, process.group, process.ids)


def _nets(process: JobProcess) -> tuple[str, ...]:
    """Its namespaces with kernel values."""
    return tuple(process.namespace(kind) for kind in inside.TYPES)


def _pods(node: Node, firsts: Sequence[JobProcess]) -> dict[str, str]:
    """Names of pods by their uid, for readers: without them, their uids are shown."""
    try:
        return job_processes.pods(node.host) if any(first.job.kind == POD for first in firsts) else {}
    except HostError:
        return {}


def _files(process: JobProcess) -> tuple[str, str]:
    """Its mount namespace and root folder, which decide on the files that it sees."""
    return process.namespace("mnt"), process.root


def _own(node: Node) -> tuple[str, ...]:
    """Namespaces of this process, which are those that mlnode check looks at. Raises HostError."""
    return tuple(node.host.link_target(f"/proc/self/ns/{kind}") for kind in NAMESPACES)


def _differing(process: JobProcess, here: Sequence[str]) -> tuple[str, ...]:
    return tuple(kind for kind, own, its in zip(NAMESPACES, here, process.namespaces) if own != its)


def _with_confs(node: Node, made: Sequence[tuple[Place, Value]]) -> list[Place]:
    """The places with the files of NCCL. A place whose processes name different files is divided. made: each
    place with the home folder of its account."""
    divided = [(*part, home) for place, home in made for part in _divided(node, place, home)]
    works = [inside.files(node.host, place.first, paths) for place, paths, _home in divided]
    answers = inside.ask(node.host, works)
    _note_ended(node, ((place.first, answer) for (place, _, _), answer in zip(divided, answers)))
    read = (
        dict(zip(paths, inside.files_of(answer, paths))) for (_, paths, _), answer in zip(divided, answers)
    )
    return [
        replace(place, confs=nccl.agreed(place.processes[0], home, confs))
        for (place, _paths, home), confs in zip(divided, read)
    ]


def _with_peers(places: Sequence[Place]) -> list[Place]:
    """The places with the processes of their jobs: the tasks of a Slurm job have a control group each."""
    together: dict[tuple[object, ...], list[Process]] = {}
    keys = [_job_of(place, number) for number, place in enumerate(places)]
    for key, place in zip(keys, places):
        together.setdefault(key, []).extend(place.processes)
    peers = {key: tuple(processes) for key, processes in together.items()}
    return [replace(place, peers=peers[key]) for key, place in zip(keys, places)]


def _job_of(place: Place, number: int) -> tuple[object, ...]:
    """Processes outside of a job may be of several."""
    job = place.first.job
    return (job.kind, job.id, number if job.kind == OTHER else None)


def _divided(node: Node, place: Place, home: Value) -> Iterator[tuple[Place, list[str]]]:
    conf = nccl_file.path_of(node.host)
    by_paths: dict[tuple[tuple[str, ...], bool], list[Process]] = {}
    for process in place.processes:
        key = tuple(nccl.conf_paths(process, home, conf)), process.variable("HOME") is None
        by_paths.setdefault(key, []).append(process)
    for (paths, _homeless), processes in by_paths.items():
        yield replace(place, processes=tuple(processes), values={}, unknown={}), [*paths]
