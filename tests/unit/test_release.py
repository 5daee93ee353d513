# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""tools/release.sh in a repository of its own: what it refuses, a dry run, and a release."""

from __future__ import annotations

import hashlib
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator

import pytest
from ansible_collections.mlnode.tuning.tests.unit.roles import ROOT, load
from ansible_collections.mlnode.tuning.tests.unit.test_links import tracked

VERSION: str = load("galaxy.yml")["version"]
ARCHIVE = f"mlnode-tuning-{VERSION}.tar.gz"
LIBRARY = "plugins/module_utils/_mlnode/model/version.py"
NOTE = "minor_changes:\n  - sysctl_ml - a note of the test.\n"

#: For what is not about the archive: packs what is played of the last commit, and unpacks it to install it
GALAXY = f"""#!/bin/sh
echo "ansible-galaxy $2" >>"$CALLED"
case $2 in
    build) exec git archive --output "$4/{ARCHIVE}" HEAD galaxy.yml meta playbooks plugins roles ;;
    install)
        mkdir -p collections/ansible_collections/mlnode/tuning
        exec tar --extract --gzip --file "$3" --directory collections/ansible_collections/mlnode/tuning ;;
esac
"""
#: Only notes that it was called, and knows of no plugins where antsibull-changelog asks for them
NOTED = """#!/bin/sh
echo "${0##*/} $1" >>"$CALLED"
if [ "$1" = --metadata-dump ]; then echo '{"all": {}}'; fi
"""


class Repository:
    """The working tree, committed once on main. home: of git, Ansible and GnuPG, nothing of this user."""

    def __init__(self, folder: pathlib.Path, home: pathlib.Path) -> None:
        self.folder = folder
        path = f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"
        self.environment = {"PATH": path, "HOME": str(home), "GNUPGHOME": str(home), "LANG": "C.UTF-8"}

    def git(self, *words: str) -> str:
        done = subprocess.run(
            ["git", *words], cwd=self.folder, env=self.environment, capture_output=True, text=True, check=True
        )
        return done.stdout.strip()

    def release(self, *words: str) -> tuple[int, str]:
        done = subprocess.run(
            ["tools/release.sh", *words],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout

    def state(self) -> list[str]:
        files = (path for path in self.folder.rglob("*") if ".git" not in path.parts and path.is_file())
        sums = (f"{path} {hashlib.sha256(path.read_bytes()).hexdigest()}" for path in files)
        return [self.git("rev-parse", "HEAD"), self.git("tag"), *sorted(sums)]

    def stand_in(self, **programs: str) -> pathlib.Path:
        """Programs that come before those of this environment. The file in which they note their calls."""
        folder, called = self.folder.parent / "programs", self.folder.parent / "called"
        folder.mkdir()
        for name, text in programs.items():
            path = folder / name.replace("_", "-")
            path.write_text(text, encoding="utf-8")
            path.chmod(0o755)
        self.environment |= {"PATH": f"{folder}:{self.environment['PATH']}", "CALLED": str(called)}
        return called

    def replace(self, name: str, was: str, becomes: str) -> None:
        path = self.folder / name
        text = path.read_text(encoding="utf-8")
        assert was in text
        path.write_text(text.replace(was, becomes), encoding="utf-8")


@pytest.fixture
def home() -> Iterator[pathlib.Path]:
    # Short, as GnuPG has a socket in it, whose path may have 107 characters, unix(7).
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="mlnode-") as name:
        yield pathlib.Path(name)
        if shutil.which("gpgconf"):
            environment = {**os.environ, "GNUPGHOME": name}
            subprocess.run(["gpgconf", "--kill", "all"], env=environment, check=False)


@pytest.fixture(scope="module")
def committed(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    """From which each test has a copy."""
    folder = tmp_path_factory.mktemp("committed")
    made = Repository(folder / "checkout", folder)
    for name in tracked() - {"."}:
        if name.startswith("tests/"):
            continue  # half of the files, and no part of a release
        source, target = ROOT / name, made.folder / name
        if source.is_symlink() or source.is_file():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target, follow_symlinks=False)
    # Whatever notes there are now, after a release none
    (made.folder / "changelogs/fragments").mkdir(exist_ok=True)
    (made.folder / "changelogs/fragments/test.yml").write_text(NOTE, encoding="utf-8")
    made.git("init", "--quiet", "--initial-branch=main")
    made.git("config", "user.name", "maintainer")
    made.git("config", "user.email", "maintainer@example.org")
    commit(made)
    return made


@pytest.fixture
def repository(committed: Repository, tmp_path: pathlib.Path, home: pathlib.Path) -> Repository:
    made = Repository(tmp_path / "checkout", home)
    shutil.copytree(committed.folder, made.folder, symlinks=True)
    return made


def commit(repository: Repository) -> None:
    repository.git("add", "--all")
    repository.git("commit", "--quiet", "--message", "Test")


NEXT = "99.0.0"


@pytest.mark.parametrize(
    ("name", "was", "becomes", "message"),
    [
        (
            "galaxy.yml",
            f"version: {VERSION}\n",
            f"version: {NEXT}\n",
            f"galaxy.yml has {NEXT}, {LIBRARY} has",
        ),
        (LIBRARY, f'"{VERSION}"', f'"{NEXT}"', f"galaxy.yml has {VERSION}, {LIBRARY} has"),
        ("execution-environment.yml", VERSION, NEXT, f"execution-environment.yml has mlnode-tuning-{NEXT}"),
        ("galaxy.yml", f"version: {VERSION}\n", "version: 1.0\n", "'1.0' is not of the form"),
    ],
)
def test_versions_that_differ_are_refused(
    repository: Repository, name: str, was: str, becomes: str, message: str
) -> None:
    repository.replace(name, was, becomes)
    commit(repository)
    before = repository.state()

    code, words = repository.release("--dry-run")

    assert (code, repository.state()) == (1, before)
    assert message in words


def test_what_is_not_committed_is_refused(repository: Repository) -> None:
    (repository.folder / "new.txt").write_text("new\n", encoding="utf-8")
    assert repository.release("--dry-run") == (
        1,
        "release: error: files are changed or untracked here (git status): commit or remove them\n",
    )
    commit(repository)
    repository.replace("README.md", "mlnode", "other")
    assert repository.release("--dry-run")[0] == 1


def test_another_branch_a_version_that_is_there_and_no_notes_are_refused(repository: Repository) -> None:
    repository.git("switch", "--quiet", "--create", "topic")
    assert repository.release() == (1, "release: error: on topic: a release is made of main\n")
    repository.git("switch", "--quiet", "main")

    repository.git("tag", f"v{VERSION}")
    code, words = repository.release()
    assert code == 1
    assert f"v{VERSION} is there already" in words
    repository.git("tag", "--delete", f"v{VERSION}")

    for path in repository.folder.glob("changelogs/fragments/*"):
        path.unlink()
    commit(repository)
    code, words = repository.release()
    assert code == 1
    assert "a release has notes" in words


def test_a_dry_run_does_it_all_and_changes_nothing(repository: Repository) -> None:
    repository.git("checkout", "--quiet", "--detach")  # as the checkout of a forge
    # As they are, they make the release of the last test.
    called = repository.stand_in(ansible_galaxy=GALAXY, ansible_playbook=NOTED, ansible_doc=NOTED)
    before = repository.state()

    code, words = repository.release("--dry-run")

    assert code == 0, words
    calls = called.read_text(encoding="utf-8").splitlines()
    assert [call for call in calls if not call.endswith("--metadata-dump")] == [
        *(f"ansible-galaxy {what}" for what in ("build", "install", "verify")),
        *("ansible-playbook -i", "ansible-doc --type"),
    ]
    assert f"verify {ARCHIVE}" in words
    assert "not signed" in words
    assert f"## v{VERSION}".replace(".", "\\.") in words
    assert repository.state() == before


@pytest.mark.long
def test_a_release_that_fails_changes_nothing(repository: Repository) -> None:
    # The first one that is read
    repository.replace("playbooks/bake.yml", "gather_facts: false", "gather_fact: false")
    commit(repository)
    repository.stand_in(ansible_galaxy=GALAXY, ansible_doc=NOTED)
    before = repository.state()

    code, words = repository.release()

    assert code != 0
    assert "bake.yml" in words
    assert repository.state() == before


@pytest.mark.long
def test_a_release_is_a_commit_a_tag_and_a_signed_archive(
    repository: Repository, home: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    if not shutil.which("gpg"):
        pytest.skip("there is no gpg here to make a key with")
    gpg = ["gpg", "--batch", "--quiet", "--passphrase", "", "--pinentry-mode", "loopback"]
    made = ["--quick-generate-key", "maintainer@example.org", "ed25519", "sign", "1d"]
    subprocess.run([*gpg, *made], env=repository.environment, check=True, capture_output=True)
    repository.git("config", "user.signingkey", "maintainer@example.org")
    before = repository.git("rev-parse", "HEAD")

    code, words = repository.release()

    assert code == 0, words
    assert repository.git("status", "--porcelain") == ""
    assert repository.git("rev-parse", "HEAD~1") == before
    assert repository.git("log", "-1", "--format=%s %G?") == f"Release {VERSION} G"
    assert repository.git("rev-parse", f"v{VERSION}^{{commit}}") == repository.git("rev-parse", "HEAD")
    repository.git("verify-tag", f"v{VERSION}")
    changed = repository.git("diff", "--name-only", "HEAD~1").splitlines()
    assert [name for name in changed if not name.startswith("changelogs/fragments/")] == [
        "CHANGELOG.md",
        "changelogs/changelog.yaml",
    ]
    assert "a note of the test" in (repository.folder / "CHANGELOG.md").read_text(encoding="utf-8")
    assert [*(repository.folder / "changelogs/fragments").glob("*")] == []

    archive = repository.folder / ARCHIVE
    total, name = (repository.folder / f"{ARCHIVE}.sha256").read_text(encoding="ascii").split()
    assert (total, name) == (hashlib.sha256(archive.read_bytes()).hexdigest(), ARCHIVE)
    with tarfile.open(archive) as packed:
        names = set(packed.getnames())
    assert "changelogs/changelog.yaml" in names
    assert not {name for name in names if "/." in f"/{name}"}
    # The signature is that of the manifest, as Ansible wants it, and no other text has it.
    with tarfile.open(archive) as packed:
        manifest = packed.extractfile("MANIFEST.json")
        assert manifest is not None
        text = manifest.read()
    for content, expected in ((text, True), (text + b" ", False)):
        (tmp_path / "MANIFEST.json").write_bytes(content)
        verify = ["gpg", "--batch", "--verify", f"{archive}.asc", str(tmp_path / "MANIFEST.json")]
        done = subprocess.run(verify, env=repository.environment, capture_output=True, check=False)
        assert (done.returncode == 0) is expected
    published_by_the_forge(repository)


def published_by_the_forge(repository: Repository) -> None:
    """What the workflow looks at before it builds: the tag, and the change log that antsibull has written."""
    [job] = load(".github/workflows/release.yml")["jobs"].values()
    [script] = [step["run"] for step in job["steps"] if "GITHUB_REF_NAME" in step.get("run", "")]
    # The build itself is the one that has just been made.
    (repository.folder / ".venv-test/bin").mkdir(parents=True)
    (repository.folder / ".venv-test/bin/ansible-galaxy").symlink_to("/bin/true")

    def status(tag: str) -> int:
        environment = {**repository.environment, "GITHUB_REF_NAME": tag}
        command = ["bash", "-e", "-c", script]
        return subprocess.run(command, cwd=repository.folder, env=environment, check=False).returncode

    assert status(f"v{VERSION}") == 0
    assert status(VERSION) != 0
    repository.replace("changelogs/changelog.yaml", f"  {VERSION}:", f"  {NEXT}:")
    assert status(f"v{VERSION}") != 0
