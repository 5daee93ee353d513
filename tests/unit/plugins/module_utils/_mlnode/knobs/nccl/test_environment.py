# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import errno

from ansible_collections.mlnode.tuning.tests.unit import cases
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine
from mlnode.knobs.nccl import environment as nccl_places


@cases.table
def test_what_pam_env_reads(machine: Machine, line: str, value: str | None) -> None:
    machine.put("/etc/environment", f'PATH="/usr/bin"\n{line}\n')

    found = nccl_places.read(machine).certain("NCCL_DEBUG")

    assert (found.value if found else None) == value
    assert found is None or found.where == "/etc/environment:2"


@cases.table
def test_what_is_about_something_else(machine: Machine, line: str) -> None:
    machine.put("/etc/environment", f"{line}\n")
    assert nccl_places.read(machine).mentions("NCCL_DEBUG") == []


def test_the_last_line_of_the_environment_counts(machine: Machine) -> None:
    machine.put("/etc/environment", "NCCL_DEBUG=INFO\nNCCL_DEBUG=TRACE\n")
    found = nccl_places.read(machine).certain("NCCL_DEBUG")
    assert found is not None
    assert (found.where, found.value) == ("/etc/environment:2", "TRACE")


def test_files_of_shells_services_and_slurm_are_told_of(machine: Machine) -> None:
    machine.put("/etc/profile.d/nccl.sh", "if true; then export NCCL_DEBUG=INFO; fi\n")
    machine.put("/etc/profile.d/nccl.csh", "setenv NCCL_DEBUG INFO\n")
    machine.put("/etc/systemd/system.conf", '[Manager]\nDefaultEnvironment="NCCL_DEBUG=INFO"\n')
    machine.put("/etc/systemd/system/slurmd.service.d/env.conf", "[Service]\nEnvironment=NCCL_DEBUG=INFO\n")
    machine.put("/etc/slurm/slurm.conf", "ClusterName=c\n# TaskProlog=/no\ntaskprolog=/etc/slurm/task.sh\n")
    machine.put("/etc/slurm/task.sh", "#!/bin/sh\necho export NCCL_DEBUG=INFO\n")

    found = nccl_places.read(machine)

    assert found.problems == []
    assert [item.where for item in found.mentions("NCCL_DEBUG")] == [
        "/etc/profile.d/nccl.csh:1",
        "/etc/profile.d/nccl.sh:1",
        "/etc/systemd/system.conf:2",
        "/etc/systemd/system/slurmd.service.d/env.conf:2",
        "/etc/slurm/task.sh:2",
    ]
    assert found.certain("NCCL_DEBUG") is None


def test_a_prolog_that_is_a_program_or_not_there(machine: Machine) -> None:
    machine.put("/etc/slurm/slurm.conf", "TaskProlog=/usr/bin/prolog\nTaskProlog=/nowhere\n")
    machine.put("/usr/bin/prolog", "\0ELF NCCL_DEBUG=INFO\n")
    found = nccl_places.read(machine)
    assert (found.problems, found.mentions("NCCL_DEBUG")) == ([], [])


def test_a_folder_sets_nothing(machine: Machine) -> None:
    machine.put("/etc/profile.d/modules/x.sh", "export NCCL_DEBUG=INFO\n")
    found = nccl_places.read(machine)
    assert (found.problems, found.mentions("NCCL_DEBUG")) == ([], [])


def test_what_cannot_be_read_is_said(machine: Machine) -> None:
    machine.put("/etc/environment", "NCCL_DEBUG=INFO\n")
    machine.unreadable["/etc/environment"] = errno.EACCES
    machine.link("/etc/profile.d/loop.sh", "loop.sh")
    machine.put("/etc/bashrc", "NCCL_DEBUG=INFO\n")

    found = nccl_places.read(machine)

    assert len(found.problems) == 2
    assert "cannot read /etc/environment: EACCES" in found.problems[0]
    assert "ELOOP" in found.problems[1]
    assert [item.where for item in found.mentions("NCCL_DEBUG")] == ["/etc/bashrc:1"]


@cases.table
def test_every_place_of_systemd_counts(machine: Machine, path: str, text: str) -> None:
    machine.put(path, text)
    assert [item.where for item in nccl_places.read(machine).mentions("NCCL_DEBUG")] == [f"{path}:2"]


def test_a_file_of_variables_that_a_service_reads_counts(machine: Machine) -> None:
    machine.put("/usr/lib/systemd/system/slurmd.service", "[Service]\nEnvironmentFile=-/etc/site/jobs.env\n")
    assert nccl_places.read(machine).mentions("NCCL_DEBUG") == []
    machine.put("/etc/site/jobs.env", "NCCL_DEBUG=INFO\n")
    [item] = nccl_places.read(machine).mentions("NCCL_DEBUG")
    assert item.where == "/etc/site/jobs.env:1"
    machine.put("/etc/systemd/system/slurmd.service.d/x.conf", "[Service]\nEnvironmentFile=/etc/site/*.env\n")
    assert nccl_places.read(machine).mentions("NCCL_DEBUG") == [item]
    machine.put("/etc/site/more.env", "NCCL_DEBUG=WARN\n")
    assert len(nccl_places.read(machine).mentions("NCCL_DEBUG")) == 2
    machine.unreadable["/etc/site/jobs.env"] = errno.EACCES
    assert "jobs.env" in nccl_places.read(machine).problems[0]
