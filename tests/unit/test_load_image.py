# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The image of `make molecule IMAGE=PATH`, with a podman that notes its arguments."""

from __future__ import annotations

import os
import pathlib
import subprocess
import tarfile
import tempfile

import pytest
from ansible_collections.mlnode.tuning.tests.unit.roles import ROOT

SCRIPT = ROOT / "molecule/shared/load_image.sh"
NAME = "localhost/given"


class Loader:
    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder
        self.log = folder / "log"
        (folder / "bin").mkdir()
        self.podman()

    def podman(self, missing: str = "", fails: str = "nothing") -> None:
        """missing: of the image. fails: a word of the command that it refuses."""
        program = self.folder / "bin/podman"
        program.write_text(
            rf"""#!/bin/sh
printf '%s|' "$@" >>{self.log}; echo >>{self.log}
case " $* " in *" {fails} "*) echo first; echo "no such layer"; exit 125 ;; esac
case "$1 $*" in
    "import "*\ -) cat >/dev/null; echo 0123 ;;
    import\ * | load\ * | pull\ *) echo "Loaded image: 0123" ;;
    *missing*) echo "missing:{missing}" ;;
esac
"""
        )
        program.chmod(0o755)

    def load(self, path: pathlib.Path) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "PATH": f"{self.folder}/bin:{os.environ['PATH']}"}
        words = [SCRIPT, path, NAME, "a hook"]
        return subprocess.run(
            words, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )

    def tar(self, *names: str) -> pathlib.Path:
        path = self._new() / "node.tar.gz"
        with tarfile.open(path, "w:gz") as archive:
            for name in names:
                archive.addfile(tarfile.TarInfo(name))
        return path

    def tree(self, *names: str) -> pathlib.Path:
        folder = self._new()
        for name in names:
            (folder / name).mkdir()
        return folder

    def _new(self) -> pathlib.Path:
        return pathlib.Path(tempfile.mkdtemp(dir=self.folder))


@pytest.fixture
def loader(tmp_path: pathlib.Path) -> Loader:
    return Loader(tmp_path)


def test_each_form_is_read_by_its_command(loader: Loader) -> None:
    for path, command in (
        (loader.tar("oci-layout", "index.json", "blobs/sha256/0"), "load|--quiet|--input|{path}|"),
        (loader.tar("manifest.json", "0.tar"), "load|--quiet|--input|{path}|"),
        (loader.tar("./etc/os-release", "./usr/bin/sh"), "import|--quiet|{path}|"),
        (loader.tree("etc", "usr"), "import|--quiet|-|"),
        (loader.tree("oci-layout"), "pull|--quiet|oci:{path}|"),
    ):
        done = loader.load(path)
        log = loader.log.read_text().splitlines()
        loader.log.unlink()

        assert (done.returncode, done.stdout) == (0, f"{path} is the image {NAME}\n"), done.stderr
        assert log[:2] == [command.format(path=path), f"tag|0123|{NAME}-work|"]
        assert any(line.startswith("commit|") and line.endswith(f"|{NAME}|") for line in log)
        assert log[-1] == f"rmi|{NAME}-work|"


def test_another_path_is_refused_before_podman_runs(loader: Loader) -> None:
    text = loader.folder / "text"
    text.write_text("FROM scratch\n")
    for path, words in (
        (loader.folder / "nowhere", "no such file or folder"),
        (text, "expected a tar archive"),
        (loader.tar("var/usr/x", "a/manifest.json"), "expected a root file system (usr/) or an image"),
        (loader.tree("usr"), "expected a root file system or an OCI layout"),
    ):
        done = loader.load(path)
        assert done.returncode == 1
        assert done.stderr.startswith(f"IMAGE={path}: {words}")
        assert done.stderr.count("\n") == 1
        assert not loader.log.exists()


def test_an_image_without_a_program_is_refused(loader: Loader) -> None:
    loader.podman(missing=" systemd (/sbin/init), sudo,")
    path = loader.tar("usr/bin/sh")
    done = loader.load(path)
    words = "the image lacks systemd (/sbin/init), sudo; install them in it"
    assert (done.returncode, done.stderr) == (1, f"IMAGE={path}: {words}\n")
    assert "commit" not in loader.log.read_text()


@pytest.mark.parametrize(
    ("fails", "words"),
    [
        ("import", "podman cannot read it: no such layer"),
        ("--rm", "its /bin/sh does not run: no such layer"),
        ("-ec", "it cannot be prepared for the scenarios: no such layer"),
    ],
)
def test_the_last_line_of_podman_is_the_reason(loader: Loader, fails: str, words: str) -> None:
    loader.podman(fails=fails)
    path = loader.tar("usr/bin/sh")
    done = loader.load(path)
    assert (done.returncode, done.stderr) == (1, f"IMAGE={path}: {words}\n")
    assert "commit" not in loader.log.read_text()
