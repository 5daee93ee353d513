# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The boot service with each of many drop-ins, started by systemd itself: the library may say that all is
well only of those with which it does its work.

A container of systemd-nspawn with the programs of this machine and nothing else of it: no /etc, no network,
and none of its services. The program in the place of the agent opens what the agent writes to, and writes
nothing to the kernel.
"""

from __future__ import annotations

import json
import os
import pathlib
import re
import subprocess
import time
from collections.abc import Sequence

import pytest
from ansible_collections.mlnode.tuning.tests.system import namespaces
from ansible_collections.mlnode.tuning.tests.unit import drop_in_lines as lines
from mlnode.engine import harmless, units
from mlnode.host.places import AGENT_COMMAND

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="starts a container")

#: Seconds for the whole container: three on a machine that does nothing else, ten times that on a busy one.
#: Some of the services never end.
LIMIT, STARTS = 200, 60

AGENT = """\
#!/usr/bin/python3 -I
import os, socket, subprocess, sys
assert os.listdir("/etc/mlnode/declared.d")
for path in ("/proc/sys/vm/swappiness", "/sys/devices/system/clocksource/clocksource0/current_clocksource"):
    os.close(os.open(path, os.O_WRONLY))
for kind in ("net", "user"):
    assert os.readlink(f"/proc/self/ns/{kind}") == os.readlink(f"/proc/1/ns/{kind}"), kind
socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 16).close()
socket.socket(socket.AF_UNIX, socket.SOCK_STREAM).close()
subprocess.run(["/bin/true"], check=True)
for folder in ("/etc/mlnode", "/run", f"/var/lib/oracle-{sys.argv[1]}"):
    with open(f"{folder}/.proof-{sys.argv[1]}", "w") as stream:
        stream.write("1")
open(f"/run/worked-{sys.argv[1]}", "w").close()
"""

#: Runs in the container: starts all services, each with its number, and writes whose program did its work
RUNNER = f"""\
#!/usr/bin/python3 -I
import json, os, subprocess
os.makedirs("/etc/mlnode/declared.d")
open("/etc/mlnode/declared.d/x.json", "w").close()
drop_ins = json.load(open("/mnt/drop_ins.json"))
numbers = range(len(drop_ins))
try:
    names = [f"oracle-{{number}}.service" for number in numbers]
    subprocess.run(["systemctl", "start", *names], timeout={STARTS})
except subprocess.TimeoutExpired:
    pass
with open("/mnt/worked.json", "w") as stream:
    json.dump([os.path.exists(f"/run/worked-{{number}}") for number in numbers], stream)
subprocess.run(["systemctl", "--no-block", "--force", "exit", "0"])
"""

SERVICE = """\
[Unit]
DefaultDependencies=no
[Service]
Type=oneshot
TimeoutStartSec=infinity
ExecStart=/mnt/runner
StandardError=append:/mnt/errors
"""

NSPAWN = (
    *("systemd-nspawn", "--quiet", "--register=no", "--keep-unit", "--console=pipe", "--volatile=yes"),
    *("--directory=/", "--private-network", "--tmpfs=/usr/lib/systemd/system/sysinit.target.wants"),
)
#: Where cgroups are those of version 1, the container has those of version 2 (docs/guide/containers.md).
CGROUPS = (
    "stat -fc %T /sys/fs/cgroup | grep -q cgroup2fs ||"
    " { umount -R /sys/fs/cgroup; mount -t cgroup2 none /sys/fs/cgroup; }"
)


def contained(folder: pathlib.Path, drop_ins: Sequence[str]) -> list[bool]:
    """Whether the service did its work with each of the drop-ins."""
    system = folder / "system"
    system.mkdir()
    texts = {
        "oracle.service": SERVICE,
        "oracle.target": "[Unit]\nDefaultDependencies=no\nRequires=oracle.service\n",
        "sysinit.target": "[Unit]\nDefaultDependencies=no\n",
        "basic.target": "[Unit]\nRequires=sysinit.target\n",
    }
    for number, drop_in in enumerate(drop_ins):
        name = f"oracle-{number}.service"
        text = units.UNIT.replace(f"{AGENT_COMMAND} apply", f"/mnt/agent {number}")
        # One of its own, as DynamicUser= moves it.
        texts[name] = text.replace("StateDirectory=mlnode\n", f"StateDirectory=oracle-{number}\n")
        texts[f"{name}.d/x.conf"] = drop_in
    for name, text in texts.items():
        (system / name).parent.mkdir(exist_ok=True)
        (system / name).write_text(text)
    for name, text in {"agent": AGENT, "runner": RUNNER}.items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    (folder / "drop_ins.json").write_text(json.dumps(drop_ins))
    binds = (f"--bind={folder}:/mnt", f"--bind-ro={system}:/run/systemd/system")
    command = [*NSPAWN, *binds, "--boot", "systemd.unit=oracle.target", "systemd.show_status=no"]
    outside = ["unshare", "--mount", "--propagation", "private", "sh", "-c", f'{CGROUPS}; exec "$@"', "-"]
    done = subprocess.run(
        [*outside, *command],
        env={**os.environ, "SYSTEMD_NSPAWN_API_VFS_WRITABLE": "yes"}, stdin=subprocess.DEVNULL,
        capture_output=True, text=True, check=False, timeout=LIMIT,
    )  # fmt: skip
    try:
        answer: list[bool] = json.loads((folder / "worked.json").read_text())
    except OSError:
        errors = folder / "errors"
        pytest.fail(f"{done.stdout}{done.stderr}{errors.read_text() if errors.exists() else ''}")
    return answer


def test_systemd_agrees_on_what_is_harmless(tmp_path: pathlib.Path) -> None:
    """The verdict of each line is in tests/unit/drop_in_lines.py, which test_harmless.py holds."""
    namespaces.need("systemd-nspawn", "systemd-container")
    tried = [*lines.HARMLESS, *lines.CHANGES, *lines.NOT_JUDGED]
    began = time.monotonic()
    alone, *worked = contained(tmp_path, ["", *map(lines.text, tried)])
    assert alone, "without a drop-in"
    stopped = [line for line, did in zip(tried, worked, strict=True) if not did]
    print(f"{time.monotonic() - began:.0f} s; stopped by {', '.join(stopped)}")
    assert [line for line in stopped if line in lines.HARMLESS] == []
    # So many of the table stop systemd 252 from running it; if far fewer did, nothing was tried here.
    assert len(stopped) > 40


def test_every_option_that_is_listed_is_one_of_systemd() -> None:
    systemd = pathlib.Path("/usr/lib/systemd/systemd")
    if not systemd.exists():
        pytest.skip("no systemd here")
    done = subprocess.run([systemd, "--dump-configuration-items"], capture_output=True, text=True, check=True)
    sections = dict(re.findall(r"^\[(\w+)\]\n((?:\w+=.*\n)+)", done.stdout, re.MULTILINE))
    version = subprocess.run([systemd, "--version"], capture_output=True, text=True, check=True).stdout
    known = {
        f"[{section}]": {line.partition("=")[0] for line in text.splitlines()}
        for section, text in sections.items()
    }
    newer = {"PrivatePIDs": 257, "Upholds": 249}  # systemd.exec(5), systemd.unit(5): added in version
    number = int(version.split()[1])
    for section, keys in harmless.SECTIONS.items():
        for key in keys:
            assert key in known[section] or newer.get(key, 0) > number, (section, key)
