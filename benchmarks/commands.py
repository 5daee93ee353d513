# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Costs of a check on a node itself, compared with the start of a Python and with tuned."""

from __future__ import annotations

import json
import pathlib
import time
from collections.abc import Callable
from typing import Any

import yaml

from ..plugins.module_utils._mlnode.engine.units import NIC_FLAG, NIC_SERVICE
from ..plugins.module_utils._mlnode.host.places import RUN_LOCK
from .fleet import ROOT, Fleet, podman
from .measure import BenchError

NODE = "mlnode-bench-tuned"

#: A container has no NIC to set. The value is one of its network, which the service sets as well.
EVENT = "event of a NIC until its run has ended"

#: Commands on a node with the profile training, timed with the node's clock
COMMANDS = {
    "python3 -c pass": ["python3", "-c", "pass"],
    "mlnode --version": ["mlnode", "--version"],
    "mlnode check": ["mlnode", "check"],
    "mlnode metrics --print": ["mlnode", "metrics", "--print"],
    "mlnode apply": ["mlnode", "apply"],
    "mlnode-apply.service": ["mlnode-apply.service"],
    EVENT: [NIC_SERVICE, NIC_FLAG, "/proc/sys/net/ipv4/tcp_keepalive_time", RUN_LOCK],
    "tuned-adm verify": ["tuned-adm", "verify"],
}

_PROFILE = "mlnode-bench"

#: For the daemon to have applied its profile, in seconds
_PATIENCE = 30


def recipe() -> dict[str, Any]:
    """The image of the other containers with tuned and a profile with the settings of the peer's loop."""
    shared = yaml.safe_load((ROOT / "molecule/shared/vars/lab.yml").read_text(encoding="utf-8"))["lab_recipe"]
    play = yaml.safe_load((ROOT / "benchmarks/plays/peer.yml").read_text(encoding="utf-8"))
    given = play[0]["vars"]["settings"].items()
    settings = "".join(f"{key}={value}\\n" for key, value in given)
    profile = f"[sysctl]\\n{settings}[vm]\\ntransparent_hugepages=madvise\\n"
    folder = f"/etc/tuned/profiles/{_PROFILE}"
    hooks = [
        f'mkdir -p "$1{folder}"',
        f"printf '{profile}' > \"$1{folder}/tuned.conf\"",
        f'echo {_PROFILE} > "$1/etc/tuned/active_profile"',
        'echo manual > "$1/etc/tuned/profile_mode"',
    ]
    return {**shared, "packages": [*shared["packages"], "tuned"], "hooks": [*shared["hooks"], *hooks]}


def commands(made: Fleet, rounds: int, say: Callable[[str], None]) -> dict[str, Any]:
    """Command → figures."""
    say("commands on a node")
    podman("exec", NODE, "systemctl", "start", "tuned")  # the scenarios' image leaves it disabled
    _wait()
    script = pathlib.Path(__file__).with_name("inside.py").read_bytes()
    answer = podman(
        "exec",
        "--interactive",
        made.names[0],
        "python3",
        "-",
        json.dumps(COMMANDS),
        str(rounds),
        given=script,
    )
    found: dict[str, Any] = json.loads(answer)
    for name, figures in found.items():
        # Both may find drift in a container; any other status is a failure, which would be fast.
        if figures["status"] not in (0, 1 if name == "tuned-adm verify" else 3):
            raise BenchError(f"{name}: exit status {figures['status']}")
    return found


def _wait() -> None:
    end = time.monotonic() + _PATIENCE
    while _PROFILE not in (said := podman("exec", NODE, "tuned-adm", "active")):
        if time.monotonic() > end:
            raise BenchError(f"tuned does not take its profile: {said.strip()}")
        time.sleep(1)
