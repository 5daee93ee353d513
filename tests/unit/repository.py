# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A repository of git, for what clones the collection."""

from __future__ import annotations

import pathlib
import shutil
import subprocess

from ansible_collections.mlnode.tuning.tests.unit.roles import ROOT, load


def made(folder: pathlib.Path) -> str:
    """Its URL. It has what git knows or would add of this checkout, as it is now, in a commit with a tag."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    for name in {*listed.stdout.split("\0")} - {""}:
        if (ROOT / name).is_file() and not name.startswith("tests/"):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    commit = ["-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "--quiet", "--message", "a"]
    # As tools/release.sh names it
    tag = ["tag", f"v{load('galaxy.yml')['version']}"]
    for words in (["init", "--quiet"], ["add", "--all"], commit, tag):
        subprocess.run(["git", *words], cwd=folder, check=True)
    return f"file://{folder}"
