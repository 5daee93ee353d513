# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import errno
import json
import pathlib
import subprocess

import pytest
from ansible_collections.mlnode.tuning.tests.unit import job_machine
from ansible_collections.mlnode.tuning.tests.unit.job_machine import CONTAINER, declare, process
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine
from mlnode.agent import cli
from mlnode.checks.jobs import run
from mlnode.linux.inside import Storage

from .test_cli import schema, zipped

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def node(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    node = job_machine.node(str(tmp_path / "node"))
    monkeypatch.setattr(cli, "Host", lambda *_given: node)
    monkeypatch.setattr(run.gather, "Storage", lambda *_given: Storage("tmpfs", 1 << 35, 1 << 35))
    return node


def container(node: Machine) -> None:
    declare(node, limits={"memlock": "unlimited"})
    process(
        node, 20, "python", "/dev/nvidia0", cgroup=f"/machine.slice/libpod-{CONTAINER}.scope",
        namespaces={"net": 4026532471}, environment=["RANK=3", "WORLD_SIZE=8", "NCCL_DEBUG=WARN"],
    )  # fmt: skip


def test_a_job_with_a_fault(node: Machine, capsys: Capture) -> None:
    container(node)
    assert cli.main(["job"]) == cli.DRIFT
    assert capsys.readouterr().out.partition("\n\nNOT JUDGED  ")[0] == _FAULTY


#: Without the checks that are not judged
_FAULTY = """\
JOB                     RUNTIME  PROCESSES    NETWORK  DEVICES
container 3f2c3f2c3f2c  podman   20 (python)  its own  /dev/nvidia0

HIGH      job_limit, container 3f2c3f2c3f2c (pid 20): memlock 8388608 (expected unlimited)
why       RDMA locks the memory it registers, and fails without
do        podman run --ulimit memlock=-1:-1; for all new containers declare the area containers
see       /proc/20/limits; user_verbs.rst

16 checks: 1 fail, 6 pass, 9 skip"""


def test_no_job_is_one_sentence(node: Machine, capsys: Capture) -> None:
    assert cli.main(["job"]) == cli.OK
    assert capsys.readouterr().out == "No process has a GPU or an RDMA device open.\n"


def test_a_named_process_that_is_not_there_is_an_error(node: Machine, capsys: Capture) -> None:
    container(node)
    assert cli.main(["job", "--pid", "99"]) == cli.ERROR
    assert capsys.readouterr().out.startswith("NOT KNOWN  job_asked, pid 99: no such process here\n")
    assert cli.main(["job", "--pid", "99", "--pid", "20"]) == cli.DRIFT


def test_a_process_that_cannot_be_read_is_no_success(node: Machine) -> None:
    process(node, 20, "python", "/dev/nvidia0")
    assert cli.main(["job"]) == cli.OK
    node.unreadable = {"/proc/20/status": errno.EACCES}
    node.forget()
    assert cli.main(["job"]) == cli.ERROR


def test_the_agent_has_the_command(tmp_path: pathlib.Path) -> None:
    """As one file, which looks at this machine; the number is greater than any process can have."""
    done = subprocess.run(
        [zipped(tmp_path), "job", "--pid", "4194305"], capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stderr) == (cli.ERROR, "")
    assert done.stdout.startswith("NOT KNOWN  job_asked, pid 4194305: no such process here\n")


@pytest.mark.parametrize("words", [["--pid", "x"], ["--pid"], ["--root", "/x"], ["20"]])
def test_wrong_usage(node: Machine, words: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["job", *words])
    assert ended.value.code == cli.USAGE


def test_a_faulty_word_is_an_error(node: Machine, capsys: Capture) -> None:
    assert cli.main(["job", "--slurm-job", "\x1b[2J"]) == cli.ERROR
    assert "slurm_job: expected a number as in SLURM_JOB_ID, got '\\x1b[2J'; for" in capsys.readouterr().err


def test_the_json_is_what_its_schema_says(node: Machine, capsys: Capture) -> None:
    container(node)
    declare(node, limits={"memlock": "unlimited"}, nccl={"variables": {"NCCL_DEBUG": "WARN"}},
            sysctl={"settings": {"net.core.somaxconn": 8192}})  # fmt: skip
    for pid, user in ((21, 0), (22, 1000)):
        process(node, pid, "vllm", "/dev/kfd", user=user, cgroup="/system.slice/vllm.service")
    node.unreadable = {"/proc/22/limits": errno.EACCES}
    assert cli.main(["job", "--json"]) == cli.DRIFT
    document = json.loads(capsys.readouterr().out)
    schema("job").validate(document)
    assert {check["verdict"] for check in document["checks"]} == {"fail", "unknown", "pass", "skip"}
    assert [place["job"]["kind"] for place in document["places"]] == ["container", "unit", "unit"]
    (rank,) = document["places"][0]["processes"]
    assert (rank["rank"], rank["world"], rank["local_rank"]) == (3, 8, None)
    assert rank["values"]["nccl NCCL_DEBUG"] == "WARN"
