# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Slurm with a controller and a node on one machine, which constrains jobs by control groups of version 2."""

from __future__ import annotations

from .machine import Machine

_CONF = "/etc/slurm/slurm.conf"
_WORDS = """\
ClusterName=lab
SlurmctldHost=lab(127.0.0.1)
SlurmUser=slurm
ProctrackType=proctrack/cgroup
TaskPlugin=task/cgroup,task/affinity
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
StateSaveLocation=/var/lib/slurm/slurmctld
SlurmdSpoolDir=/var/lib/slurm/slurmd
NodeName=lab NodeAddr=127.0.0.1 Sockets=2 CoresPerSocket=2 RealMemory=1500
PartitionName=all Nodes=ALL Default=YES
"""

_OUTPUT = "/run/srun"


def configure(machine: Machine, *lines: str) -> None:
    """Write slurm.conf with more lines, and start Slurm, or start it again."""
    machine.run("mkdir -p /etc/slurm /var/lib/slurm/slurmctld /var/lib/slurm/slurmd")
    machine.run("chown slurm: /var/lib/slurm/slurmctld")
    machine.write("/etc/slurm/cgroup.conf", "ConstrainCores=yes\nConstrainRAMSpace=yes\n")
    machine.write(_CONF, _WORDS + "".join(f"{line}\n" for line in lines))
    machine.run("systemctl restart munge slurmctld slurmd")
    machine.run("timeout 120 sh -c 'until sinfo -h -o %t | grep -qx idle; do sleep 1; done'")


def start(machine: Machine, program: str, *options: str, tasks: int) -> str:
    """The id of a new job whose tasks have all printed `ready`."""
    words = f"srun --ntasks={tasks} {' '.join(options)} {program}"
    machine.run(f"(exec setsid {words}) >{_OUTPUT} 2>&1 </dev/null &")
    ready = f"until [ $(grep -c ready {_OUTPUT}) = {tasks} ]; do sleep 1; done"
    machine.run(f"timeout 120 sh -c '{ready}' || {{ cat {_OUTPUT}; false; }}")
    return machine.out("squeue -h -o %i")


def end(machine: Machine, job: str) -> None:
    machine.run(f"scancel {job}")
    machine.run("timeout 120 sh -c 'while squeue -h | grep -q .; do sleep 1; done'")
