# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The archive of the collection: what is in it, and that it plays in a project that has nothing else."""

from __future__ import annotations

import json
import os
import pathlib
import re
import subprocess
import sys
import tarfile

import pytest
import yaml
from ansible_collections.mlnode.tuning.plugins.plugin_utils.fleet_report import document
from ansible_collections.mlnode.tuning.tests.unit.plugins.plugin_utils.fleet_report import fleets
from ansible_collections.mlnode.tuning.tests.unit.plugins.plugin_utils.results import campaigns
from ansible_collections.mlnode.tuning.tests.unit.roles import PROFILES, ROOT, load
from ansible_collections.mlnode.tuning.tests.unit.test_links import CODE, LINK, PACKED, tracked
from ansible_collections.mlnode.tuning.tests.unit.test_packer import JSON, program, validated

#: Made by the build
OF_THE_BUILD = {"FILES.json", "MANIFEST.json"}
#: Everything at the top of the archive; changelogs/changelog.yaml comes with the first release
TOP = {
    *("CHANGELOG.md", "COPYING", "README.md", "SECURITY.md", "bindep.txt", "requirements.yml"),
    *("docs", "examples", "inventory", "meta", "observability", "packer", "playbooks", "plugins", "roles"),
    "scripts",
}
#: 1,513,000 bytes are packed now, and pages grow. Tests or pictures that slip in are more than this leaves.
MOST_BYTES = 1_550_000

CONFIG = """\
[defaults]
collections_path = collections
callbacks_enabled = mlnode.tuning.fleet_report
"""


#: As the guide has it
SETUP = 'PATH="$PATH:$PWD/collections/ansible_collections/mlnode/tuning/scripts"'


class Project:
    """A folder with an inventory of this machine and the collection, as its reader installs it."""

    def __init__(self, folder: pathlib.Path, artifact: pathlib.Path) -> None:
        self.folder = folder
        self.artifact = artifact
        self.collection = folder / "collections/ansible_collections/mlnode/tuning"

    def run(self, program: str, *words: str) -> subprocess.CompletedProcess[str]:
        """Without the variables through which the checkout is found."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("ANSIBLE_")}
        command = [str(pathlib.Path(sys.executable).parent / program), *words]
        path = f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"
        environment = {**kept, "PATH": path, "HOME": str(self.folder), "ANSIBLE_NOCOLOR": "1"}
        return subprocess.run(
            command, cwd=self.folder, env=environment, capture_output=True, text=True, check=False
        )

    def play(self, *words: str) -> subprocess.CompletedProcess[str]:
        return self.run("ansible-playbook", "-i", "hosts.yml", *words)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    folder = tmp_path_factory.mktemp("project")
    galaxy = load("galaxy.yml")
    made = Project(folder, folder / f"mlnode-tuning-{galaxy['version']}.tar.gz")
    built = made.run("ansible-galaxy", "collection", "build", "--output-path", str(folder), str(ROOT))
    assert built.returncode == 0, built.stderr
    (folder / "ansible.cfg").write_text(CONFIG, encoding="utf-8")
    here = {
        "ansible_connection": "local",
        "ansible_become": False,  # a check needs no rights, and a machine may have no sudo
        "ansible_python_interpreter": "{{ ansible_playbook_python }}",
    }
    groups = {"training": {"hosts": {"node1": here}}, "inference": {}, "fabric": {}}
    (folder / "hosts.yml").write_text(yaml.safe_dump(groups), encoding="utf-8")
    words = ("collection", "install", made.artifact.name, "-p", "collections", "--offline")
    installed = made.run("ansible-galaxy", *words)
    assert installed.returncode == 0, installed.stderr
    assert "was installed successfully" in installed.stdout
    return made


@pytest.fixture(scope="module")
def packed(project: Project) -> set[str]:
    with tarfile.open(project.artifact) as archive:
        return {member.name for member in archive.getmembers() if member.isfile()}


# -- what is in it -------------------------------------------------------------------------


def test_it_has_what_a_user_needs_and_nothing_else(project: Project, packed: set[str]) -> None:
    assert packed - tracked() == OF_THE_BUILD
    top = {name.split("/")[0] for name in packed - OF_THE_BUILD}
    assert top - {"changelogs"} == TOP
    assert {name for name in packed if name.startswith("changelogs/")} <= {"changelogs/changelog.yaml"}
    assert {name for name in packed if "tests" in pathlib.PurePath(name).parts} == set()
    assert project.artifact.stat().st_size < MOST_BYTES


@pytest.mark.parametrize(
    "folder", ["examples", "inventory", "meta", "packer", "playbooks", "plugins", "roles", "scripts"]
)
def test_nothing_of_these_folders_is_left_out(folder: str, packed: set[str]) -> None:
    kept = {name for name in tracked() if name.startswith(f"{folder}/") and (ROOT / name).is_file()}
    assert kept
    assert kept - packed == set()


def test_its_pages_are_those_that_are_looked_at_for_commands_of_a_checkout(packed: set[str]) -> None:
    assert {name for name in packed if name.endswith(".md")} == {*PACKED}


def test_the_requirements_of_an_execution_environment_install_it(
    project: Project, tmp_path: pathlib.Path
) -> None:
    """With the change for an archive in its comment."""
    page = (ROOT / "docs/guide/operations.md").read_text(encoding="utf-8")
    [block] = re.findall(r"^```yaml\n(version: 3\n.*?)```", page, re.MULTILINE | re.DOTALL)
    assert "the path of the archive, with `type: file`" in block
    [wanted] = yaml.safe_load(block)["dependencies"]["galaxy"]["collections"]
    assert wanted["name"] == "mlnode.tuning"
    wanted |= {"name": str(project.artifact), "type": "file"}
    (tmp_path / "requirements.yml").write_text(yaml.safe_dump({"collections": [wanted]}), encoding="utf-8")
    another = Project(tmp_path, project.artifact)

    words = ("-r", "requirements.yml", "-p", "collections", "--offline")
    done = another.run("ansible-galaxy", "collection", "install", *words)

    assert done.returncode == 0, done.stderr
    assert (another.collection / "MANIFEST.json").is_file()


def test_every_path_in_its_pages_is_in_it_too(packed: set[str]) -> None:
    there = packed | {str(folder) for name in packed for folder in pathlib.PurePath(name).parents}
    links = {
        f"{name}: {link}"
        for name in packed
        if name.endswith(".md")
        for link, _anchor in LINK.findall(CODE.sub("", (ROOT / name).read_text(encoding="utf-8")))
        if link and os.path.normpath(os.path.join(os.path.dirname(name), link)) not in there
    }
    assert links == set()


def test_it_is_what_galaxy_looks_for(project: Project) -> None:
    manifest = json.loads((project.collection / "MANIFEST.json").read_text(encoding="utf-8"))[
        "collection_info"
    ]
    assert (project.collection / manifest["readme"]).is_file()
    assert manifest["dependencies"] == {}
    # One license text at the top, and a README in every role.
    assert (project.collection / "COPYING").is_file()
    roles = [path for path in (project.collection / "roles").iterdir() if path.is_dir()]
    assert roles
    assert all((path / "README.md").is_file() for path in roles)


# -- what it does --------------------------------------------------------------------------


def of_this_machine() -> list[bool]:
    """What the agent would leave behind. Values of the kernel are compared in tests/system, as the scenarios
    beside this test change those that containers share with this machine."""
    paths = ("/etc/mlnode", "/var/lib/mlnode", "/usr/local/bin/mlnode")
    return [pathlib.Path(path).exists() for path in paths]


def test_a_preview_of_this_machine(project: Project) -> None:
    before = of_this_machine()
    done = project.play("mlnode.tuning.site", "--check", "--diff")

    assert of_this_machine() == before

    assert done.returncode == 0, done.stdout + done.stderr
    assert "FLEET REPORT" in done.stdout
    assert re.search(r"^site\.yml \(check mode\): 1 host: ", done.stdout, re.MULTILINE)
    assert "vm.swappiness" in done.stdout


def test_a_look_at_what_a_revert_would_do(project: Project) -> None:
    done = project.play("mlnode.tuning.revert", "--check")

    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"^node1 .* failed=0 ", done.stdout, re.MULTILINE)


def test_every_playbook_is_found_by_name(project: Project) -> None:
    """By one start of Ansible, which is most of what it takes."""
    names = sorted(path.stem for path in ROOT.glob("playbooks/*.yml"))

    done = project.play(*(f"mlnode.tuning.{name}" for name in names), "--syntax-check")

    assert done.returncode == 0, done.stderr
    found = re.findall(r"^playbook: (.+)$", done.stdout, re.MULTILINE)
    assert [pathlib.Path(path) for path in found] == [
        project.collection / f"playbooks/{name}.yml" for name in names
    ]


def test_a_play_of_ones_own_names_a_role(project: Project) -> None:
    roles = sorted({"node", *PROFILES.values()} - {"fabric"})
    plays = [
        {
            "name": f"Play {role}",
            "hosts": "training",
            "gather_facts": False,
            "tasks": [{"ansible.builtin.import_role": {"name": f"mlnode.tuning.{role}"}}],
        }
        for role in roles
    ]
    path = project.folder / "roles.yml"
    path.write_text(yaml.safe_dump(plays), encoding="utf-8")

    done = project.play(path.name, "--check")

    assert done.returncode == 0, done.stdout + done.stderr
    _before, *played = re.split(r"^PLAY \[Play (\w+)\].*$", done.stdout, flags=re.MULTILINE)
    assert played[::2] == roles
    for said in played[1::2]:
        assert "TASK [mlnode.tuning.node : Declare the node]" in said


def test_the_documentation_is_found_by_name(project: Project) -> None:
    kinds = {
        "module": {path.stem for path in (ROOT / "plugins/modules").glob("*.py")} - {"__init__"},
        "role": {"monitoring", "node", *PROFILES.values()},
        "callback": {"fleet_report"},
        "filter": {path.stem for path in (ROOT / "plugins/filter").glob("*.py")} - {"__init__"},
    }
    for kind, names in kinds.items():
        full = sorted(f"mlnode.tuning.{name}" for name in names)
        done = project.run("ansible-doc", "--json", "--type", kind, *full)
        assert done.returncode == 0, done.stderr
        assert sorted(json.loads(done.stdout)) == full, kind


def test_results_are_compared_and_merged_as_the_guide_says(project: Project) -> None:
    """With the lines of docs/guide/results.md, in an inventory whose variables only a password opens."""
    campaigns_ = project.folder / "campaigns"
    campaigns_.mkdir()
    for day in (1, 7):
        content = campaigns.campaign(8, day, slow={"gpu003": 0.8} if day == 7 else {})
        (campaigns_ / f"2026110{day}-030000.json").write_text(json.dumps(content), encoding="utf-8")
    (project.folder / "reports").mkdir(exist_ok=True)
    report = "".join(document.lines(fleets.mixed()))
    (project.folder / "reports/slice1.json").write_text(report, encoding="utf-8")
    (project.folder / "fleet/group_vars").mkdir(parents=True)
    hosts = {"training": {"hosts": {"gpu[001:008]": {}}}}
    (project.folder / "fleet/hosts.yml").write_text(yaml.safe_dump(hosts), encoding="utf-8")
    (project.folder / "fleet/group_vars/training.yml").write_text("$ANSIBLE_VAULT;1.1;AES256\n6162\n")
    guide = (ROOT / "docs/guide/results.md").read_text(encoding="utf-8")

    def typed(words: str, status: int) -> str:
        assert f"$ {SETUP}\n" in guide
        assert f"$ {words}\n" in guide
        done = project.run("/bin/sh", "-c", f"export ANSIBLE_INVENTORY=fleet/hosts.yml\n{SETUP}\n{words}")
        assert done.returncode == status, done.stderr
        return done.stdout

    said = typed("mlnode-results compare campaigns/20261101-030000.json campaigns/20261107-030000.json", 3)
    assert "worse: 8 nodes: 1 worse, 7 same" in said
    assert "worse: 8 nodes: 1 worse, 7 same" in typed("mlnode-results trend campaigns", 3)
    said = typed(
        "mlnode-results merge reports/slice*.json campaigns/20261107-030000.json "
        "-o reports/all.json --html reports/all.html", 3,
    )  # fmt: skip
    assert "2 never answered" in said
    found = json.loads((project.folder / "reports/all.json").read_text(encoding="utf-8"))
    assert [host["name"] for host in found["hosts"]] == [f"gpu{number:03}" for number in range(1, 9)]
    assert (project.folder / "reports/all.html").is_file()


# -- its examples --------------------------------------------------------------------------


def test_the_example_inventory_is_one(project: Project) -> None:
    done = project.run("ansible-inventory", "-i", str(project.collection / "inventory/example"), "--list")

    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert {*PROFILES} <= {*found}
    assert found["_meta"]["hostvars"]["gpu001.example"]["fabric_qos_preset"] == "nvidia"


def test_a_rollout_in_steps(project: Project) -> None:
    """By the path that the README and the guides have: of a project with an installed collection."""
    pages = ("README.md", "docs/guide/fleets.md")
    named = [
        path
        for page in pages
        for path in re.findall(r"-e (@\S*rollout\.yml)", (ROOT / page).read_text(encoding="utf-8"))
    ]
    assert len(named) == len(pages)
    (steps,) = {*named}

    done = project.play("mlnode.tuning.site", "--list-hosts", "-e", steps)

    assert done.returncode == 0, done.stderr
    assert "node1" in done.stdout


def test_packer_takes_its_template(project: Project, tmp_path: pathlib.Path) -> None:
    """With all that it names, and with Ansible itself."""
    assert validated(program(tmp_path), project.collection / "packer" / JSON.name) == (0, "")
