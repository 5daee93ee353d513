# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the machine that runs the lab has to have: what is missing is installed, or else named."""

from __future__ import annotations

import os
import pathlib
import platform
import shutil
import subprocess

from .build import LabError, cache

#: Program → Debian package. Everything else comes with the root file systems that are built.
_PROGRAMS = {"mmdebstrap": "mmdebstrap", "ssh": "openssh-client", "unshare": "util-linux"}

#: Ubuntu's mmdebstrap does not bring it along.
_KEYRING = pathlib.Path("/usr/share/keyrings/debian-archive-keyring.gpg")

#: What a full cache takes
_GIBIBYTES = 5


def unusable() -> str:
    """Why no lab machine can run here, or an empty string."""
    if platform.system() != "Linux" or platform.machine() != "x86_64":
        return (
            f"lab machines are 64-bit PCs on Linux, and this is {platform.system()} on {platform.machine()}"
        )
    if not shutil.which("ssh"):
        return "no ssh client (Debian: openssh-client)"
    return ""


def prepare() -> None:
    """Make this machine able to build the lab. Raises LabError with what is missing."""
    if platform.system() != "Linux" or platform.machine() != "x86_64":
        raise LabError(unusable())
    missing = [package for program, package in _PROGRAMS.items() if not shutil.which(program)]
    if not _KEYRING.exists():
        missing.append("debian-archive-keyring")
    if os.geteuid() != 0:
        also = f", and needs {', '.join(missing)}" if missing else ""
        raise LabError(f"building root file systems takes root{also}. Try: sudo -E make lab")
    if missing:
        _install(missing)
    cache().mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(cache()).free >> 30
    if free < _GIBIBYTES:
        raise LabError(f"{cache()} has {free} GiB left and the lab takes {_GIBIBYTES}; MLNODE_CACHE moves it")


def _install(packages: list[str]) -> None:
    if not shutil.which("apt-get"):
        raise LabError(f"missing: {', '.join(packages)}. Install them with this system's package manager.")
    print(f"lab: installing with apt-get: {' '.join(packages)}", flush=True)
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for words in (["-qq", "update"], ["-q", "install", "-y", "--no-install-recommends", *packages]):
        done = subprocess.run(["apt-get", *words], env=environment, stdin=subprocess.DEVNULL, check=False)
        if done.returncode != 0:
            raise LabError(f"apt-get {' '.join(words)} ended with {done.returncode}")
