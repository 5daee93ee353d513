# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Jobs in containers of Podman and Docker, on a machine with a stand-in for a GPU."""

from __future__ import annotations

import json
import pathlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .machine import Machine

_RANK = pathlib.Path(__file__).with_name("rank.py")
_IMAGE = "rank"
#: The path is all that counts of it: major and minor are those of /dev/null.
GPU = "/dev/nvidia0"

#: An image without a registry: empty folders for what is mounted, and the programs of the node itself
_MAKE = f"""
set -e
mknod {GPU} c 1 3
mkdir -p /opt/image && cd /opt/image
mkdir dev etc proc run sys tmp usr
for name in bin lib lib64 sbin; do ln -s usr/$name $name; done
cat >rank.py
tar -c . | podman import -q - {_IMAGE}
tar -c . | docker import - {_IMAGE}
"""

_SHOW = """
for key in {keys}; do echo $key $(cat /proc/sys/$(echo $key | tr . /)); done
ulimit -S -a; ulimit -H -a; stat -f -c %b /dev/shm
"""


def prepare(machine: Machine) -> None:
    """A GPU, and the image for both runtimes."""
    machine.run(_MAKE, stdin=_RANK.read_text())


@dataclass(frozen=True)
class Look:
    """What `mlnode job` has found. status: that of the command. bad: checks that are not as expected."""

    status: int
    places: Sequence[Mapping[str, Any]]
    bad: Sequence[Mapping[str, str]]

    @property
    def names(self) -> set[str]:
        return {check["name"] for check in self.bad}

    def named(self, name: str) -> Sequence[Mapping[str, str]]:
        return [check for check in self.bad if check["name"] == name]


def look(machine: Machine, *options: str) -> Look:
    done = machine.run(f"mlnode job --json {' '.join(options)}", check=False)
    assert done.stdout, f"mlnode job ended with {done.returncode}: {done.stderr}"
    document = json.loads(done.stdout)
    bad = [check for check in document["checks"] if check["verdict"] not in ("pass", "skip")]
    return Look(done.returncode, document["places"], bad)


@dataclass(frozen=True)
class Runtime:
    """name: of its command, whose options of `run` both have."""

    machine: Machine
    name: str

    def start(self, name: str, options: Sequence[str] = (), program: Sequence[str] = ()) -> None:
        """A new container with a rank; one with this name ends. Later options win. With the network of the
        node, both runtimes refuse sysctls of the network."""
        if "--network=host" in options:
            options = [option for option in options if not option.startswith("--sysctl net.")]
        words = [f"-d --name {name} -v /usr:/usr:ro --device {GPU}", *options, _IMAGE]
        words += ["/usr/bin/python3 /rank.py", GPU, *program]
        self.end(name)
        self.machine.run(f"{self.name} run {' '.join(words)}")
        ready = f"timeout 120 sh -c 'until {self.name} logs {name} 2>&1 | grep -q ready; do sleep 0.5; done'"
        self.machine.run(f"{ready} || {{ {self.name} logs {name}; false; }}")

    def end(self, name: str) -> None:
        self.machine.run(f"{self.name} rm -f {name}", check=False)

    def shown(self, keys: Sequence[str]) -> str:
        """Kernel values, limits and shared memory of a new container, as it sees them itself."""
        script = _SHOW.format(keys=" ".join(keys)).strip().replace("\n", ";")
        return self.machine.out(f"{self.name} run --rm -v /usr:/usr:ro {_IMAGE} sh -c '{script}'")

    def followed(self, advice: str, values: Mapping[str, str]) -> tuple[str, str]:
        """The command of a remedy for this runtime, `run` or `update`, and its options; empty for prose.
        values: for the words in capitals, which the remedy leaves to its reader."""
        found = re.match(rf"{self.name} (run|update) (--?.*?)(?: or |, | with |;|$)", advice)
        if not found:
            return "", ""
        return found[1], re.sub(r"\b[A-Z]+\b(?!_)", lambda word: values.get(word[0], word[0]), found[2])
