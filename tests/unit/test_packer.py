# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The templates for Packer: one for its present form, one for the version that Debian has."""

from __future__ import annotations

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
from typing import Any

import pytest
from ansible_collections.mlnode.tuning.tests.unit import cases
from ansible_collections.mlnode.tuning.tests.unit.roles import ROLES, ROOT, load, options

FOLDER = ROOT / "packer"
HCL = FOLDER / "ml-node.pkr.hcl"
JSON = FOLDER / "ml-node.json"
#: What Packer 1.6 does not know yet. The plugins were a part of it, and IMDSv2 came later.
_NEWER = re.compile(
    r"^  (required_version|imds_support) [^\n]*\n|^  (required_plugins|metadata_options) \{\n.*?^  \}\n",
    re.MULTILINE | re.DOTALL,
)


@pytest.fixture(scope="module")
def template() -> dict[str, Any]:
    """The present form, as a parser of HCL understands it."""
    return loaded(HCL)


def loaded(path: pathlib.Path) -> dict[str, Any]:
    hcl2 = pytest.importorskip("hcl2", reason="python-hcl2 is not installed")
    found: dict[str, Any] = _plain(hcl2.loads(path.read_text(encoding="utf-8")))
    return found


def _plain(value: Any) -> Any:
    """Without the quotes and marks that python-hcl2 leaves, and with one block instead of a list of one."""
    if isinstance(value, dict):
        return {_plain(key): _plain(item) for key, item in value.items() if not str(key).startswith("__")}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value[1:-1] if isinstance(value, str) and value[:1] == value[-1:] == '"' else value


@pytest.fixture(scope="module")
def older() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(JSON.read_text(encoding="utf-8"))
    return found


@pytest.fixture(scope="module")
def packer(tmp_path_factory: pytest.TempPathFactory) -> str:
    return program(tmp_path_factory.mktemp("packer"))


def program(work: pathlib.Path) -> str:
    """Packer 1.6: that of the system, or of its package archive."""
    found = shutil.which("packer") or _fetched(work)
    if version_of(found) >= (1, 7):
        pytest.skip("plugins are no part of this packer")
    return found


def _fetched(work: pathlib.Path) -> str:
    folder = pathlib.Path(os.environ.get("MLNODE_CACHE") or pathlib.Path.home() / ".cache/mlnode") / "packer"
    found = folder / "usr/bin/packer"
    if not found.exists():
        if not shutil.which("apt-get") or not shutil.which("dpkg-deb"):
            pytest.skip("there is no packer here, and no apt-get that could fetch it")
        fetched = subprocess.run(
            ["apt-get", "--quiet", "download", "packer"],
            cwd=work,
            capture_output=True,
            text=True,
            check=False,
        )
        packages = [*work.glob("packer_*.deb")]
        if not packages:
            pytest.skip(f"there is no packer here, nor in this system's archive: {fetched.stderr[-300:]}")
        subprocess.run(["dpkg-deb", "--extract", packages[0], work / "out"], check=True)
        folder.parent.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(folder, ignore_errors=True)
        shutil.move(work / "out", folder)
    return str(found)


def validated(packer: str, template: pathlib.Path, *words: str) -> tuple[int, str]:
    environment = {
        # It asks ansible-playbook for its version, and its maker for a newer one of itself.
        "PATH": f"{_work(template)}/bin:{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}",
        "HOME": os.environ.get("HOME", "/"),
        "CHECKPOINT_DISABLE": "1",
        "PACKER_CACHE_DIR": str(template.parent / "cache"),
    }
    done = subprocess.run(
        [packer, "validate", *words, str(template)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def copied(tmp_path: pathlib.Path) -> pathlib.Path:
    """A tree in which a template may be changed, and finds what it names, without what Packer 1.6 does not
    know yet. ansible-playbook says its version at once, for which the real one takes longer than Packer."""
    shutil.copytree(FOLDER, tmp_path / "packer")
    for folder in ("playbooks", "bin"):
        (tmp_path / folder).mkdir()
    shutil.copy(ROOT / "playbooks/bake.yml", tmp_path / "playbooks")
    ansible = tmp_path / "bin/ansible-playbook"
    ansible.write_text("#!/bin/sh\necho 'ansible-playbook [core 2.19.4]'\n", encoding="utf-8")
    ansible.chmod(0o755)
    for path in (tmp_path / "packer").rglob(HCL.name):
        text, count = _NEWER.subn("", path.read_text(encoding="utf-8"))
        assert count == (4 if path.parent.name == "packer" else 2)
        path.write_text(text, encoding="utf-8")
    return tmp_path / "packer"


def _work(template: pathlib.Path) -> pathlib.Path:
    """The tree of copied() that a template lies in."""
    return next((folder for folder in template.parents if (folder / "bin").is_dir()), template.parents[1])


def version_of(packer: str) -> tuple[int, ...]:
    words = subprocess.run([packer, "version"], capture_output=True, text=True, check=True).stdout
    match = re.search(r"v(\d+)\.(\d+)", words)
    assert match, words
    return tuple(map(int, match.groups()))


@pytest.mark.parametrize("name", [JSON.name, HCL.name])
def test_packer_takes_both_forms(packer: str, tmp_path: pathlib.Path, name: str) -> None:
    assert validated(packer, copied(tmp_path) / name) == (0, "")


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.pkrvars.hcl")), ids=lambda path: path.name)
def test_packer_takes_a_file_of_variables(packer: str, tmp_path: pathlib.Path, path: pathlib.Path) -> None:
    assert validated(packer, copied(tmp_path) / HCL.name, f"-var-file={path}") == (0, "")


def test_packer_says_what_is_wrong_in_it(packer: str, tmp_path: pathlib.Path) -> None:
    path = copied(tmp_path) / JSON.name
    path.write_text(
        JSON.read_text(encoding="utf-8").replace('"encrypt_boot"', '"encrypt_bot"'), encoding="utf-8"
    )
    status, words = validated(packer, path)
    assert status != 0
    assert "encrypt_bot" in words


# -- the present form ----------------------------------------------------------------------


def variables(template: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {name: body for block in template["variable"] for name, body in block.items()}


def source(template: dict[str, Any]) -> dict[str, Any]:
    (block,) = template["source"]
    found: dict[str, Any] = block["amazon-ebs"]["ml-node"]
    return found


def provisioners(template: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    (build,) = template["build"]
    return [(kind, body) for block in build["provisioner"] for kind, body in block.items()]


def test_the_disk_is_encrypted_and_metadata_needs_a_token(template: dict[str, Any]) -> None:
    found = source(template)

    assert found["encrypt_boot"] is True
    assert found["imds_support"] == "v2.0"
    (metadata,) = found["metadata_options"]
    assert metadata["http_tokens"] == "required"
    assert found["ssh_clear_authorized_keys"] is True


def test_it_bakes_and_then_cleans_up(template: dict[str, Any]) -> None:
    _wait, (bake, ansible), (clean, last) = provisioners(template)

    assert (bake, clean) == ("ansible", "shell")
    assert ansible["playbook_file"] == "${local.root}/playbooks/bake.yml"
    assert last["script"].endswith("/packer/clean.sh")
    assert os.access(FOLDER / "clean.sh", os.X_OK)


def test_every_variable_is_described_and_in_the_guide(template: dict[str, Any]) -> None:
    guide = (ROOT / "docs/guide/image.md").read_text(encoding="utf-8")
    for name, body in variables(template).items():
        assert body["description"].endswith("."), name
        assert "default" in body, name
        assert f"| `{name}` |" in guide, name


def test_both_forms_say_the_same(template: dict[str, Any], older: dict[str, Any]) -> None:
    shared = {name: body["default"] for name, body in variables(template).items() if name != "tags"}
    # In JSON every variable is a text, and a list has commas.
    shared = {name: ",".join(v) if isinstance(v, list) else str(v) for name, v in shared.items()}
    shared.update(variables_file="{{template_dir}}/variables.yml")
    assert older["variables"] == shared

    (builder,) = older["builders"]
    present = source(template)
    newer = {"metadata_options", "imds_support"}
    assert {*builder} - {"type"} == {*present} - newer
    same = ("encrypt_boot", "communicator", "ssh_clear_authorized_keys", "temporary_key_pair_type")
    assert {name: builder[name] for name in same} == {name: present[name] for name in same}
    assert [step["type"] for step in older["provisioners"]] == [
        kind for kind, _body in provisioners(template)
    ]


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.pkrvars.hcl")), ids=lambda path: path.name)
def test_a_file_of_variables_has_known_ones_of_one_architecture(
    path: pathlib.Path, template: dict[str, Any]
) -> None:
    found = loaded(path)
    known = {name: body["default"] for name, body in variables(template).items()}

    assert {*found} <= {*known}
    assert all(isinstance(value, type(known[name])) for name, value in found.items())
    arm = found.get("architecture", known["architecture"]) == "arm64"
    assert arm == ("arm64" in found["source_ami_name"])
    assert arm == ("g." in found.get("instance_type", known["instance_type"]))
    assert path.name in (ROOT / "docs/guide/image.md").read_text(encoding="utf-8")


@cases.table
def test_packer_takes_other_values(
    packer: str, tmp_path: pathlib.Path, template: dict[str, Any], chosen: dict[str, str]
) -> None:
    folder = copied(tmp_path)
    known = {name: body["default"] for name, body in variables(template).items()}
    for path in (folder / JSON.name, folder / HCL.name):
        words = []
        for name, value in chosen.items():
            # A list of HCL has brackets and quotes, where JSON has commas.
            listed = path.name == HCL.name and isinstance(known[name], list)
            words += ["-var", f"{name}={json.dumps(value.split(',')) if listed else value}"]
        assert validated(packer, path, *words) == (0, "")


# -- what they run -------------------------------------------------------------------------


def test_the_variables_are_those_of_the_roles_and_of_the_playbook() -> None:
    known = {name for role in ROLES for name in options(role)} | {"bake_boot_loader"}

    assert {*load("packer/variables.yml")} <= known


def test_the_script_is_one_for_every_shell() -> None:
    script = FOLDER / "clean.sh"
    for command in (["sh", "-n"], ["shellcheck", "--severity=style"]):
        if shutil.which(command[0], path=f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"):
            environment = {
                **os.environ,
                "PATH": f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}",
            }
            done = subprocess.run(
                [*command, str(script)], env=environment, capture_output=True, text=True, check=False
            )
            assert done.returncode == 0, done.stdout + done.stderr
