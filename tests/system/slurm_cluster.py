# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Slurm of the distribution in namespaces of this machine: munged and slurmctld, and a slurmd for each node.

A node has mounts, processes and a name of its own, and all share one network. Its RebootProgram ends all of
them, exchanges the kernel's boot ID, and starts slurmd again as after a boot.
"""

from __future__ import annotations

import os
import pathlib
import re
import shutil
import subprocess
import threading
import time

from ansible_collections.mlnode.tuning.tests.system import namespaces, packages

PACKAGES = ("slurmctld", "slurmd", "slurm-client", "munge")
SCRIPTS = namespaces.ROOT / "scripts/slurm"
NODES = ("n1", "n2", "n3")

#: For a state of Slurm, in seconds: slurmctld looks for nodes to reboot every other second
PATIENCE = 120

#: Words of slurm.conf. 2: a node is in service once it registers, however long its start took.
DEFAULTS = {"ReturnToService": 2, "ResumeTimeout": PATIENCE}

_CONF = """\
ClusterName=mlnode
SlurmctldHost=ctl(127.0.0.1)
SlurmUser=root
StateSaveLocation={folder}/ctl/state
SlurmctldPidFile={folder}/ctl/pid
SlurmctldLogFile={folder}/ctl/log
SlurmdSpoolDir={folder}/%n/spool
SlurmdPidFile={folder}/%n/slurmd.pid
SlurmdLogFile={folder}/%n/log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
MpiDefault=none
SlurmdTimeout=30
SchedulerParameters=nohold_on_prolog_fail
RebootProgram=/etc/slurm/reboot
{options}
Prolog=/etc/slurm/mlnode/prolog
Epilog=/etc/slurm/mlnode/epilog
HealthCheckProgram=/etc/slurm/mlnode/health-check
HealthCheckInterval=1
HealthCheckNodeState=IDLE
PartitionName=all Nodes=ALL Default=YES
"""

#: fails: contexts of Slurm's scripts in which preflight fails (slurm.conf(5), SLURM_SCRIPT_CONTEXT). In
#: others it is broken, as on a node with an agent that does not start.
_MLNODE = """\
#!/bin/sh
case " $(cat {folder}/$(uname -n)/fails) " in
    *" ${{SLURM_SCRIPT_CONTEXT:-health}} "*) echo "fail: drift, node: vm.swappiness"; exit 3 ;;
esac
echo "cannot import json"
exit 1
"""

#: boots: a word for the next ones. `ignored`: as a program that does nothing. `lost`: slurmd does not start.
#: `drained`: by an administrator, once slurmctld has it back and before it answers anyone else.
_REBOOT = """\
#!/bin/sh
cd {folder}/$(uname -n) || exit
boots=$(cat boots)
[ "$boots" = ignored ] && exit
date +%s.%N >>down
cat >boot <<'END'
kill -KILL -1; sleep 0.5
[ "$1" = lost ] || slurmd -b
if [ "$1" = drained ]; then
    until scontrol --oneliner show node $(uname -n) | grep -q ' State=IDLE '; do sleep 0.1; done
    scontrol update NodeName=$(uname -n) State=DRAIN Reason="RMA 4712"
fi
cat /proc/sys/kernel/random/uuid >boot_id
END
setsid sh boot "$boots" >/dev/null 2>&1 &
"""

_ENTER = ("--mount", "--uts", "--pid", "--net")


def unpacked(folder: pathlib.Path) -> pathlib.Path:
    """Their /usr, without what is installed here; they would start services if they were installed."""
    root = packages.with_needed(folder, *PACKAGES)
    # The first names are links of the package's scripts.
    for name in ("slurmctld", "slurmd", "slurmstepd"):
        if (root / f"usr/sbin/{name}-wlm").exists() and not (root / f"usr/sbin/{name}").exists():
            (root / f"usr/sbin/{name}").symlink_to(f"{name}-wlm")
    return root / "usr"


class Cluster:
    """folder: with a folder for each node. usr: of Slurm's packages. options: of DEFAULTS."""

    def __init__(self, folder: pathlib.Path, usr: pathlib.Path, options: dict[str, int]) -> None:
        self.folder = folder
        self.usr = usr
        self.options = {**DEFAULTS, **options}
        self.net = namespaces.Net("slurm")
        self._processes: list[subprocess.Popen[bytes]] = []
        self._pids: dict[str, int] = {}

    def start(self) -> None:
        self._write()
        self.net.add("all")
        # With the addresses of the loopback alone, getaddrinfo(3) finds none (AI_ADDRCONFIG).
        for words in ("link add br0 type bridge", "addr add 10.9.0.1/24 dev br0", "link set br0 up"):
            self.net.ip("all", words)
        for name in ("ctl", *NODES):
            self._start(name)
        files = (f"--{name}-file={self.folder}/ctl/munge.{name}" for name in ("log", "seed"))
        self.inside("ctl", "munged", "--force", "--key-file=/etc/slurm/munge.key", *files)
        self.inside("ctl", "slurmctld", "-c")
        for name in NODES:
            self.inside(name, "slurmd", "-b")
        self.wait(dict.fromkeys(NODES, "IDLE"))

    def _write(self) -> None:
        etc = self.folder / "etc/slurm"
        (etc / "mlnode").mkdir(parents=True)
        for script in SCRIPTS.iterdir():
            shutil.copy(script, etc / "mlnode")
        lines = [
            f"NodeName={name} NodeHostname={name} NodeAddr=127.0.0.1 Port={7000 + number} CPUs=1\n"
            for number, name in enumerate(NODES)
        ]
        options = "\n".join(f"{key}={value}" for key, value in self.options.items())
        words = {"folder": self.folder, "options": options}
        (etc / "slurm.conf").write_text(
            _CONF.format(**words).replace("Partition", "".join(lines) + "Partition", 1)
        )
        # None is used, and the one that Slurm would choose by itself depends on this machine.
        (etc / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")
        (etc / "munge.key").write_bytes(os.urandom(128))
        (etc / "munge.key").chmod(0o400)
        programs = self.folder / "usr/local/bin"
        programs.mkdir(parents=True)
        for path, text in ((etc / "reboot", _REBOOT), (programs / "mlnode", _MLNODE)):
            path.write_text(text.format(**words))
            path.chmod(0o755)
        for name in ("run/munge", "run/slurm", "ctl/state", *(f"{name}/spool" for name in NODES)):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        for name in ("ctl", *NODES):
            (self.folder / name / "boot_id").write_text(f"{name}\n")
            (self.folder / name / "boots").touch()
            (self.folder / name / "fails").touch()

    def _start(self, name: str) -> None:
        """The first process of a node, with which its namespaces go."""
        own = self.folder / name
        script = f"""
            hostname {name}
            mount -t overlay overlay -o lowerdir={self.folder}/usr:{self.usr}:/usr /usr
            mount -t overlay overlay -o lowerdir={self.folder}/etc:/etc /etc
            mount --bind {self.folder}/run /run
            mount --bind {own}/boot_id /proc/sys/kernel/random/boot_id
            echo ready; exec sleep infinity
        """
        words = [
            "ip",
            "netns",
            "exec",
            f"{self.net.prefix}all",
            "unshare",
            "--mount",
            "--uts",
            "--pid",
            "--fork",
        ]
        words += ["--kill-child", "--mount-proc", "sh", "-e", "-c", script]
        process = subprocess.Popen(words, stdout=subprocess.PIPE)
        self._processes.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n", name
        children = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text()
        self._pids[name] = int(children)

    def stop(self) -> None:
        for process in self._processes:
            process.kill()
            process.communicate()
        self.net.remove()

    def enter(self, name: str) -> list[str]:
        """The words before a command on a node."""
        return ["nsenter", f"--target={self._pids[name]}", *_ENTER]

    def inside(self, name: str, *words: str) -> str:
        return namespaces.run(*self.enter(name), *words)

    def set(self, name: str, key: str, words: str) -> None:
        """boots or fails, of the class of scripts above."""
        (self.folder / name / key).write_text(words)

    def boots(self, name: str) -> int:
        path = self.folder / name / "down"
        return len(path.read_text().split()) if path.exists() else 0

    def states(self) -> dict[str, str]:
        return dict(re.findall(r"^NodeName=(\S+) .*? State=(\S+)", self._show("nodes"), re.MULTILINE))

    def reason(self, name: str) -> str:
        """Without the one who has given it."""
        return "".join(re.findall(r" Reason=(.*?) \[", self._show("node", name)))

    def job(self, number: str, field: str) -> str:
        return "".join(re.findall(rf"\b{field}=(\S+)", self._show("job", number)))

    def submit(self, script: str, *options: str) -> str:
        """Number of the new job."""
        words = ("sbatch", "--parsable", "--output=/dev/null", f"--wrap={script}", *options)
        return self.inside("ctl", *words).strip()

    def update(self, name: str, words: str) -> None:
        self.inside("ctl", "scontrol", "update", f"NodeName={name}", *words.split(" ", 1))

    def wait(self, states: dict[str, str]) -> None:
        end = time.monotonic() + PATIENCE
        while {name: state for name, state in self.states().items() if name in states} != states:
            assert time.monotonic() < end, (states, self.told())
            time.sleep(0.1)

    def ended(self, number: str) -> str:
        """State of a job at its end."""
        end = time.monotonic() + PATIENCE
        while (state := self.job(number, "JobState")) in ("PENDING", "CONFIGURING", "RUNNING", "COMPLETING"):
            assert time.monotonic() < end, (number, state, self.told())
            time.sleep(0.1)
        return state

    def told(self) -> str:
        """What Slurm says of its nodes, in one line, as reports of a failure are cut."""
        reasons = {name: (state, self.reason(name)) for name, state in self.states().items()}
        log = (self.folder / "ctl/log").read_text().splitlines()
        return f"{reasons}: {' | '.join(line for line in log[-40:] if 'auth_p_get_host' not in line)}"

    def _show(self, *words: str) -> str:
        return self.inside("ctl", "scontrol", "--oneliner", "show", *words)


class Watch:
    """Samples the states of the nodes, in a thread of its own, until the end of the block."""

    def __init__(self, cluster: Cluster) -> None:
        self.seen: list[dict[str, str]] = []
        self._cluster = cluster
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._sample)

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._done.set()
        self._thread.join()

    def _sample(self) -> None:
        while not self._done.wait(0.1):
            self.seen.append(self._cluster.states())

    def most_out(self) -> int:
        """Most nodes at one time that Slurm gave no jobs."""
        return max(
            sum("DRAIN" in state or "DOWN" in state for state in states.values()) for states in self.seen
        )
