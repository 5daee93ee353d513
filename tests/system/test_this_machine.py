# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The two commands of the README on the machine the tests run on: its own kernel, its own files.

The tests are one story in the order of the file. Whatever happens, the last step puts everything back, and
it is compared with what was there before the first.
"""

from __future__ import annotations

import glob
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys
import time
from collections.abc import Iterator

import jsonschema
import pytest
from ansible_collections.mlnode.tuning.benchmarks.others import mitogen
from ansible_collections.mlnode.tuning.tests.unit import pull_site, repository
from ansible_collections.mlnode.tuning.tools import one_run

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAMS = pathlib.Path(sys.executable).parent
MLNODE = "/usr/local/bin/mlnode"
OVERRIDE = pathlib.Path("/etc/sysctl.d/zzz.conf")
ORIGIN = pathlib.Path("/var/lib/mlnode/origin.json")
COPY = pathlib.Path("/etc/mlnode/origin.json")

#: Where this collection writes; everything below is compared byte for byte
FOLDERS = ("/etc", "/usr/local/bin", "/var/lib/mlnode", "/run/mlnode.lock")
THP = "/sys/kernel/mm/transparent_hugepage"

#: As inventory/local.yml has it
LOCAL = {"ansible_connection": "local", "ansible_become": False, "ansible_python_interpreter": sys.executable}

#: Written by the kernel itself all the time
MOVING = ("/proc/sys/kernel/ns_last_pid",)

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="tunes this machine for a minute, so it needs root")
not_tuned = pytest.mark.skipif(
    ORIGIN.exists() or COPY.exists(), reason="this machine is tuned for real: the test would revert it"
)
pytestmark = [pytest.mark.system, needs_root, not_tuned]


def kernel_values() -> dict[str, str]:
    """Every value that root could change and the kernel lets us read."""
    found = {}
    for top in ("/proc/sys/vm", "/proc/sys/kernel", "/proc/sys/fs", "/proc/sys/net", THP):
        for folder, _folders, names in os.walk(top):
            for name in names:
                path = os.path.join(folder, name)
                if path in MOVING:
                    continue
                if os.stat(path).st_mode & 0o200 and os.stat(path).st_mode & 0o400:
                    try:
                        found[path] = pathlib.Path(path).read_bytes().decode("utf-8", "replace")
                    except OSError as error:
                        found[path] = f"errno {error.errno}"
    for path in glob.glob("/proc/irq/*/smp_affinity_list"):
        found[path] = pathlib.Path(path).read_text()
    return found


def files() -> dict[str, str]:
    """Mode and digest of every file, target of every link."""
    found = {}
    for top in FOLDERS:
        walked = os.walk(top) if os.path.isdir(top) else [(os.path.dirname(top), [], [top])]
        for folder, folders, names in walked:
            for name in [*folders, *names]:
                path = pathlib.Path(folder, name)
                if path.is_symlink():
                    found[str(path)] = f"-> {path.readlink()}"
                elif path.is_file():
                    found[str(path)] = (
                        f"{path.stat().st_mode:o} {hashlib.sha256(path.read_bytes()).hexdigest()}"
                    )
                elif path.is_dir():
                    found[str(path)] = f"{path.stat().st_mode:o}"
    return found


def make(target: str, **variables: str) -> subprocess.CompletedProcess[str]:
    words = [f"{name}={value}" for name, value in variables.items()]
    # A colour or a narrow terminal of whoever runs the tests must not change what is looked for.
    environment = {**os.environ, "ANSIBLE_NOCOLOR": "1", "COLUMNS": "200"}
    environment.pop("MAKEFLAGS", None)
    done = subprocess.run(
        ["make", target, *words], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    print(done.stdout, done.stderr)
    return done


def mlnode(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([MLNODE, *words], capture_output=True, text=True, check=False)


def changed(done: subprocess.CompletedProcess[str]) -> int:
    """The number behind changed= in the play recap."""
    match = re.search(r"changed=(\d+)", done.stdout)
    assert match, done.stdout
    return int(match.group(1))


def sysctl(key: str, value: str | None = None) -> str:
    path = pathlib.Path("/proc/sys", key.replace(".", "/"))
    if value is not None:
        path.write_text(value)
    return path.read_text().strip()


class Born:
    """The machine before anything of ours ran. Values that move by themselves are left out."""

    def __init__(self) -> None:
        first = kernel_values()
        time.sleep(0.3)
        self.values = {path: text for path, text in kernel_values().items() if first.get(path) == text}
        self.files = files()


@pytest.fixture(scope="module")
def born() -> Iterator[Born]:
    with one_run.held("pytest test_this_machine.py"):
        before = Born()
        # The net under a failed test, and under one that is killed: then the next run puts everything back.
        with one_run.tuned(str(OVERRIDE)):
            yield before
        after = kernel_values()
        for path in [path for path, text in before.values.items() if after.get(path) != text]:
            pathlib.Path(path).write_text(re.sub(r".*\[(.*)\].*", r"\1", before.values[path]))


def test_site_tunes_this_machine_and_drift_finds_nothing(born: Born) -> None:
    assert make("site").returncode == 0
    drift = make("drift")
    assert drift.returncode == 0
    assert "as declared" in drift.stdout
    assert sysctl("vm.swappiness") == "1"


def test_a_second_run_changes_nothing(born: Born) -> None:
    assert changed(make("site")) == 0
    assert changed(make("preview")) == 0


def test_what_this_kernel_lacks_is_unsupported_with_a_reason(born: Born) -> None:
    state = json.loads(mlnode("check", "--json").stdout)
    kernel = [item for item in state["settings"] if item["path"].startswith(("/proc/", "/sys/"))]
    lacking = [item for item in kernel if not glob.glob(item["path"])]
    assert all(item["status"] == "unsupported" and item["reason"] for item in lacking)
    assert all(item["path"] in item["reason"] for item in lacking if "*" not in item["path"])
    assert state["summary"].get("unsupported", 0) >= len(lacking)


def test_a_value_changed_by_hand_is_found_named_and_mended(born: Born) -> None:
    sysctl("vm.swappiness", "60")
    drift = make("drift")
    assert drift.returncode != 0
    assert re.search(r"vm\.swappiness: drifted, want 1, runtime 60, boot 1 \(high\)", drift.stdout)
    preview = make("preview")
    assert changed(preview) == 1
    assert "-vm.swappiness = 60" in preview.stdout
    assert "+vm.swappiness = 1" in preview.stdout
    assert sysctl("vm.swappiness") == "60", "check mode must not write"
    assert changed(make("site")) == 1
    assert make("drift").returncode == 0


def test_every_way_of_a_controller_brings_the_node_to_the_same_state(
    born: Born, tmp_path: pathlib.Path
) -> None:
    """The guide to fleets has them. A job slice of AWX is a run of ansible-runner with some of the hosts."""
    inventory = tmp_path / "hosts.yml"
    public = pull_site.key(tmp_path / "key")
    place = tmp_path / "ansible_collections/mlnode/tuning"
    url = repository.made(tmp_path / "repository")
    site, publish = (str(ROOT / "playbooks" / name) for name in ("site.yml", "publish.yml"))
    play = ["ansible-playbook", f"--inventory={inventory}", "--limit=localhost"]
    ways = {
        "ansible-pull": [
            "ansible-pull", f"--url={url}", f"--directory={place}", f"--inventory={inventory}",
            "playbooks/site.yml",
        ],
        "a slice of AWX": [
            "ansible-runner", "run", str(tmp_path), f"--inventory={inventory}", f"--playbook={site}",
            "--limit=all[1:1]",
        ],
        "mitogen": [*play, site],
        "pull": [MLNODE, "pull"],
    }  # fmt: skip

    def run(*words: str, **more: str) -> None:
        environment = {
            **os.environ,
            "PATH": f"{PROGRAMS}:{os.environ['PATH']}",
            "HOME": str(tmp_path),
            **more,
        }
        done = subprocess.run(words, env=environment, cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"

    with pull_site.serving() as server:
        here = {**LOCAL, "node_pull": {"url": server.url, "node": "localhost", "signers": [public]}}
        # Of all hosts, another one is in the other slice, and nothing listens at TCP port 1, tcpmux (IANA).
        hosts = {"a": {"ansible_host": "127.0.0.1", "ansible_port": 1}, "localhost": here}
        inventory.write_text(json.dumps({"training": {"hosts": hosts}, "inference": {}, "fabric": {}}))
        run(*play, site)
        expected = mlnode("status", "--json").stdout
        assert '"compliant": true' in expected
        run(*play, publish, "-e", f"publish_folder={tmp_path}", "-e", f"publish_key={tmp_path}/key")
        server.files["/mlnode/localhost.signed"] = (tmp_path / "localhost.signed").read_bytes()
        for way, words in ways.items():
            sysctl("vm.swappiness", "60")
            run(*words, **(mitogen() if way == "mitogen" else {}))
            assert mlnode("status", "--json").stdout == expected, way


def test_a_later_drop_in_is_reported_as_override_with_file_and_line(born: Born) -> None:
    OVERRIDE.write_text("# somebody else\nvm.swappiness = 30\n")
    drift = make("drift")
    assert drift.returncode != 0
    assert re.search(r"vm\.swappiness: overridden, want 1, runtime 1, boot 30", drift.stdout)
    assert f"{OVERRIDE}:2" in drift.stdout
    check = mlnode("check")
    assert check.returncode == 3
    assert f"{OVERRIDE}:2" in check.stdout
    told = mlnode("explain", "vm.swappiness").stdout
    assert f"{OVERRIDE}:2: vm.swappiness = 30" in told
    OVERRIDE.unlink()
    assert mlnode("check").returncode == 0


def test_json_matches_the_published_schema(born: Born) -> None:
    schema = json.loads((ROOT / "docs/schema/node.schema.json").read_text())
    for command in ("check", "status"):
        jsonschema.validate(json.loads(mlnode(command, "--json").stdout), schema)


def test_explain_tells_everything_about_a_setting(born: Born) -> None:
    told = mlnode("explain", "vm.dirty_bytes").stdout
    for word in ("declared by", "formula", "origin", "severity", "purpose", "source", "boot lines"):
        assert re.search(rf"^{word} +\S", told, re.MULTILINE), word
    assert "node (/etc/mlnode/declared.d/node.json)" in told
    assert "min(40 % of memory" in told


def test_the_agent_brings_back_what_a_boot_would_lose(born: Born) -> None:
    # What no drop-in carries: only the agent can have set these again.
    sysctl("vm.max_map_count", "65530")
    pathlib.Path(THP, "enabled").write_text("never")
    assert mlnode("check").returncode == 3
    assert mlnode("apply").returncode == 0
    assert sysctl("vm.max_map_count") == "1048576"
    assert "[madvise]" in pathlib.Path(THP, "enabled").read_text()


def test_revert_leaves_no_trace(born: Born) -> None:
    done = make("revert")
    assert done.returncode == 0
    after = kernel_values()
    assert {path: after.get(path) for path in born.values} == born.values
    assert files() == born.files
    assert changed(make("revert")) == 0
