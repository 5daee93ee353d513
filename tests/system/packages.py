# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Programs that tests need, from the archive of Debian or Ubuntu where root runs them."""

from __future__ import annotations

import os
import shutil
import subprocess

#: Seconds to wait for another worker of pytest that installs a package
PATIENCE = 300


def install(package: str) -> bool:
    """False where that cannot be done here."""
    if os.geteuid() or not shutil.which("apt-get"):
        return False
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    lock = f"DPkg::Lock::Timeout={PATIENCE}"
    for words in (["update"], ["install", "-y", "--no-install-recommends", package]):
        command = ["apt-get", "-qq", "-o", lock, *words]
        subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    return True
