# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node without a disk in namespaces: a read-only root, and /etc and /var in memory, which each boot fills
from an image. The kernel and the agent are real; tests/lab/test_stateless.py has systemd, too."""

from __future__ import annotations

import json
import pathlib
import re
import subprocess
import sys
from typing import Any

import pytest

from . import stateless
from .namespaces import ENVIRONMENT, ROOT, need, needs_root, on_disk

pytestmark = [needs_root]
tmp_path = on_disk

#: A root without the markers of a container that this machine may have (/.dockerenv)
BOOT = """\
set -e
mount --make-rprivate /
mount -t tmpfs -o mode=755 root /mnt
for path in /*; do
    if [ -L "$path" ]; then
        cp -a "$path" /mnt/
    elif [ -d "$path" ]; then
        mkdir "/mnt$path"
        case "$path" in
            /mnt | /proc) ;;
            /etc | /var | /run) mount -t tmpfs -o mode=755 "${path#/}" "/mnt$path" ;;
            *) mount --rbind "$path" "/mnt$path" ;;
        esac
    fi
done
mount -t tmpfs -o mode=755 local /mnt/usr/local
for top in etc var usr/local; do cp -a "$1/$top/." "/mnt/$top/"; done
mkdir -p /mnt/run/systemd/system
mount -t proc proc /mnt/proc
mount -o remount,bind,ro /mnt/usr/local
mount -o remount,bind,ro /mnt/usr
mount -o remount,ro /mnt
exec chroot /mnt sh -c "$2"
"""
#: As systemd-sysctl does
SYSCTL = 'for file in /etc/sysctl.d/zz-mlnode-*.conf; do [ ! -e "$file" ] || sysctl -q -p "$file"; done'
STATUS = "mlnode status --json"
#: Without the variables by which process 1 would look like one of a container
CLEAN = {name: ENVIRONMENT[name] for name in ("PATH", "PYTHONPATH")}


@pytest.fixture
def image(tmp_path: pathlib.Path) -> pathlib.Path:
    root = tmp_path / "image"
    for folder in ("var/lib", "usr/local/bin", "run/systemd/system"):
        (root / folder).mkdir(parents=True)
    subprocess.run(["cp", "-a", "/etc", str(root)], check=True)
    return root


def declare(root: pathlib.Path, *layers: str) -> None:
    words = [sys.executable, stateless.__file__, str(root), *layers]
    subprocess.run(words, env=CLEAN, check=True, timeout=120)


def booted(image: pathlib.Path, script: str) -> str:
    """The output of a script on a node of the image, which is gone after it."""
    words = ["unshare", "--mount", "--net", "--pid", "--fork", "sh", "-c", BOOT, "sh"]
    words += [str(image), f"set -e\n{SYSCTL}\n{script}"]
    done = subprocess.run(words, env=CLEAN, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def pack(image: pathlib.Path, folder: pathlib.Path) -> None:
    """The commands of the guide, in the image, with a folder in the place of /tmp."""
    need("jq", "jq")
    page = (ROOT / "docs/guide/image.md").read_text(encoding="utf-8").partition("## Nodes without a disk")[2]
    for command in re.findall(r"^# (?!cd )(.+)$", page.partition("## At")[0], re.MULTILINE):
        words = ["bash", "-o", "pipefail", "-c", command.replace("/tmp/", f"{folder}/")]
        subprocess.run(words, cwd=image, check=True)


def rows(text: str) -> dict[str, dict[str, Any]]:
    return {row["key"]: row for row in json.loads(text)["settings"]}


def test_it_forgets_what_it_was_told_as_it_ran(image: pathlib.Path) -> None:
    declare(image)
    told = rows(booted(image, f"{sys.executable} {stateless.__file__} / runtime boot; {STATUS} || true"))
    assert {*told} >= {*stateless.SETTINGS, "agent.boot"}
    for row in told.values():
        assert (row["status"], row["boot"]) == ("drifted", None)
        assert "lost at the next boot" in row["reason"]
    assert booted(image, "ls /etc/mlnode/declared.d 2>/dev/null || true") == ""
    assert booted(image, "cat /proc/sys/net/core/somaxconn") != "7777\n"


def test_with_the_recipe_each_boot_is_right(image: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """Its archive is an overlay for the image without the declaration; the agent is in /usr of both."""
    node = tmp_path / "node"
    subprocess.run(["cp", "-a", str(image), str(node)], check=True)
    declare(image, "boot")
    unlisted = rows(booted(image, f"{STATUS} || true"))
    assert {row["status"] for row in unlisted.values()} == {"drifted"}
    pack(image, tmp_path)
    subprocess.run(["tar", "-xf", str(tmp_path / "mlnode.tar"), "-C", str(node)], check=True)
    subprocess.run(["cp", "-a", str(image / "usr"), str(node)], check=True)
    seen = []
    for _boot in range(2):
        script = f"mlnode apply >&2; mlnode check >&2; {STATUS}"
        told = rows(booted(node, script))
        assert {row["status"] for row in told.values()} == {"ok"}
        seen.append({key: (row["runtime"], row["origin"]) for key, row in told.items()})
    assert seen[0] == seen[1]
    assert seen[0]["net.core.somaxconn"] == ("7777", None), "the image's file has set it, not the owner"
