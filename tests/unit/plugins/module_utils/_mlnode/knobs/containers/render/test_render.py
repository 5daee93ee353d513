# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""`mlnode render` for containers and Slurm: texts that their readers take, with all that is declared."""

from __future__ import annotations

import csv
import json
import os
import pathlib
import shlex
import shutil
import subprocess

import jsonschema
import pytest
import yaml
from ansible_collections.mlnode.tuning.tests.unit import cases, rendered
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine
from hypothesis import given
from hypothesis import strategies as st
from mlnode.agent import arguments, cli
from mlnode.agent.render import FORMATS
from mlnode.knobs.containers.render import engines, kubernetes
from mlnode.knobs.containers.render.needs import Needs

Capture = pytest.CaptureFixture[str]

_CONSUMERS = cases.load(pathlib.Path(__file__).with_name("consumers.yml"))
SCRIPTS = ("docker-run", "podman-run", "slurm-prolog")


#: Nodes are only read, and each is made once
@pytest.fixture(scope="module", params=rendered.NODES)
def node(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Machine:
    return rendered.node(request.param, str(tmp_path_factory.mktemp("nodes")))


def run(words: list[str], **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        words, env={"PATH": os.environ["PATH"], **environment}, capture_output=True, text=True, timeout=60,
        check=False,
    )  # fmt: skip


def program(folder: pathlib.Path, name: str, body: str) -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)


def arguments_of(text: str) -> list[str]:
    """Words of the command in a script, after `exec docker run`."""
    return shlex.split(text.replace("\\\n", ""), comments=True)[3:]


def values_of(words: list[str], option: str) -> list[str]:
    return [word for before, word in zip(words, words[1:]) if before == option]


# -- all formats ---------------------------------------------------------------------------


def test_the_texts_of_a_node(node: Machine) -> None:
    kept = rendered.FOLDER / f"{pathlib.Path(node.root).name}.txt"
    assert rendered.texts(node) == kept.read_text(encoding="utf-8"), (
        f"if the new text is right, python -m {rendered.__name__} writes it"
    )


@pytest.mark.parametrize("what", arguments.CONTAINERS)
def test_no_setting_is_left_out_in_silence(node: Machine, what: str) -> None:
    asked, text = rendered.asked(node, what), rendered.text(node, what)
    if "sysctls need no line" not in text:
        assert [key for key in asked.sysctls if key not in text] == []
    assert [limit for limit in asked.ulimits if limit not in text] == []
    assert [line for line in asked.left_out if line not in text] == []
    assert ("/dev/shm" in text or "--shm-size" in text) == bool(asked.shm_size)
    assert ("/etc/nccl.conf" in text) == bool(asked.nccl)


def test_the_examples_in_the_documentation_are_what_the_command_prints(tmp_path: pathlib.Path) -> None:
    machine = rendered.node("example", str(tmp_path))
    page = (rendered.ROOT / "docs/guide/render.md").read_text(encoding="utf-8")
    assert f"```yaml\n{rendered.text(machine, 'pod')}```\n" in page
    script = rendered.text(machine, "docker-run").partition("exec ")
    assert f"```sh\n{''.join(script[1:])}```\n" in page


def test_the_parser_knows_all_formats() -> None:
    assert (*FORMATS,) == arguments.CONTAINERS


# -- Kubernetes ----------------------------------------------------------------------------


@pytest.mark.parametrize("what", ["kubelet", "pod"])
def test_kubernetes_has_these_fields(node: Machine, what: str) -> None:
    jsonschema.validate(yaml.safe_load(rendered.text(node, what)), _CONSUMERS["schemas"][what])


def test_defaults_of_a_newer_kubelet_are_those_of_the_pod(node: Machine) -> None:
    commented = rendered.text(node, "kubelet").partition("# featureGates:")
    document = yaml.safe_load("".join(commented[1:]).replace("# ", "")) or {}
    jsonschema.validate(document, _CONSUMERS["schemas"]["kubelet"])
    context = yaml.safe_load(rendered.text(node, "pod"))["spec"].get("securityContext", {"sysctls": []})
    assert document.get("defaultPodSysctls", {}) == {
        item["name"]: item["value"] for item in context["sysctls"]
    }


@cases.table
def test_a_kubelet_allows_what_is_not_safe_in_all_versions(key: str, line: str | None) -> None:
    text = kubernetes.kubelet(Needs(("node",), {key: "1"}))
    assert [entry for entry in text if entry.startswith("- ")] == ([line] if line else [])


# -- CNI -----------------------------------------------------------------------------------


def test_the_object_for_cni(node: Machine) -> None:
    asked = rendered.asked(node, "pod")
    document = json.loads(rendered.text(node, "cni-tuning"))
    assert [*document] == ["comment", "type", "sysctl"]
    assert document["type"] == "tuning"
    assert document["sysctl"] == {
        key: "\t".join(value.split()) for key, value in asked.sysctls.items() if key.startswith("net.")
    }


# -- scripts -------------------------------------------------------------------------------


@pytest.mark.parametrize("what", SCRIPTS)
def test_a_script_is_one_of_each_shell(node: Machine, tmp_path: pathlib.Path, what: str) -> None:
    path = tmp_path / "script"
    path.write_text(rendered.text(node, what))
    checks = [["sh", "-n"], ["bash", "-n"], *([["shellcheck"]] if shutil.which("shellcheck") else [])]
    for words in checks:
        done = run([*words, str(path)])
        assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_docker_gets_each_setting(node: Machine, tmp_path: pathlib.Path) -> None:
    asked = rendered.asked(node, "docker-run")
    script = tmp_path / "script"
    script.write_text(rendered.text(node, "docker-run"))
    program(tmp_path, "docker", 'printf "%s\\n" "$@"')
    done = run(["sh", str(script), "--rm", "an image", "a  b"], PATH=f"{tmp_path}:{os.environ['PATH']}")
    words = done.stdout.splitlines()
    assert (done.returncode, words[0], words[-3:]) == (0, "run", ["--rm", "an image", "a  b"])
    assert values_of(words, "--sysctl") == [f"{key}={value}" for key, value in asked.sysctls.items()]
    assert len(values_of(words, "--ulimit")) == len(asked.ulimits)
    assert len(values_of(words, "--mount")) == bool(asked.nccl)


@cases.table
def test_limits_and_sizes_as_runtimes_have_them(
    ulimits: dict[str, str], shm_size: int | None, options: list[str]
) -> None:
    text = "\n".join(engines.docker(Needs(("node",), {}, ulimits, shm_size=shm_size)))
    assert arguments_of(text) == [*options, "$@"]


def test_podman_keeps_its_own_limit_if_it_is_a_minimum() -> None:
    asked = Needs(("node",), {}, {"nofile": "1024:65536", "memlock": "unlimited"})
    for least, options in (
        ({"nofile", "memlock"}, ["memlock=-1:-1"]),
        ({"memlock"}, ["nofile=1024:65536", "memlock=-1:-1"]),
    ):
        text = "\n".join(engines.podman(asked._replace(least=frozenset(least))))
        assert values_of(arguments_of(text), "--ulimit") == options
        assert ("nofile needs no line: podman gives at least 1048576" in text) == ("nofile" in least)


#: More than a declaration may have
_TEXTS = st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E), min_size=1, max_size=20)


@given(st.dictionaries(_TEXTS.map("net.{}".format), _TEXTS, max_size=4))
def test_hostile_sysctls_stay_values(sysctls: dict[str, str]) -> None:
    asked = Needs(("node",), sysctls)
    docker, podman = ("\n".join(make(asked)) for make in (engines.docker, engines.podman))
    assert values_of(arguments_of(docker), "--sysctl") == [f"{key}={sysctls[key]}" for key in sysctls]
    pairs = [next(csv.reader([word])) for word in values_of(arguments_of(podman), "--sysctl")]
    assert pairs == [[f"{key}={sysctls[key]}"] for key in sysctls if "=" not in sysctls[key]]
    pod = yaml.safe_load("\n".join(kubernetes.pod(asked)))
    listed = pod["spec"].get("securityContext", {"sysctls": []})["sysctls"]
    assert all(sysctls[item["name"]] == item["value"] for item in listed)
    tuning = json.loads("\n".join(kubernetes.cni_tuning(asked)))["sysctl"]
    assert all(sysctls[key].replace(" ", "\t") == value for key, value in tuning.items())


# -- Slurm ---------------------------------------------------------------------------------


def test_mounts_of_enroot(node: Machine) -> None:
    lines = rendered.text(node, "enroot").splitlines()
    entries = [line.split() for line in lines if not line.startswith("#")]
    assert len(entries) == bool(rendered.asked(node, "enroot").nccl)
    for source, target, kind, options in entries:
        assert (source, target, kind) == ("/etc/nccl.conf", "/etc/nccl.conf", "none")
        assert {*options.split(",")} <= {*_CONSUMERS["enroot_options"]}


@cases.table
def test_a_prolog_enlarges_shared_memory(
    tmp_path: pathlib.Path, shown: str, mount: int, mounted: str, logged: bool
) -> None:
    text = rendered.text(rendered.node("training", str(tmp_path)), "slurm-prolog")
    path = tmp_path / "prolog"
    own = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\n"
    assert own in text
    path.write_text(text.replace(own, f"PATH={tmp_path}:$PATH\n"))
    program(tmp_path, "df", f"printf '%s' '{shown}'")
    program(tmp_path, "mount", f'echo "$*" > {tmp_path}/mounted; exit {mount}')
    program(tmp_path, "logger", f'echo "$*" > {tmp_path}/logged; exit 1')
    assert run(["sh", str(path)]).returncode == 0
    done = tmp_path / "mounted"
    assert (done.read_text().strip() if done.exists() else "") == mounted
    assert (tmp_path / "logged").exists() == logged


# -- the command ---------------------------------------------------------------------------


def test_a_faulty_area_is_an_error_beside_the_others(tmp_path: pathlib.Path, capsys: Capture) -> None:
    machine = Machine.debian(str(tmp_path / "node"))
    rendered.declare(
        machine, "bad", {"limits": {"nofile": "many"}, "sysctl": {"settings": {"net.core.somaxconn": 9}}}
    )
    machine.put("/etc/mlnode/declared.d/worse.json", "{")
    assert cli.main(["render", "pod", "--root", machine.root]) == cli.ERROR
    out, err = capsys.readouterr()
    assert '- name: "net.core.somaxconn"\n      value: "9"\n' in out
    assert "bad.json: limits.nofile" in err
    assert "worse.json" in err


@pytest.mark.parametrize("what", arguments.CONTAINERS)
def test_a_node_without_a_declaration_is_an_error(tmp_path: pathlib.Path, capsys: Capture, what: str) -> None:
    machine = Machine.debian(str(tmp_path / "node"))
    assert cli.main(["render", what, "--root", machine.root]) == cli.ERROR
    out, err = capsys.readouterr()
    assert (out, "no declaration" in err) == ("", True)


def test_nothing_to_set_is_a_success(tmp_path: pathlib.Path, capsys: Capture) -> None:
    machine = rendered.node("nothing", str(tmp_path))
    assert cli.main(["render", "pod", "--root", machine.root]) == cli.OK
    out, err = capsys.readouterr()
    assert ("nothing to set" in out, err) == (True, "")


def test_a_switchs_option_is_refused(tmp_path: pathlib.Path, capsys: Capture) -> None:
    machine = rendered.node("nothing", str(tmp_path))
    assert cli.main(["render", "pod", "--nos", "eos", "--root", machine.root]) == cli.USAGE
    assert "--nos" in capsys.readouterr().err


def test_a_tree_without_proc_says_nothing_about_its_kernel_and_devices(tmp_path: pathlib.Path) -> None:
    machine = Machine(str(tmp_path / "node"))
    rendered.declare(
        machine,
        "node",
        {"limits": {"memlock": "auto"}, "sysctl": {"settings": {"net.core.somaxconn": {"at_least": 9}}}},
    )
    asked = rendered.asked(machine, "pod")
    assert (asked.sysctls, asked.ulimits) == ({"net.core.somaxconn": "9"}, {})
    assert asked.left_out == [
        "memlock: auto, and the devices of the node are not known here: run this on the node"
    ]


def test_the_greater_value_of_the_node_counts_for_a_minimum(tmp_path: pathlib.Path) -> None:
    machine = Machine.debian(str(tmp_path / "node"), {"/proc/sys/net/core/somaxconn": "8192"})
    rendered.declare(machine, "node", {"sysctl": {"settings": {"net.core.somaxconn": {"at_least": 4096}}}})
    assert rendered.asked(machine, "pod").sysctls == {"net.core.somaxconn": "8192"}


def test_a_service_has_its_own_limit(tmp_path: pathlib.Path) -> None:
    machine = Machine.debian(str(tmp_path / "node"))
    rendered.declare(machine, "node", {"limits": {"nofile": {"services": 65536, "docker": 4096}}})
    assert rendered.asked(machine, "docker-run").ulimits == {"nofile": "4096"}
    assert rendered.asked(machine, "slurm-prolog").ulimits == {"nofile": "65536"}


@pytest.mark.parametrize("form", ["docker-run", "podman-run", "pod", "enroot"])
def test_containers_on_gpus_with_rccl_get_its_file(tmp_path: pathlib.Path, form: str) -> None:
    node = Machine.debian(str(tmp_path / "node"))
    folder = "/sys/devices/pci0000:e1/0000:e1:00.0"
    for name, text in (("vendor", "0x1002"), ("device", "0x74a1"), ("class", "0x120000")):
        node.put(f"{folder}/{name}", f"{text}\n")
    node.link("/sys/bus/pci/devices/0000:e1:00.0", f"../../..{folder[len('/sys') :]}")
    rendered.declare(node, "jobs", {"nccl": {"variables": {"NCCL_DEBUG": "WARN"}}})
    text = rendered.text(node, form)
    assert "/etc/rccl.conf" in text
    assert "/etc/nccl.conf" not in text
