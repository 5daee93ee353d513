# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Costs of many nodes for their controller: plays over simulated nodes. Each is a connection that answers as
the agent does.

The answers derive from a run of site.yml --check with this checkout's agent on this machine; an answer
without drift differs in its values only.
"""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..plugins.plugin_utils import agent_call, agent_source, areas
from ..tests.unit.roles import declaration
from . import measure
from .fleet import ROOT
from .measure import BenchError

#: One node in this many has drifted, so a report has content
_DIFFERS = 50

#: The drifted setting of those nodes
_CHANGED = "vm.swappiness"

#: Folder in which Ansible finds the connection
CONNECTION = {"ANSIBLE_CONNECTION_PLUGINS": str(ROOT / "benchmarks/connection")}

#: Seconds between two readings of the memory of all processes: one costs a few ms of another CPU
_LOOK = 0.5

PLAYS: dict[str, tuple[str, ...]] = {
    "ping": (str(ROOT / "benchmarks/plays/ping.yml"),),
    "drift": (str(ROOT / "playbooks/drift.yml"),),
    "site --check": (str(ROOT / "playbooks/site.yml"), "--check"),
}


def record(folder: pathlib.Path) -> None:
    """Write the answers to both plays, of nodes that are as declared and of the others. Raises BenchError."""
    given = _asked(folder / "mlnode")
    for name, changed in (("", ()), (".differs", (_CHANGED,))):
        found = {
            area: {
                **about,
                "changed": False,
                "settings": [_declared(one, changed) for one in about["settings"]],
            }
            for area, about in given["areas"].items()
        }
        settings = [one for about in found.values() for one in about["settings"]]
        _write(folder / f"declare{name}.json", {**given, "areas": found, "changed": bool(changed)})
        _write(folder / f"drift{name}.json", _compared(settings))


def _asked(agent: pathlib.Path) -> dict[str, Any]:
    """The answer of the agent, which is written to this path, to a declaration in check mode."""
    options = {
        "name": "node", "areas": declaration("training"), "profile": {}, "selected": [*areas.AREAS],
        "layers": ["runtime", "boot"], "on_unsupported": "warn", "fabric_type": "", "fail_at": "high",
        "ignore": [], "interpreter": "/usr/bin/env python3", "leave": False, "check": True, "risky": False,
        "diff": False, "install": False, "confirm_seconds": 60,
    }  # fmt: skip
    agent.write_bytes(agent_source.archive())
    question = agent_call._question("declare", options)
    done = subprocess.run(
        [sys.executable, "-I", str(agent), "call"], input=question, capture_output=True, check=False
    )
    reply = agent_call._reply(
        {"rc": done.returncode, "stdout": done.stdout.decode(), "stderr": done.stderr.decode()}
    )
    if reply.answer is None or reply.answer["failed"]:
        raise BenchError(f"the agent does not answer here: {reply.wrong or reply.answer}")
    return reply.answer


def _declared(setting: Mapping[str, Any], but: Sequence[str]) -> dict[str, Any]:
    if setting["key"] in but:
        # Independent of this machine's value, which another run may change meanwhile
        return {**setting, "status": "drifted", "runtime": "60", "reason": ""}
    if setting["status"] != "drifted":
        return {**setting}
    at_boot = {"boot": setting["want"], "boot_source": "/etc/sysctl.d/99-zz-mlnode.conf:17"}
    return {
        **setting,
        **at_boot,
        "status": "ok",
        "runtime": setting["want"],
        "origin": setting["runtime"],
        "reason": "",
    }


def _compared(settings: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The answer to drift.yml of a node with these settings; @NAME@ stands for its name."""
    drift = [f"{one['key']}: drifted, want {one['want']}" for one in settings if one["status"] == "drifted"]
    counts = Counter(one["status"] for one in settings)
    words = ", ".join(f"{number} {status}" for status, number in counts.items())
    return {
        "changed": False,
        "failed": bool(drift),
        "msg": "; ".join(drift),
        "compliant": not drift,
        "verdict": f"{'not as declared' if drift else 'as declared'}: {words}",
        **{name: [] for name in ("ignored", "exceptions", "errors")},
        "drift": drift,
        "failures": [f"@NAME@: {line}" for line in drift],
        "digests": {"node": dict.fromkeys(areas.AREAS, "0123456789abcdef")},
        "summary": counts,
        "settings": [*settings],
    }


def _write(path: pathlib.Path, answer: Mapping[str, Any]) -> None:
    path.write_text(json.dumps({"answer": answer}), encoding="utf-8")


def fleets(
    folder: pathlib.Path,
    counts: Sequence[int],
    programs: pathlib.Path,
    say: Callable[[str], None],
) -> dict[str, Any]:
    """Number of nodes → play → figures of one run, which is minutes long: seconds of wall clock and of CPU of
    the controller, and its memory in MiB, of the largest process (peak) and of all together (memory)."""
    record(folder)
    found: dict[str, Any] = {}
    for count in counts:
        nodes = inventory(folder, count)
        for name, arguments in PLAYS.items():
            command = [str(programs / "ansible-playbook"), f"--inventory={nodes}", *arguments]
            figures = play(command)
            say(
                f"{name}, {count} nodes: " + ", ".join(f"{field} {one:.1f}" for field, one in figures.items())
            )
            found.setdefault(str(count), {})[name] = figures
    return found


def inventory(folder: pathlib.Path, count: int) -> pathlib.Path:
    """Path of an inventory with this many nodes. The answers are in the same folder."""
    names = [f"gpu{number:05d}" for number in range(1, count + 1)]
    (folder / "differing").write_text("\n".join(names[::_DIFFERS]), encoding="utf-8")
    reach = {"ansible_connection": "simulated", "simulated_answers": str(folder)}
    reach["ansible_python_interpreter"] = "/usr/bin/python3"
    path = folder / f"nodes-{count}.json"
    hosts = {name: {} for name in names}
    groups = {"training": {"hosts": hosts, "vars": reach}, "inference": {}, "fabric": {}}
    path.write_text(json.dumps(groups), encoding="utf-8")
    return path


def play(command: Sequence[str]) -> dict[str, float]:
    """Figures of one run. Raises BenchError unless it ends with a report of differences."""
    peaks = [0.0]
    ended = threading.Event()
    watch = threading.Thread(target=_watch, args=(peaks, ended))
    watch.start()
    try:
        found = measure.run(command, CONNECTION, fine=(0, 2))
    finally:
        ended.set()
        watch.join()
    return {"wall": found.wall, "cpu": found.cpu, "peak": found.peak, "memory": max(peaks)}


def _watch(peaks: list[float], ended: threading.Event) -> None:
    while not ended.wait(_LOOK):
        peaks.append(sum(map(_proportional, _below(os.getpid()))) / 1024)


def _below(pid: int) -> list[int]:
    """All processes that this one has started, and that these have."""
    try:
        lists = [path.read_text() for path in pathlib.Path(f"/proc/{pid}/task").glob("*/children")]
    except OSError:  # it has ended
        return []
    own = [int(one) for text in lists for one in text.split()]
    return own + [one for child in own for one in _below(child)]


def _proportional(pid: int) -> int:
    """Memory of a process in KiB, including its share of shared memory."""
    try:
        lines = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("Pss:")), 0)
