# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Programs that tests need, from the archive of Debian or Ubuntu where root runs them."""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess

#: Seconds to wait for another worker of pytest that installs a package
PATIENCE = 300


def install(*words: str) -> bool:
    """Packages, and options of `apt-get install`. False where that cannot be done here."""
    if os.geteuid() or not shutil.which("apt-get"):
        return False
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    lock = f"DPkg::Lock::Timeout={PATIENCE}"
    for command in (["update"], ["install", "-y", "--no-install-recommends", *words]):
        given = ["apt-get", "-qq", "-o", lock, *command]
        subprocess.run(given, env=environment, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    return True


def unpacked(folder: str, *names: str) -> bool:
    """The files of packages below a folder, for programs that would be started as a service where they are
    installed; False where that cannot be done here."""
    if not shutil.which("apt-get") or not shutil.which("dpkg-deb"):
        return False
    for words in (["update"], ["download", *names]):
        subprocess.run(["apt-get", "-qq", *words], cwd=folder, capture_output=True, check=False)
    archives = [name for name in os.listdir(folder) if name.endswith(".deb")]
    for name in archives:
        subprocess.run(["dpkg-deb", "--extract", name, "."], cwd=folder, check=True)
    return len(archives) == len(names)


def with_needed(folder: pathlib.Path, *names: str) -> pathlib.Path:
    """Root folder with the files of packages and of all that they need and that is not installed here."""
    archives, root = folder / "archives", folder / "root"
    (archives / "partial").mkdir(parents=True)
    root.mkdir()
    install(*names, "--download-only", f"-oDir::Cache::archives={archives}")
    for path in archives.glob("*.deb"):
        subprocess.run(["dpkg-deb", "--extract", path, root], check=True)
    return root
