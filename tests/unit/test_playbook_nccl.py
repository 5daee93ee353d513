# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""nccl.yml from its inventory to its document. Nodes are this machine, and mpirun, srun, nvidia-smi and
all_reduce_perf the stand-in of nccl_machine.py, which has names for them. All but one of the plays have a
stand-in of Ansible's module command as well, of which each call takes half a second of a processor."""

from __future__ import annotations

import json
import os
import pathlib
import sys
from typing import Any

import jsonschema
import pytest
import yaml
from ansible_collections.mlnode.tuning.tests.unit import nccl_machine
from ansible_collections.mlnode.tuning.tests.unit.roles import ROOT
from ansible_collections.mlnode.tuning.tests.unit.test_playbooks import ansible

SCHEMA = json.loads((ROOT / "docs/schema/nccl.schema.json").read_text("utf-8"))
STANDIN = pathlib.Path(nccl_machine.__file__).resolve()

#: What command and shell run, without what Ansible sends along with a module of its own
COMMAND = """\
#!/usr/bin/python
# WANT_JSON
import json
import subprocess
import sys

with open(sys.argv[1]) as stream:
    given = json.load(stream)
command = given.get("argv") or given.get("_raw_params") or given["cmd"]
done = subprocess.run(command, shell=bool(given.get("_uses_shell")), capture_output=True, text=True)
said = {"stdout": done.stdout.rstrip("\\n"), "stderr": done.stderr.rstrip("\\n")}
failed = {"failed": True, "msg": "non-zero return code"} if done.returncode else {}
print(json.dumps({"changed": True, "cmd": command, "rc": done.returncode, **said, **failed}))
"""


class Site:
    def __init__(self, folder: pathlib.Path, names: str) -> None:
        self.folder = folder
        self.nodes: dict[str, dict[str, Any]] = {
            name: {"nccl_hostname": name, "nccl_address": name, "nccl_environment": {"STANDIN_HOSTS": name}}
            for name in names
        }
        for program in ("mpirun", "srun", "nvidia-smi", "all_reduce_perf"):
            called = folder / "lib" / program
            called.parent.mkdir(exist_ok=True)
            called.symlink_to(STANDIN)
            script = folder / "bin" / program
            script.parent.mkdir(exist_ok=True)
            # It says nothing where no process uses a GPU.
            line = "exit 0" if program == "nvidia-smi" else f'exec {sys.executable} -S -E {called} "$@"'
            script.write_text(f"#!/bin/sh\n{line}\n", "utf-8")
            script.chmod(0o755)

    def play(self, *words: str) -> tuple[int, str]:
        """Exit status, and all that was said in one line."""
        everywhere = {
            "ansible_connection": "local",
            "ansible_python_interpreter": "{{ ansible_playbook_python }}",
            "nccl_gpus": 2,
            "nccl_rails_gbits": [1600, 1600],
        }
        inventory = self.folder / "hosts.yml"
        inventory.write_text(
            yaml.safe_dump({"training": {"hosts": self.nodes, "vars": everywhere}}), encoding="utf-8"
        )
        done = ansible(
            *("ansible-playbook", "-i", str(inventory), "playbooks/nccl.yml"),
            *(
                "-e",
                f"nccl_results={self.folder}/out",
                "-e",
                "nccl_least_size=16K",
                "-e",
                "nccl_most_size=1G",
            ),
            *words,
        )
        return done.returncode, " ".join((done.stdout + done.stderr).split())

    @property
    def document(self) -> dict[str, Any]:
        (path,) = (self.folder / "out").glob("*.json")
        document: dict[str, Any] = json.loads(path.read_text("utf-8"))
        jsonschema.Draft202012Validator(SCHEMA).validate(document)
        return document


@pytest.fixture
def quick(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "library").mkdir()
    (tmp_path / "library/command.py").write_text(COMMAND, encoding="utf-8")
    monkeypatch.setenv("ANSIBLE_LIBRARY", str(tmp_path / "library"))


@pytest.fixture
def site(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    site = Site(tmp_path, "abc")
    monkeypatch.setenv("PATH", f"{site.folder}/bin:{os.environ['PATH']}")
    monkeypatch.setenv("STANDIN_FAULTS", "{}")
    return site


@pytest.mark.usefixtures("quick")
def test_a_slow_group_is_followed_by_smaller_ones(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STANDIN_FAULTS", json.dumps({"slow": {"b": 0.6}}))

    status, said = site.play("-e", "nccl_runs=2")

    assert status != 0
    assert "fail run 1, bandwidth 1073741824 bytes" in said
    assert [run["nodes"] for run in site.document["runs"]] == [["a", "b", "c"], ["a", "b"]]
    assert [run["state"] for run in site.document["runs"]] == ["low", "low"]
    assert site.document["coverage"]["runs_left_out"] == 2
    first, *others = site.document["runs"]
    assert (first["read_from"], first["status"], first["ranks"]) == ("json", 0, 6)
    assert "timeout --kill-after=10 600 mpirun --host localhost:2,b:2,c:2 -np 6" in first["command"]
    assert "-x NCCL_IGNORE_NET_MISMATCH" in first["command"]
    assert "-x NCCL_ALGO" in first["command"]
    assert first["algorithms"]["forced"] == "RING"
    assert first["bands"][2]["sizes"][0]["choices"] == [
        {"algorithm": "RING", "protocol": "SIMPLE", "channels": 16}
    ]
    assert first["transport"]["nodes"]["b"]["networks"] == {"IB": 4}
    # Times of all processes are asked for once.
    assert "-I 1" in first["command"]
    assert not any("-I" in run["command"] for run in others)
    assert not [*pathlib.Path("/tmp").glob(f"mlnode-nccl-{site.document['nccl']['id']}*")]


@pytest.mark.usefixtures("quick")
def test_only_files_are_earlier_results(site: Site) -> None:
    (site.folder / "out/folder.json").mkdir(parents=True)
    (site.folder / "out/link.json").symlink_to("/no/such/file")

    status, said = site.play("--check")

    assert status == 0, said


@pytest.mark.usefixtures("quick")
def test_slurm_starts_those_that_have_the_program(site: Site) -> None:
    site.nodes["c"]["nccl_program"] = "/no/such/program"

    status, said = site.play("-e", "nccl_launcher=srun", "-e", "nccl_fail_on=fail")

    assert status == 0, said
    (run,) = site.document["runs"]
    assert "srun --nodes 2 --nodelist a,b --ntasks 4 --ntasks-per-node 2 --exclusive" in run["command"]
    assert (run["verdict"], site.document["verdict"]) == ("unknown", "unknown")
    assert {node["name"]: node["verdict"] for node in site.document["nodes"]} == {
        "a": "pass",
        "b": "pass",
        "c": "unknown",
    }
    assert "node c all_reduce_perf of nccl-tests or rccl-tests was not found" in said


def test_without_mpi_each_node_is_measured_by_itself(site: Site) -> None:
    """With the modules of Ansible as they are."""
    status, said = site.play("-e", "nccl_launcher=ssh", "--limit", "a,b")

    assert status != 0
    assert "the links between nodes were not measured" in said
    assert [(run["nodes"], run["ranks"]) for run in site.document["runs"]] == [(["a"], 2), (["b"], 2)]
    assert {run["bands"][2]["verdict"] for run in site.document["runs"]} == {"unknown"}
