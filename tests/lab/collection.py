# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The collection as a user has it: its playbooks, run against a lab machine over SSH."""

from __future__ import annotations

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .callbacks import lab_result
from .machine import Machine

#: The checkout these tests belong to
ROOT = pathlib.Path(__file__).resolve().parents[2]

_CALLBACKS = pathlib.Path(lab_result.__file__).parent
#: The file in the folder of Hosts with what the last task has returned
_RESULT = "result.json"

#: What an installed collection has
_INSTALLED = ("meta", "playbooks", "plugins", "roles", "galaxy.yml", "ansible.cfg")


@dataclass(frozen=True)
class Hosts:
    """An inventory: nodes with their variables, all of them in these groups. folder: where Ansible keeps its
    files."""

    folder: pathlib.Path
    variables: Mapping[str, Mapping[str, Any]]
    groups: tuple[str, ...] = ("training",)

    @classmethod
    def of(cls, machine: Machine, *groups: str) -> Hosts:
        """The machine as the only node, reached as the tests themselves do. Wakes it."""
        machine.resume()
        host = {
            "ansible_host": "127.0.0.1",
            "ansible_port": machine.port,
            "ansible_user": "root",
            # The connection that is already there, so that nobody holds one to a machine that is off.
            "ansible_ssh_args": " ".join(machine.ssh_options),
            "ansible_python_interpreter": "/usr/bin/python3",
        }
        return cls(machine.folder, {"lab": host}, groups or cls.groups)

    def write(self) -> pathlib.Path:
        path = self.folder / "inventory.json"
        path.write_text(json.dumps({group: {"hosts": self.variables} for group in self.groups}))
        return path


@dataclass(frozen=True)
class Played:
    """One run of ansible-playbook. output is for people and asserts on words, result that of a task()."""

    status: int
    output: str
    result: dict[str, Any] = field(default_factory=dict)

    @property
    def changed(self) -> int:
        """The number behind changed= in the recap."""
        match = re.search(r"^lab +: .* changed=(\d+)", self.output, re.MULTILINE)
        assert match, f"no recap:\n{self.output}"
        return int(match.group(1))


class Collection:
    """One tree of the collection, found below collections/ansible_collections/mlnode/tuning."""

    def __init__(self, collections: pathlib.Path) -> None:
        self.collections = collections
        self.root = collections / "ansible_collections/mlnode/tuning"

    @classmethod
    def checkout(cls) -> Collection:
        return cls(ROOT / ".ansible/collections")

    @classmethod
    def copy(cls, folder: pathlib.Path) -> Collection:
        """A copy of the checkout that may be changed."""
        made = cls(folder)
        for name in _INSTALLED:
            source, target = ROOT / name, made.root / name
            target.parent.mkdir(parents=True, exist_ok=True)
            if source.is_dir():
                shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(source, target)
        return made

    def patch(self, file: str, old: str, new: str) -> None:
        """Change one place of a copy. A test that plants a fault must not go on without having planted it."""
        assert self.collections != ROOT / ".ansible/collections", "the checkout itself must not be changed"
        path = self.root / file
        text = path.read_text()
        assert text.count(old) == 1, f"{file} has {text.count(old)} times {old!r}: renew this test"
        path.write_text(text.replace(old, new))

    def play(self, name: str, on: Machine | Hosts, *options: str, **variables: Any) -> Played:
        """ansible-playbook on playbooks/NAME.yml, with extra variables."""
        return _finished(self.start(name, on, *options, **variables))

    def start(self, name: str, on: Machine | Hosts, *options: str, **variables: Any) -> subprocess.Popen[str]:
        """The same without waiting for its end."""
        return self._start(self.root / f"playbooks/{name}.yml", on, variables, options)

    def task(self, module: str, on: Machine | Hosts, **arguments: Any) -> Played:
        """One module of the collection by itself."""
        hosts = on if isinstance(on, Hosts) else Hosts.of(on)
        result = hosts.folder / _RESULT
        result.unlink(missing_ok=True)
        played = _finished(self.start_task(module, hosts, **arguments))
        found = json.loads(result.read_text()) if result.exists() else {}
        return Played(played.status, played.output, found)

    def start_task(self, module: str, on: Machine | Hosts, **arguments: Any) -> subprocess.Popen[str]:
        """The same without waiting for its end."""
        hosts = on if isinstance(on, Hosts) else Hosts.of(on)
        task = {f"mlnode.tuning.{module}": arguments}
        play = {"hosts": "all", "gather_facts": False, "tasks": [task]}
        playbook = hosts.folder / "task.json"
        playbook.write_text(json.dumps([play]))
        return self._start(playbook, hosts, {})

    def _start(
        self,
        playbook: pathlib.Path,
        on: Machine | Hosts,
        variables: Mapping[str, Any],
        options: Sequence[str] = (),
    ) -> subprocess.Popen[str]:
        hosts = on if isinstance(on, Hosts) else Hosts.of(on)
        command = pathlib.Path(sys.executable).parent / "ansible-playbook"
        words = [str(command), "-i", str(hosts.write()), str(playbook), *options]
        if variables:
            words += ["-e", json.dumps(variables)]
        return subprocess.Popen(
            words,
            cwd=self.root,
            env=self._environment(hosts.folder),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def _environment(self, folder: pathlib.Path) -> dict[str, str]:
        home = folder / "ansible"
        return {
            "PATH": f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}",
            "HOME": os.environ.get("HOME", "/"),
            "LC_ALL": "C.UTF-8",
            "ANSIBLE_HOME": str(home),
            "ANSIBLE_CALLBACK_PLUGINS": str(_CALLBACKS),
            lab_result.FILE: str(folder / _RESULT),
            "ANSIBLE_CONFIG": str(self.root / "ansible.cfg"),
            "ANSIBLE_COLLECTIONS_PATH": str(self.collections),
            "ANSIBLE_NOCOLOR": "1",
            "COLUMNS": "200",
        }

    def inventory(self, machine: Machine) -> pathlib.Path:
        """A file in which the machine is the only training node; for `make site INVENTORY=...`."""
        return Hosts.of(machine).write()


def _finished(process: subprocess.Popen[str]) -> Played:
    output, _nothing = process.communicate(timeout=900)
    print(output)
    return Played(process.returncode, output)
