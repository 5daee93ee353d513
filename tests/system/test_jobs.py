# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""`mlnode job` on processes in real namespaces, some of whose owners are hostile. Their GPU is a device file
that anybody may make. No value of this machine changes."""

from __future__ import annotations

import json
import os
import pathlib
import resource
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from ansible_collections.mlnode.tuning.tests.system import namespaces
from ansible_collections.mlnode.tuning.tests.system.namespaces import on_disk  # noqa: F401  a fixture

pytestmark = [
    pytest.mark.system,
    pytest.mark.skipif(os.geteuid() != 0, reason="makes namespaces, and reads processes of others"),
]

FUSE = pathlib.Path(__file__).with_name("stalled_fuse.py")

#: A folder of devices with a GPU, which is /dev/null under its name
DEVICES = (
    "mount -t tmpfs none /dev && mknod /dev/nvidia0 c 1 3 && mknod /dev/null c 1 3 && mkdir /dev/shm "
    "&& mount -t tmpfs -o size=64m none /dev/shm"
)
#: Keeps it open
RUN = "exec 5</dev/nvidia0; echo ready; exec sleep 120"
DECLARED = {
    "sysctl": {
        "settings": {"net.core.somaxconn": 8192, "net.ipv4.tcp_fin_timeout": 17, "kernel.msgmni": 777}
    },
    "nccl": {"variables": {"NCCL_IB_TIMEOUT": 22}},
}

#: Declarations in a mount namespace of the command
_PRIVATE = (
    "mount --make-rprivate / && mount -t tmpfs -o mode=755 none /etc/mlnode "
    '&& mkdir -m 755 /etc/mlnode/declared.d && cp "$0" /etc/mlnode/declared.d/node.json && exec "$@"'
)
_COMMAND = (
    "import sys; from ansible_collections.mlnode.tuning.plugins.module_utils._mlnode.agent import cli; {} "
    "sys.exit(cli.main(sys.argv[1:]))"
)

Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts a shell in namespaces of its own, and waits for its `ready`. They end with the test."""
    jobs: list[subprocess.Popen[str]] = []

    def begin(script: str, unshare: str = "--net --ipc", **options: Any) -> subprocess.Popen[str]:
        words = ["unshare", "--mount", *unshare.split(), "sh", "-c", script]
        # pylint: disable-next=consider-using-with
        job = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, start_new_session=True, **options)
        jobs.append(job)
        assert job.stdout
        assert job.stdout.readline() == "ready\n"
        end = time.monotonic() + 10  # its environment is not whole before it is `sleep`
        while pathlib.Path(f"/proc/{job.pid}/comm").read_text() == "sh\n" and time.monotonic() < end:
            time.sleep(0.01)
        return job

    yield begin
    for job in jobs:
        if job.returncode is None:
            os.killpg(job.pid, signal.SIGKILL)
            job.wait()
        assert job.stdout
        job.stdout.close()


@pytest.fixture(scope="module", autouse=True)
def folder() -> Iterator[None]:
    """Over which the declarations are mounted."""
    path = pathlib.Path("/etc/mlnode")
    made = not path.exists()
    path.mkdir(exist_ok=True)
    yield
    if made:
        path.rmdir()


class Look:
    """Documents of `mlnode job`, and its exit status."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.file = folder / "node.json"
        self.declare(DECLARED)

    def declare(self, kinds: dict[str, Any]) -> None:
        self.file.write_text(json.dumps({"format": 1, "name": "node", "kinds": kinds}))

    def run(self, *words: str, first: str = "") -> subprocess.CompletedProcess[str]:
        program = [sys.executable, "-c", _COMMAND.format(first), "job", *words]
        return subprocess.run(
            ["unshare", "--mount", "sh", "-c", _PRIVATE, str(self.file), *program],
            env=namespaces.ENVIRONMENT, capture_output=True, text=True, check=False, timeout=100,
        )  # fmt: skip

    def of(self, *jobs: subprocess.Popen[str], first: str = "") -> dict[str, Any]:
        done = self.run("--json", *(word for job in jobs for word in ("--pid", str(job.pid))), first=first)
        assert done.returncode in (1, 3), done.stderr
        document: dict[str, Any] = json.loads(done.stdout)
        return document


@pytest.fixture
def look(tmp_path: pathlib.Path) -> Look:
    return Look(tmp_path)


def found(document: dict[str, Any], name: str) -> list[tuple[str, str]]:
    return [(check["verdict"], check["found"]) for check in document["checks"] if check["name"] == name]


def kernel(key: str) -> str:
    return pathlib.Path("/proc/sys", key).read_text(encoding="ascii").strip()


KEYS = ("net/core/somaxconn", "net/ipv4/tcp_fin_timeout", "kernel/msgmni")


def test_values_of_a_namespace_are_its_own(start: Start, look: Look) -> None:
    before = [kernel(key) for key in KEYS]
    job = start(f"{DEVICES}; sysctl -qw net.core.somaxconn=8192 kernel.msgmni=776; {RUN}")
    other = start(f"{DEVICES}; {RUN}", unshare="--net")
    document = look.of(job, other)
    first, second = document["places"]
    assert first["network"] != second["network"] != "host"
    assert first["values"]["sysctl net.core.somaxconn"] == "8192"
    assert first["values"]["sysctl kernel.msgmni"] == "776"
    assert second["values"]["sysctl kernel.msgmni"] == kernel("kernel/msgmni")
    assert first["processes"][0]["devices"] == ["/dev/nvidia0"]
    assert ("fail", "kernel.msgmni 776") in found(document, "job_sysctl")
    assert [kernel(key) for key in KEYS] == before


def test_the_remedy_makes_it_pass(start: Start, look: Look) -> None:
    job = start(f"{DEVICES}; {RUN}", unshare="--net")
    look.declare({"sysctl": {"settings": {"net.core.somaxconn": 8192, "net.ipv4.tcp_fin_timeout": 17}}})
    advices = [check["advice"] for check in look.of(job)["checks"] if check["verdict"] == "fail"]
    assert len(advices) == 2
    for advice in advices:
        namespaces.run(*shlex.split(advice.partition(": ")[2]))
    done = look.run("--json", "--pid", str(job.pid))
    assert done.returncode == 0
    assert found(json.loads(done.stdout), "job_sysctl") == [("pass", "2 of 2 declared keys")]


def test_a_process_with_a_device_is_found(start: Start, look: Look) -> None:
    job = start(f"{DEVICES}; {RUN}")
    document = look.of()
    assert job.pid in [process["pid"] for place in document["places"] for process in place["processes"]]


def test_the_files_of_a_mount_namespace(start: Start, look: Look, tmp_path: pathlib.Path) -> None:
    (tmp_path / "nccl.conf").write_text("NCCL_IB_TIMEOUT=21\n")
    job = start(f"{DEVICES}; mount -t tmpfs none /etc; cp {tmp_path}/nccl.conf /etc; {RUN}")
    document = look.of(job)
    assert found(document, "job_nccl") == [("fail", "NCCL_IB_TIMEOUT=21 from /etc/nccl.conf:1")]
    assert document["places"][0]["values"]["shm size"] == str(64 << 20)


# -- hostile owners ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("conf", "words"),
    [
        ("mkfifo /etc/nccl.conf", "expected a regular file, got a FIFO"),
        ("mknod /etc/nccl.conf c 1 5", "expected a regular file, got a device"),
        ("mkdir /etc/nccl.conf", "expected a regular file, got a folder"),
        ("head -c 70000 /dev/zero >/etc/nccl.conf", "expected at most 65536 bytes, got more"),
        ("ln -s nccl.conf /etc/nccl.conf", "ELOOP (Too many levels of symbolic links)"),
        ("ln -s /proc/1/environ /etc/nccl.conf", "a link leads to another file system, and is not followed"),
        ("ln -s /proc/self/fd/5 /etc/nccl.conf", "a link leads to another file system, and is not followed"),
    ],
)
def test_only_a_small_regular_file_is_read(start: Start, look: Look, conf: str, words: str) -> None:
    devices = DEVICES.replace("mkdir", "mknod /dev/zero c 1 5 && mkdir")
    job = start(f"{devices}; mount -t tmpfs none /etc; {conf}; {RUN}")
    ((verdict, its_words),) = found(look.of(job), "job_nccl_files")
    assert verdict == "unknown"
    assert its_words.endswith(words)


def test_the_links_of_a_configmap_are_followed(start: Start, look: Look) -> None:
    """The kubelet makes ..data anew for each change (kubernetes.io, ConfigMap: mounted ConfigMaps)."""
    made = "mkdir /etc/..1 && echo NCCL_IB_TIMEOUT=22 >/etc/..1/nccl.conf && ln -s ..1 /etc/..data"
    job = start(f"{DEVICES}; mount -t tmpfs none /etc; {made} && ln -s ..data/nccl.conf /etc; {RUN}")
    assert found(look.of(job), "job_nccl") == [("pass", "NCCL_IB_TIMEOUT")]


def test_no_link_leads_out_of_the_root(start: Start, look: Look, tmp_path: pathlib.Path) -> None:
    """The root folder is a file system without the file that the links name."""
    (tmp_path / "secret").write_text("NCCL_IB_TIMEOUT=19\n")
    root = tmp_path / "root"
    links = "ln -s /../../../../secret etc/nccl.conf"
    bound = "[ -e $path ] && mkdir -p .$path && mount --rbind $path .$path"
    system = f"for path in /bin /lib /lib64 /usr; do {bound}; done"
    job = start(
        f"mkdir {root}; mount -t tmpfs none {root}; cd {root}; {system}; "
        f"mkdir etc root dev old; {links}; mknod dev/nvidia0 c 1 3; pivot_root . old; umount -l /old; {RUN}"
    )
    assert found(look.of(job), "job_nccl") == [("fail", "NCCL_IB_TIMEOUT is not set")]


def test_an_environment_of_2_mib(start: Start, look: Look) -> None:
    environment = {f"X{number}": "x" * 120_000 for number in range(18)}
    limits = (64 << 20, resource.getrlimit(resource.RLIMIT_STACK)[1])
    job = start(
        f"{DEVICES}; {RUN}",
        env={**os.environ, **environment, "NCCL_IB_TIMEOUT": "20", "NCCL_PSK": "secret", "RANK": "7"},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_STACK, limits),
    )
    assert len(pathlib.Path("/proc", str(job.pid), "environ").read_bytes()) > 2 << 20
    document = look.of(job)
    assert found(document, "job_nccl") == [("warn", "NCCL_IB_TIMEOUT=20 from its environment")]
    assert document["places"][0]["processes"][0]["rank"] == 7
    assert "secret" not in json.dumps(document)


def test_names_cannot_write_to_a_terminal(start: Start, look: Look, tmp_path: pathlib.Path) -> None:
    program = tmp_path / "\x1b[2J\nHIGH \u202e"
    program.symlink_to("/bin/sleep")
    script = f"{DEVICES}; exec 5</dev/nvidia0; echo ready; exec {shlex.quote(str(program))} 120"
    job = start(script, env={**os.environ, "NCCL_DEBUG": "\x1b[2J", "NCCL_CONF_FILE": "/\x1b[2J\n"})
    done = look.run("--pid", str(job.pid))
    assert "\\x1b[2J\\nHIGH" in done.stdout
    assert "\x1b" not in done.stdout + done.stderr
    assert "\nHIGH \\u202e" not in done.stdout


def fuse(folders: str, user: str = "") -> str:
    """Script: a job with file systems on these folders whose program does not answer."""
    device = "/dev/fuse"
    command = f"{sys.executable} {FUSE} {device} {folders} '{RUN}'"
    return f"{DEVICES}; mknod -m 666 {device} c 10 229; {user} {command}"


def test_a_file_system_that_does_not_answer_is_not_touched(start: Start, look: Look) -> None:
    job = start(fuse("/dev/shm /root"))
    (pid,) = namespaces.run("pgrep", "-P", str(job.pid)).split()
    document = json.loads(look.run("--json", "--pid", pid).stdout)
    ((verdict, words),) = found(document, "job_shm")
    assert (verdict, words) == (
        "unknown", "cannot read /dev/shm: its file system is fuse, which is not touched"
    )  # fmt: skip
    ((_verdict, words),) = found(document, "job_nccl_files")
    assert words == "cannot read /root/.nccl.conf: its file system is fuse, which is not touched"
    assert found(document, "job_sysctl")


def test_a_user_who_owns_the_namespaces_cannot_stop_the_look(start: Start, look: Look) -> None:
    """The user is root there, and has a file system of its own."""
    user = "setpriv --reuid 1000 --regid 1000 --clear-groups unshare --user --map-root-user --mount --net"
    job = start(fuse("/dev/shm", user), unshare="")
    pids = namespaces.run("pgrep", "-g", str(job.pid), "sleep").split()
    done = look.run("--json", *(word for pid in pids for word in ("--pid", pid)))
    (place,) = json.loads(done.stdout)["places"]
    assert place["user"] == 1000
    assert place["network"] != "host"
    assert place["values"]["sysctl net.core.somaxconn"]
    assert place["unknown"]["shm size"].endswith("which is not touched")


#: As if this kind were known to answer
_TRUSTING = (
    "from ansible_collections.mlnode.tuning.plugins.module_utils._mlnode.linux import inside; "
    "inside.LOCAL = (*inside.LOCAL, 'fuse');"
)


def test_a_read_that_no_signal_ends_leaves_the_rest_known(start: Start, look: Look) -> None:
    stalled, good = start(fuse("/dev/shm")), start(f"{DEVICES}; {RUN}")
    (pid,) = namespaces.run("pgrep", "-P", str(stalled.pid)).split()
    done = look.run("--json", "--pid", pid, "--pid", str(good.pid), first=_TRUSTING)
    first, second = json.loads(done.stdout)["places"]
    assert first["unknown"]["shm size"] == "no answer in 2 s"
    assert second["values"]["shm size"] == str(64 << 20)
    assert {"sysctl net.core.somaxconn"} <= {*first["values"]} & {*second["values"]}


def test_nothing_is_left_of_a_look(start: Start, look: Look) -> None:
    job = start(f"{DEVICES}; {RUN}")
    network = f"net:[{look.of(job)['places'][0]['network']}]"
    pids = [name for name in os.listdir("/proc") if name.isdigit()]
    assert [pid for pid in pids if _link(f"/proc/{pid}/ns/net") == network] == [str(job.pid)]


def _link(path: str) -> str:
    try:
        return os.readlink(path)
    except OSError:
        return ""


GROUPS = pathlib.Path("/sys/fs/cgroup")


def test_a_group_that_looks_like_a_job_is_none(start: Start, look: Look) -> None:
    """In the groups of version 2, of which a user may own a part."""
    tops = [top for top in (GROUPS / "unified", GROUPS) if (top / "cgroup.procs").exists()]
    if not tops:
        pytest.skip("no control groups of version 2 are mounted here")
    top = tops[0] / f"mlnode-{os.getpid()}"
    group = top / "kubepods" / "pod5f0e1d2c-0001-4a4b-8c8d-0123456789ab" / ("3f2c" * 16) / "\x1b[2J"
    job = start(f"{DEVICES}; {RUN}")
    group.mkdir(parents=True)
    try:
        (group / "cgroup.procs").write_text(str(job.pid))
        (place,) = look.of(job)["places"]
        assert place["job"]["kind"] == "other"
        assert place["cgroup"].endswith("\\x1b[2J")
        done = look.run("--pod", "5f0e1d2c-0001-4a4b-8c8d-0123456789ab")
        assert done.returncode == 1
        assert "no such process here" in done.stdout
    finally:
        os.killpg(job.pid, signal.SIGKILL)
        job.wait()
        for path in [group, *group.parents]:
            if path == tops[0]:
                break
            path.rmdir()
