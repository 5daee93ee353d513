# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The look as a whole, on a node in a folder."""

from __future__ import annotations

import errno
import json
import os
import pathlib
from typing import Any

import pytest
from ansible_collections.mlnode.tuning.tests.unit import job_machine
from ansible_collections.mlnode.tuning.tests.unit.job_machine import CONTAINER, HERE, UID, declare, process
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine
from mlnode.checks.jobs import run, shared_memory
from mlnode.checks.jobs.model import Part
from mlnode.checks.jobs.run import Jobs
from mlnode.linux.inside import Network, Storage
from mlnode.model.errors import DeclarationError
from mlnode.model.setting import Value

GIB = 1 << 30
SLURM = "/system.slice/slurmstepd.scope/job_4711/step_0/user/task_{}"


@pytest.fixture
def node(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """/dev/shm of all processes is good, whatever folder the test runs in."""
    monkeypatch.setattr(run.gather, "Storage", lambda *_given: Storage("tmpfs", 32 * GIB, 32 * GIB))
    return job_machine.node(str(tmp_path / "node"))


def look(node: Machine, **given: Any) -> Jobs:
    return run.look(node, given)


def of(jobs: Jobs, name: str) -> list[tuple[str, str, str, str]]:
    """Target, verdict, expected value and finding of each check."""
    return [
        (one.target, str(one.verdict), one.expected, one.found) for one in jobs.checks if one.name == name
    ]


def test_a_node_without_jobs(node: Machine) -> None:
    assert look(node) == ((), (), ())


def test_nothing_declared_is_no_pass(node: Machine) -> None:
    process(node, 20, "python", "/dev/nvidia0")
    of_declaration = ("job_sysctl", "job_limit", "job_nccl")
    assert {str(check.verdict) for check in look(node).checks if check.name in of_declaration} == {"skip"}


@pytest.mark.parametrize("area", ["sysctl", "limits", "nccl", "containers", ""])
def test_a_faulty_declaration_is_unknown(node: Machine, area: str) -> None:
    process(node, 20, "python", "/dev/nvidia0", cgroup=f"/docker/{CONTAINER}")
    declare(node, **{area: {"no_such_option": 1}})
    if not area:
        node.put("/etc/mlnode/declared.d/node.json", "{")
    jobs = look(node)
    ((target, verdict, _expected, found),) = of(jobs, "job_declaration")
    subject = {"sysctl": "job_sysctl", "nccl": "job_nccl"}.get(area, "job_limit")
    assert [check[1] for check in of(jobs, subject)] == ["unknown"]
    assert (target, verdict) == ("node", "unknown")
    assert found.startswith("/etc/mlnode/declared.d/node.json")
    assert area in found


def test_processes_that_cannot_be_read_are_unknown(node: Machine) -> None:
    process(node, 20, "python", "/dev/nvidia0")
    node.unreadable = {"/proc/20/status": errno.EACCES}
    jobs = look(node)
    assert jobs.unseen
    ((_target, verdict, _expected, found),) = of(jobs, "job_processes")
    assert verdict == "unknown"
    assert found.startswith("1 process that cannot be looked into")


@pytest.mark.parametrize("pid", [20, 21])
def test_a_chosen_process_without_an_environment_is_unknown(node: Machine, pid: int) -> None:
    """A thread of the kernel, or a process that ends during the look, answers ESRCH."""
    process(node, 20, "kthreadd", cgroup="/")
    process(node, 21, "python")
    node.unreadable = {f"/proc/{pid}/environ": errno.ESRCH}
    jobs = look(node, pid=[20, 21])
    assert [place.first.pid for place in jobs.places] == [41 - pid]
    ((target, verdict, _expected, found),) = of(jobs, "job_asked")
    assert (target, verdict) == (f"pid {pid}", "unknown")
    assert found == "it ended meanwhile, or is a thread of the kernel"


def test_a_chosen_process_that_cannot_be_read_is_no_absent_one(node: Machine) -> None:
    process(node, 20, "python", cgroup=f"/docker/{CONTAINER}")
    node.unreadable = {"/proc/20/status": errno.EACCES}
    for given in ({"pid": [20]}, {"pid": [20], "container": [CONTAINER]}):
        jobs = look(node, **given)
        assert not of(jobs, "job_asked")
        assert [check[1] for check in of(jobs, "job_processes")] == ["unknown"]


def test_a_choice_without_processes_is_unknown(node: Machine) -> None:
    process(node, 20, "python", "/dev/nvidia0")
    jobs = look(node, pid=[7], slurm_job=["4711"])
    assert not jobs.places
    assert {target for target, _verdict, _expected, _found in of(jobs, "job_asked")} == {
        "pid 7", "Slurm job 4711"
    }  # fmt: skip


def test_a_container_that_has_ended_has_the_name_that_was_asked_for(
    node: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run.job_processes, "container_ids", lambda *_given: [CONTAINER])
    assert of(look(node, container=["trainer"]), "job_asked") == [
        ("container trainer", "unknown", "", "no such process here")
    ]
    process(node, 20, "python", cgroup=f"/docker/{CONTAINER}")
    assert of(look(node, container=["trainer"]), "job_asked") == []


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"pid": [0]}, "pid: expected the number of a process, got 0"),
        ({"cgroup": ["x"]}, "such as /system.slice/NAME.service, got 'x'"),
        ({"cgroup": ["/a/../b"]}, "cgroup: expected a path as /proc/PID/cgroup shows it"),
        ({"cgroup": ["/sys/fs/cgroup/a"]}, "cgroup: expected a path as /proc/PID/cgroup shows it"),
        ({"slurm_job": ["4711.0"]}, "slurm_job: expected a number as in SLURM_JOB_ID, got '4711.0'"),
        ({"slurm_job": ["4711_3"]}, "scontrol show job has it as JobId"),
        ({"slurm_job": ["4711+1"]}, "scontrol show job has it as JobId"),
    ],
)
def test_a_faulty_choice_is_refused(node: Machine, given: dict[str, Any], words: str) -> None:
    with pytest.raises(DeclarationError) as error:
        look(node, **given)
    assert words in str(error.value)


def test_a_pod_has_its_name(node: Machine) -> None:
    process(node, 20, "python", "/dev/nvidia0", cgroup=f"/kubepods/pod{UID}/{CONTAINER}")
    assert look(node).checks[0].target == "pod 5f0e1d2c-000 (pid 20)"
    node.put(f"/var/log/pods/ml_trainer-0_{UID}/c/0.log", "")
    jobs = look(node)
    assert jobs.checks[0].target == "pod ml/trainer-0 (pid 20)"
    assert jobs.places[0].document()["job"]["id"] == UID
    node.unreadable = {"/var/log/pods": errno.EACCES}
    assert look(node).checks[0].target == "pod 5f0e1d2c-000 (pid 20)"


# -- kernel values -------------------------------------------------------------------------


def test_values_of_the_nodes_own_namespaces(node: Machine) -> None:
    declare(node, sysctl={"settings": {
        "net.core.somaxconn": 4096, "net.ipv4.tcp_tw_reuse": 1, "net.ipv4.tcp_no_such": 1,
        "vm.swappiness": 7, "kernel.shmmni": {"at_least": 10},
    }})  # fmt: skip
    node.put("/proc/sys/net/core/somaxconn", "4096\n")
    node.put("/proc/sys/net/ipv4/tcp_tw_reuse", "2\n")
    node.put("/proc/sys/kernel/shmmni", "4096\n")
    process(node, 20, "python", "/dev/nvidia0")
    jobs = look(node)
    target = "session 3 (pid 20)"
    assert of(jobs, "job_sysctl") == [
        (target, "fail", "1", "net.ipv4.tcp_tw_reuse 2"),
        (target, "pass", "as declared", "2 of 4 declared keys"),
        (target, "skip", "", "its namespaces do not have net.ipv4.tcp_no_such"),
    ]
    assert jobs.checks[0].advice == "the node itself has this value: run mlnode check, then mlnode apply"
    assert jobs.places[0].values["sysctl net.core.somaxconn"] == "4096"
    assert "sysctl vm.swappiness" not in jobs.places[0].values


@pytest.mark.parametrize(("net", "verdict"), [(77, "skip"), (HERE["net"], "fail")])
def test_another_interface_with_the_same_name(
    node: Machine, monkeypatch: pytest.MonkeyPatch, net: int, verdict: str
) -> None:
    path = "/proc/sys/net/ipv4/conf/eth0/rp_filter"
    declare(node, sysctl={"settings": {"net.ipv4.conf.eth0.rp_filter": 2}})
    node.put(path, "0\n")
    there = Network({path: Value(text="0")}, ("eth0",))
    monkeypatch.setattr(run.gather.inside, "network_of", lambda *_given: there)
    process(node, 20, "python", "/dev/nvidia0", namespaces={"net": net})
    assert [its for _target, its, _expected, _found in of(look(node), "job_sysctl")] == [verdict]


def test_values_of_namespaces_that_cannot_be_entered_are_unknown(node: Machine) -> None:
    declare(node, sysctl={"settings": {"net.core.somaxconn": 4096}})
    process(node, 20, "python", "/dev/nvidia0", namespaces={"net": 77})
    jobs = look(node)
    ((_target, verdict, _expected, found),) = of(jobs, "job_sysctl")
    assert verdict == "unknown"
    assert found.startswith("net.core.somaxconn: cannot enter /proc/20/ns")
    assert jobs.places[0].document()["unknown"]["sysctl net.core.somaxconn"].startswith("cannot enter")


# -- limits --------------------------------------------------------------------------------


def test_processes_without_a_job_are_not_one(node: Machine) -> None:
    declare(node, limits={"memlock": "unlimited"})
    for pid in (20, 21):
        process(node, pid, "python", "/dev/nvidia0", cgroup="/", namespaces={"net": pid})
    assert len(of(look(node), "job_limit")) == 2


# -- NCCL ----------------------------------------------------------------------------------


def nccl(node: Machine, *environment: str, files: dict[str, str] | None = None) -> Jobs:
    declare(node, nccl={"variables": {"NCCL_IB_TIMEOUT": 22}})
    process(
        node, 20, "python", "/dev/nvidia0", cgroup=f"/docker/{CONTAINER}", namespaces={"mnt": 77},
        environment=environment, files=files,
    )  # fmt: skip
    return look(node)


HOME = {"/root/.nccl.conf": "NCCL_IB_TIMEOUT=20\n"}
ETC = {"/etc/nccl.conf": "NCCL_IB_TIMEOUT=22\n"}
OWN = {"/etc/own.conf": "NCCL_IB_TIMEOUT=19\n"}


@pytest.mark.parametrize(
    ("environment", "files", "verdict", "found"),
    [
        ([], {}, "fail", "NCCL_IB_TIMEOUT is not set"),
        ([], ETC, "pass", "NCCL_IB_TIMEOUT"),
        (["HOME=/root"], {**ETC, **HOME}, "fail", "NCCL_IB_TIMEOUT=20 from /root/.nccl.conf:1"),
        (["HOME=/root/"], {**ETC, **HOME}, "fail", "NCCL_IB_TIMEOUT=20 from /root/.nccl.conf:1"),
        (["HOME=/data"], ETC, "pass", "NCCL_IB_TIMEOUT"),
        (["HOME=/data"], {**HOME, "/data/.nccl.conf": HOME["/root/.nccl.conf"]}, "fail",
         "NCCL_IB_TIMEOUT=20 from /root/.nccl.conf:1"),
        (["NCCL_CONF_FILE=/etc/own.conf"], {**ETC, **HOME, **OWN}, "fail",
         "NCCL_IB_TIMEOUT=19 from /etc/own.conf:1"),
        (["NCCL_CONF_FILE=/etc/no.conf"], {**ETC, **HOME}, "pass", "NCCL_IB_TIMEOUT"),
        (["NCCL_IB_TIMEOUT=18"], {**ETC, **HOME}, "warn", "NCCL_IB_TIMEOUT=18 from its environment"),
        (["NCCL_IB_TIMEOUT=22"], HOME, "pass", "NCCL_IB_TIMEOUT"),
        (["NCCL_IB_TIMEOUT=0x16"], {}, "pass", "NCCL_IB_TIMEOUT"),
        (["NCCL_IB_TIMEOUT=026"], {}, "pass", "NCCL_IB_TIMEOUT"),
        (["NCCL_IB_TIMEOUT="], {}, "warn", "NCCL_IB_TIMEOUT= from its environment"),
        ([], {"/etc/nccl.conf": "NCCL_IB_TIMEOUT=22\r\n"}, "pass", "NCCL_IB_TIMEOUT"),
        ([], {"/etc/nccl.conf": "NCCL_IB_TIMEOUT=x22\n"}, "fail",
         "NCCL_IB_TIMEOUT=x22 from /etc/nccl.conf:1"),
        (["NCCL_IB_TIMEOUT=22", "NCCL_IB_TIMEOUT=1"], {}, "pass", "NCCL_IB_TIMEOUT"),
        ([], {"/etc/nccl.conf": "#NCCL_IB_TIMEOUT=22\nNCCL_IB_TIMEOUT=21\nNCCL_IB_TIMEOUT=22\n"}, "fail",
         "NCCL_IB_TIMEOUT=21 from /etc/nccl.conf:2"),
        ([], {"/etc/nccl.conf": " NCCL_IB_TIMEOUT=22\n"}, "fail", "NCCL_IB_TIMEOUT is not set"),
    ],
)  # fmt: skip
def test_the_first_place_of_a_variable_counts(
    node: Machine, environment: list[str], files: dict[str, str], verdict: str, found: str
) -> None:
    ((_target, its_verdict, _expected, its_finding),) = of(nccl(node, *environment, files=files), "job_nccl")
    assert (its_verdict, its_finding) == (verdict, found)


_VERSIONS = "before 2.30"
_WORK = {"/data/.nccl.conf": "NCCL_IB_TIMEOUT=19\n"}


@pytest.mark.parametrize(
    ("environment", "files", "reason"),
    [
        (["HOME=/data"], {**ETC, **HOME}, _VERSIONS),
        (["HOME=/data"], {**ETC, **_WORK}, _VERSIONS),
        (["HOME=/data"], {**ETC, **HOME, **_WORK}, _VERSIONS),
        (["HOME="], {**ETC, "/.nccl.conf": "NCCL_IB_TIMEOUT=19\n"}, _VERSIONS),
        ([], {**ETC, **HOME}, _VERSIONS),
        (["NCCL_CONF_FILE=own.conf"], {**ETC, "/own.conf": "NCCL_IB_TIMEOUT=19\n"}, "relative"),
        (["NCCL_CONF_FILE=~/.nccl.conf"], {**ETC, **HOME}, "relative"),
        (["HOME=work"], ETC, "relative"),
    ],
)
def test_a_file_that_only_some_jobs_read_is_unknown(
    node: Machine, environment: list[str], files: dict[str, str], reason: str
) -> None:
    jobs = nccl(node, *environment, files=files)
    ((_target, verdict, _expected, found),) = of(jobs, "job_nccl")
    assert (verdict, reason in found) == ("unknown", True), found
    assert [verdict for _t, verdict, _e, _f in of(jobs, "job_nccl_files")] == ["unknown"]
    jobs = nccl(node, *environment, "NCCL_IB_TIMEOUT=22", files=files)
    assert [verdict for _t, verdict, _e, _f in of(jobs, "job_nccl")] == ["pass"]


def _users(count: int) -> str:
    return "".join(
        f"user{at}:x:{at}:{at}:A user of the site:/home/user{at}:/bin/bash\n" for at in range(count)
    )


@pytest.mark.parametrize(
    ("users", "environment", "verdict"),
    [
        (2000, [], "fail"),
        (2000, ["NCCL_CONF_FILE=/etc/no.conf"], "pass"),
        (100_000, [], "unknown"),
        (100_000, ["NCCL_CONF_FILE=/etc/no.conf"], "pass"),
        (100_000, ["NCCL_IB_TIMEOUT=22"], "pass"),
    ],
)
def test_the_home_folder_of_an_account_is_known_or_unknown(
    node: Machine, users: int, environment: list[str], verdict: str
) -> None:
    files = {**ETC, "/etc/passwd": _users(users), "/home/user0/.nccl.conf": "NCCL_IB_TIMEOUT=20\n"}
    environment = environment or ["HOME=/home/user0"]
    assert [its for _t, its, _e, _f in of(nccl(node, *environment, files=files), "job_nccl")] == [verdict]


@pytest.mark.parametrize(("plugin", "verdict"), [("none", "pass"), ("", "pass"), ("site", "unknown")])
def test_a_plugin_may_give_other_values(node: Machine, plugin: str, verdict: str) -> None:
    jobs = nccl(node, "NCCL_IB_TIMEOUT=22", f"NCCL_ENV_PLUGIN={plugin}")
    assert [its for _t, its, _e, _f in of(jobs, "job_nccl")] == [verdict]


def test_a_process_without_a_home_is_not_like_one_with_it(node: Machine) -> None:
    declare(node, nccl={"variables": {"NCCL_IB_TIMEOUT": 22}})
    for pid, environment in ((20, ["HOME=/root"]), (21, [])):
        process(node, pid, "python", "/dev/nvidia0", environment=environment, files=HOME, root=20)
    assert sorted(row[1] for row in of(look(node), "job_nccl")) == ["fail", "unknown"]


def test_a_file_that_cannot_be_read_leaves_only_the_environment(node: Machine) -> None:
    os.makedirs(f"{node.root}/roots/20/etc", exist_ok=True)
    jobs = nccl(node, files={"/etc/nccl.conf": "x" * 70000})
    ((_target, verdict, _expected, found),) = of(jobs, "job_nccl")
    assert (verdict, found[:32]) == ("unknown", "NCCL_IB_TIMEOUT is not known: ca")
    assert found.endswith("expected at most 65536 bytes, got more")
    assert [verdict for _t, verdict, _e, _f in of(jobs, "job_nccl_files")] == ["unknown"]
    jobs = nccl(node, "NCCL_IB_TIMEOUT=22", files={"/etc/nccl.conf": "x" * 70000})
    assert [verdict for _t, verdict, _e, _f in of(jobs, "job_nccl")] == ["pass"]


def test_ranks_with_other_values_are_other_checks(node: Machine) -> None:
    declare(node, nccl={"variables": {"NCCL_IB_TIMEOUT": 22}})
    for rank, timeout in enumerate((22, 22, 20)):
        process(
            node, 20 + rank, "python", "/dev/nvidia0", cgroup=SLURM.format(rank),
            environment=[f"NCCL_IB_TIMEOUT={timeout}", f"RANK={rank}", "WORLD_SIZE=3"],
        )  # fmt: skip
    jobs = look(node)
    assert of(jobs, "job_nccl") == [
        ("Slurm job 4711 (pid 22)", "warn", "22", "NCCL_IB_TIMEOUT=20 from its environment"),
        ("Slurm job 4711 (pid 20 and 1 more)", "pass", "as declared", "NCCL_IB_TIMEOUT"),
    ]
    documents = [process for place in jobs.places for process in place.document()["processes"]]
    assert [(one["rank"], one["world"], one["values"]["nccl NCCL_IB_TIMEOUT"]) for one in documents] == [
        (0, 3, "22"), (1, 3, "22"), (2, 3, "20")
    ]  # fmt: skip


def test_unknown_names_and_misread_values_are_findings(node: Machine) -> None:
    jobs = nccl(node, "NCCL_IB_TIMEOUT=22", "NCCL_BUFSIZE=4M", "NCCL_BUFFSIZE=4M")
    assert [found for _t, _v, _e, found in of(jobs, "job_nccl_values")] == [
        "NCCL_BUFFSIZE=4M: NCCL reads 4",
        "NCCL_BUFSIZE: no known version of NCCL reads it",
    ]


@pytest.mark.parametrize("line", ["export NCCL_P2P_LEVEL=NVL", " NCCL_P2P_LEVEL=NVL", "NCCL_P2P_LEVEL: NVL"])
def test_a_line_that_nccl_does_not_read_is_a_finding(node: Machine, line: str) -> None:
    process(node, 20, "python", "/dev/nvidia0", files={"/etc/nccl.conf": f"# mine\n{line}\n"})
    (check,) = (check for check in look(node).checks if check.name == "job_nccl_values")
    assert (str(check.verdict), check.source) == ("fail", "/etc/nccl.conf:2"), check
    assert check.found.startswith("NCCL_P2P_LEVEL: ")


@pytest.mark.parametrize("in_file", [False, True])
def test_a_declared_name_that_is_not_listed_is_compared(node: Machine, in_file: bool) -> None:
    lines = ["NCCL_MY_PLUGIN=x", "OFI_NCCL_PROTOCOL=RDMA", "RCCL_MSCCL_ENABLE=0"]
    wants = dict(line.split("=") for line in lines)
    declare(node, nccl={"variables": wants, "allow": ["unknown"]})
    files = {"/etc/nccl.conf": "\n".join(lines)}
    process(
        node,
        20,
        "python",
        "/dev/nvidia0",
        environment=[] if in_file else lines,
        files=files if in_file else {},
    )
    assert [row[1:] for row in of(look(node), "job_nccl")] == [("pass", "as declared", ", ".join(wants))]


def test_a_declared_value_that_may_be_a_secret_is_not_compared(node: Machine) -> None:
    declare(node, nccl={"variables": {"NCCL_MY_KEY": "secret1"}, "allow": ["unknown"]})
    process(node, 20, "python", "/dev/nvidia0", environment=["NCCL_MY_KEY=secret2"])
    jobs = look(node)
    ((_target, verdict, _expected, found),) = of(jobs, "job_nccl")
    assert (verdict, found[:22]) == ("unknown", "NCCL_MY_KEY is set, an")
    assert "secret2" not in json.dumps(jobs.document())


def test_no_secret_and_no_foreign_variable_is_kept(node: Machine) -> None:
    secrets = (
        "NCCL_PSK=secret1", "AWS_SECRET_ACCESS_KEY=secret2", "UCX_TOKEN=secret3", "HF_TOKEN=secret4",
        "NCCL_MY_PLUGIN=secret5", "FI_PSM3_KEY=secret6", "HOME=/home/secret7", "CUDA_VISIBLE_DEVICES=secret8",
    )  # fmt: skip
    files = {"/etc/nccl.conf": "NCCL_PSK=secret9\nMY_VARIABLE=secret10\nNCCL_OTHER_PLUGIN=secret11\n"}
    jobs = nccl(node, *secrets, "UCX_TLS=rc", "OMP_NUM_THREADS=4", files=files)
    document = json.dumps(jobs.document())
    assert "secret" not in document
    assert jobs.places[0].processes[0].values["env UCX_TLS"] == "rc"
    assert jobs.places[0].processes[0].values["env OMP_NUM_THREADS"] == "4"


def test_texts_of_a_container_are_printable(node: Machine) -> None:
    declare(node, nccl={"variables": {"NCCL_DEBUG": "WARN", "NCCL_IB_TIMEOUT": 22}})
    process(
        node, 20, "\x1b[2Jpwn", "/dev/nvidia0", cgroup="/mine/\x1b[2J/\u202e",
        environment=["NCCL_DEBUG=\x1b[31mINFO\nHIGH  fake", "NCCL_CONF_FILE=/\x1b[2J", "UCX_TLS=\x1b"],
        files={"/\x1b[2J": "NCCL_IB_TIMEOUT=\x1b\n"},
    )  # fmt: skip
    jobs = look(node)
    for text in (check for one in jobs.checks for check in one.document().values()):
        assert text.isprintable(), text
    places = [place.document() for place in jobs.places]
    assert "\x1b" not in json.dumps(places, ensure_ascii=False)
    assert "NCCL_IB_TIMEOUT=\\x1b from /\\x1b[2J:1" in [check.found for check in jobs.checks]
    assert places[0]["cgroup"] == "/mine/\\x1b[2J/\\u202e"


# -- shared memory -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "size", "environment", "verdict"),
    [
        ("tmpfs", 64 << 20, ["LOCAL_WORLD_SIZE=8"], "fail"),
        ("tmpfs", 65536000, ["OMPI_COMM_WORLD_LOCAL_SIZE=2"], "fail"),
        ("tmpfs", 512 << 20, ["LOCAL_WORLD_SIZE=8"], "warn"),
        ("tmpfs", GIB, ["LOCAL_WORLD_SIZE=8"], "pass"),
        ("tmpfs", 0, ["LOCAL_WORLD_SIZE=8"], "pass"),
        ("tmpfs", 64 << 20, ["LOCAL_WORLD_SIZE=1"], "skip"),
        ("tmpfs", 64 << 20, ["LOCAL_RANK=3", "LOCAL_WORLD_SIZE=1"], "skip"),
        ("tmpfs", 64 << 20, ["LOCAL_RANK=3"], "fail"),
        ("tmpfs", 64 << 20, ["SLURM_PROCID=9", "SLURM_LOCALID=1", "SLURM_STEP_ID=0"], "fail"),
        ("tmpfs", 64 << 20, ["SLURM_PROCID=9", "SLURM_LOCALID=0", "SLURM_STEP_ID=0"], "skip"),
        ("tmpfs", 64 << 20, [], "skip"),
        ("overlay", 64 * GIB, [], "warn"),
    ],
)
def test_the_size_of_shared_memory(
    node: Machine, monkeypatch: pytest.MonkeyPatch, kind: str, size: int, environment: list[str], verdict: str
) -> None:
    monkeypatch.setattr(run.gather, "Storage", lambda *_given: Storage(kind, size, size))
    ipc = {"ipc": 4026532002}
    group = f"/docker/{CONTAINER}"
    process(node, 20, "python", "/dev/nvidia0", cgroup=group, environment=environment, namespaces=ipc)
    jobs = look(node)
    ((_target, found, _expected, _found),) = of(jobs, "job_shm")
    assert found == verdict
    assert jobs.places[0].values["shm size"] == (str(size) if size else "unlimited")
    advice = {check.name: check.advice for check in jobs.checks}["job_shm"]
    assert ("--shm-size=1g" in advice) == (verdict in ("fail", "warn"))


def test_processes_with_a_device_are_ranks(node: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run.gather, "Storage", lambda *_given: Storage("tmpfs", 64 << 20, 0))
    for pid in (20, 21):
        process(node, pid, "python", "/dev/nvidia0", cgroup=f"/docker/{CONTAINER}", root=20)
    ((target, verdict, _expected, found),) = of(look(node), "job_shm")
    assert (target, verdict) == ("container 3f2c3f2c3f2c (pid 20 and 1 more)", "fail")
    assert found == "64 MiB, 0 MiB of them free; 2 local ranks"


def test_shared_memory_behind_fuse_is_unknown(node: Machine) -> None:
    mounts = "30 1 0:30 / / rw - overlay none rw\n31 30 0:31 / /dev/shm rw - fuse none rw\n"
    process(node, 20, "python", "/dev/nvidia0", mounts=mounts)
    jobs = look(node)
    ((_target, verdict, _expected, found),) = of(jobs, shared_memory.NAME)
    assert (verdict, found) == (
        "unknown", "cannot read /dev/shm: its file system is fuse, which is not touched"
    )  # fmt: skip
    assert jobs.places[0].unknown["shm size"] == found


# -- a subject that fails ------------------------------------------------------------------


def test_a_subject_that_cannot_be_read_is_unknown(node: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_place: object, _node: object) -> Any:
        raise DeclarationError("a device is gone")
        yield

    monkeypatch.setattr(run, "SUBJECTS", (Part("job_x", broken, ("x",)), *run.SUBJECTS[1:2]))
    process(node, 20, "python", "/dev/nvidia0")
    jobs = look(node)
    broken_one, other = jobs.checks
    assert jobs.places[0].unknown == {"x": "a device is gone"}
    assert (broken_one.name, str(broken_one.verdict), broken_one.found) == (
        "job_x",
        "unknown",
        "a device is gone",
    )
    assert other.name == "job_limit"
