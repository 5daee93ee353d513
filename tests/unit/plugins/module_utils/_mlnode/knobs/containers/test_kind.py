# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whole runs: what is written for which runtime, what stays, what is told, and what is put back."""

from __future__ import annotations

import errno
import json
import os
import pathlib
import shutil
import time

import pytest
from ansible_collections.mlnode.tuning.tests.unit import door
from mlnode.agent import without_origin
from mlnode.engine import boot_run, origin, revert
from mlnode.linux import toml
from mlnode.model.errors import DeclarationError, RefusedError
from mlnode.model.setting import Layer

from .node import CRIO, DOCKER, KUBELET, PODMAN, Engines, apply, declare, look, told

SYSCTLS = {"net.core.somaxconn": 4096}
VENDOR = "/usr/share/containers/containers.conf"
NODE = "/etc/containers/containers.conf"


def lists(machine: Engines, path: str) -> dict[str, object]:
    return {entry.path[-1]: entry.value for entry in toml.entries(machine.read(path))}


# -- podman --------------------------------------------------------------------------------


def test_podmans_drop_in(tmp_path: pathlib.Path) -> None:
    machine = Engines.made(tmp_path, "podman")
    done = apply(machine, sysctls=SYSCTLS, ulimits={"memlock": "unlimited", "nofile": 4096}, shm_size="1GiB")
    assert machine.read(PODMAN).split("\n")[2:] == [
        "[containers]",
        "default_sysctls = [",
        '  "net.core.somaxconn=4096",',
        "]",
        "default_ulimits = [",
        '  "nofile=4096:4096",',
        '  "memlock=-1:-1",',
        "]",
        'shm_size = "1073741824"',
        "",
    ]
    assert set(told(done).values()) == {"changed"}
    assert done["podman.ulimits"].reading.runtime.text == "nofile=4096, memlock=unlimited"
    again = look(machine, sysctls=SYSCTLS, ulimits={"memlock": "unlimited", "nofile": 4096}, shm_size="1GiB")
    assert {row.status for row in again.values()} == {"ok"}


def test_a_list_repeats_the_entries_that_it_replaces(tmp_path: pathlib.Path) -> None:
    machine = Engines.made(tmp_path, "podman")
    machine.put(VENDOR, '[containers]\ndefault_sysctls = ["net.ipv4.ping_group_range=0 0"]\n')
    machine.put(NODE, '[containers]\ndefault_ulimits = ["core=0:0", "nofile=1:2", "rttime=-1"]\n')
    apply(machine, sysctls=SYSCTLS, ulimits={"nofile": 4096})
    assert lists(machine, PODMAN) == {
        "default_sysctls": ["net.ipv4.ping_group_range=0 0", "net.core.somaxconn=4096"],
        "default_ulimits": ["core=0:0", "nofile=4096:4096", "rttime=-1:-1"],
    }
    # A later change there is repeated by the next run.
    machine.put(NODE, '[Containers]\nDefault_Ulimits = ["core=1:1"]\n')
    machine.forget()
    apply(machine, sysctls=SYSCTLS, ulimits={"nofile": 4096})
    assert lists(machine, PODMAN)["default_ulimits"] == ["core=1:1", "nofile=4096:4096"]
    apply(machine)
    assert not machine.exists(PODMAN)


def test_a_later_file_overrides(tmp_path: pathlib.Path) -> None:
    machine = Engines.made(tmp_path, "podman")
    later = "/etc/containers/containers.conf.d/zzz.conf"
    machine.put(
        later, '# site\n[containers]\ndefault_sysctls = ["net.core.somaxconn=128"]\nshm_size = "1g"\n'
    )
    for rows in (
        look(machine, sysctls=SYSCTLS, shm_size="2GiB"),
        apply(machine, sysctls=SYSCTLS, shm_size="2GiB"),
    ):
        assert told(rows) == {"podman.sysctls": "overridden", "podman.shm_size": "overridden"}
        cause = rows["podman.sysctls"].causes[-1]
        assert (cause.file, cause.line) == (later, 3)
        assert rows["podman.sysctls"].reading.runtime.text == "net.core.somaxconn=128"
    # The same value is no matter, and neither is a list that adds to mlnode's.
    machine.put(
        later, '[containers]\ndefault_sysctls = ["net.a=1", {append=true}]\nshm_size = "2147483648b"\n'
    )
    machine.versions["podman"] = "podman version 4.8.0"
    machine.forget()
    assert set(told(look(machine, sysctls=SYSCTLS, shm_size="2GiB")).values()) == {"ok"}
    # An older one does not start with the attribute.
    machine.versions["podman"] = "podman version 4.7.2"
    machine.forget()
    [said, _same] = [row.reason for row in look(machine, sysctls=SYSCTLS, shm_size="2GiB").values()]
    assert said.startswith(f"cannot understand {later}: line 2: attributes of a list need podman 4.8")


def test_units_of_podman_have_factors_of_1000(tmp_path: pathlib.Path) -> None:
    machine = Engines.made(tmp_path, "podman")
    for text, size in (("1GiB", 10**9), ("1.5 k", 1500), ("65536k", 65536000), ("2T", 2 * 10**12)):
        machine.put(VENDOR, f'[containers]\nshm_size = "{text}"\n')
        machine.forget()
        row = look(machine, shm_size="1GiB")["podman.shm_size"]
        assert (str(row.status), row.reading.runtime.text) == ("drifted", str(size))


def test_podman_6_reads_one_main_file(tmp_path: pathlib.Path) -> None:
    machine = Engines.made(tmp_path, "podman")
    machine.put(VENDOR, '[containers]\ndefault_sysctls = ["net.a=1"]\n')
    machine.put(NODE, "[engine]\n")
    apply(machine, sysctls=SYSCTLS)
    assert lists(machine, PODMAN)["default_sysctls"] == ["net.a=1", "net.core.somaxconn=4096"]

    machine.versions["podman"] = "podman version 6.0.0"
    machine.forget()
    apply(machine, sysctls=SYSCTLS)
    assert lists(machine, PODMAN)["default_sysctls"] == ["net.core.somaxconn=4096"]

    machine.versions["podman"] = "nonsense"
    machine.forget()
    row = look(machine, sysctls=SYSCTLS)["podman.sysctls"]
    assert (str(row.status), "it says 'nonsense" in row.reason) == ("unknown", True)


def test_files_of_root_come_last_and_others_may_not_see_them(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = Engines.made(tmp_path, "podman")
    machine.put("/root/.config/containers/containers.conf", '[containers]\nshm_size = "1"\n')
    apply(machine, sysctls=SYSCTLS)
    # Before podman 5, it does not read them as root.
    assert told(look(machine, shm_size="2GiB")) == {"podman.shm_size": "drifted"}
    machine.versions["podman"] = "podman version 5.0.0"
    machine.forget()
    assert told(look(machine, shm_size="2GiB")) == {"podman.shm_size": "overridden"}

    machine.unreadable["/root/.config/containers/containers.conf.d"] = errno.EACCES
    assert told(look(machine, sysctls=SYSCTLS)) == {"podman.sysctls": "unknown"}
    monkeypatch.setattr(machine, "is_superuser", lambda: False)
    row = look(machine, sysctls=SYSCTLS)["podman.sysctls"]
    assert (str(row.status), row.reading.note.partition(":")[0]) == ("ok", "files of root are not considered")


def test_a_file_that_podman_could_not_read_is_told(tmp_path: pathlib.Path) -> None:
    machine = Engines.made(tmp_path, "podman")
    apply(machine, sysctls=SYSCTLS)
    written = machine.read(PODMAN)
    machine.put(NODE, "[containers]\ndefault_sysctls = [\n")
    machine.forget()
    row = apply(machine, sysctls={"net.core.somaxconn": 1})["podman.sysctls"]
    assert str(row.status) == "unknown"
    assert row.reason.startswith(f"cannot understand {NODE}: line 3: expected a value, got ''")
    assert machine.read(PODMAN) == written


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"[containers]\nshm_size = 65536\n", "line 2: expected a text in quotes"),
        (b"[containers]\n\ndefault_sysctls = 'a=1'\n", "line 3: expected a list of texts"),
        (b"[containers]\ndefault_sysctls = [1]\n", "line 2: expected a list of texts"),
        (b"[containers]\n# \xff\n", "line 2: expected UTF-8"),
        (b"[containers]\nshm_size='1g'\n[containers]\n", "line 3: containers is there twice"),
        (b"[containers]\nshm_size='1g'\nSHM_SIZE='2g'\n", "line 3: shm_size is there twice"),
        (
            b"[containers]\ndefault_sysctls = ['net.core.somaxconn = 128']\n",
            "line 2: expected KEY=VALUE without blanks around them, got 'net.core.somaxconn = 128'",
        ),
        (
            b"[containers]\ndefault_sysctls = ['vm.swappiness=1']\n",
            "line 2: expected a sysctl of network or IPC, got 'vm.swappiness=1'",
        ),
        (
            b"[containers]\ndefault_sysctls = ['net/core/somaxconn=1']\n",
            "line 2: expected a sysctl of network or IPC, got 'net/core/somaxconn=1'",
        ),
        (
            b"[containers]\ndefault_sysctls = [{append='true'}]\n",
            "line 2: expected the attribute append=true or append=false",
        ),
    ],
)
def test_types_that_podman_refuses(tmp_path: pathlib.Path, text: bytes, said: str) -> None:
    machine = Engines.made(tmp_path, "podman")
    machine.put(NODE, text)
    machine.versions["podman"] = "podman version 5.4.2"
    rows = apply(machine, sysctls=SYSCTLS, shm_size="1GiB")
    assert [row.reason for row in rows.values() if str(row.status) == "unknown"]
    assert {row.reason for row in rows.values() if str(row.status) == "unknown"} == {
        f"cannot understand {NODE}: {said}; correct it first"
    }
    assert not machine.exists(PODMAN)


@pytest.mark.parametrize(
    "text",
    [
        *("memlock=unlimited", "nofile = 1:2", "NOFILE=1", "RLIMIT_NOFILE=1", "nofile=3:2", "memlock=-1:5"),
        *("", "nofile", "new=1", "nofile=1:2:3", "nofile=1,2"),
    ],
)
@pytest.mark.parametrize("engine", ["podman", "crio"])
def test_limits_that_no_engine_starts_with(tmp_path: pathlib.Path, engine: str, text: str) -> None:
    machine = Engines.made(tmp_path, engine)
    file, head = {"podman": (NODE, "containers"), "crio": ("/etc/crio/crio.conf", "crio.runtime")}[engine]
    machine.put(file, f"[{head}]\ndefault_ulimits = ['{text}']\n")
    row = apply(machine, ulimits={"nofile": 4096})[f"{engine}.ulimits"]
    assert (str(row.status), machine.exists(PODMAN) or machine.exists(CRIO)) == ("unknown", False)
    assert f"line 2: expected NAME=SOFT:HARD, with -1 for no limit, got {text!r}" in row.reason


@pytest.mark.parametrize(
    ("engine", "line", "said"),
    [
        ("podman", "default_ulimits = ['memlock=unlimited']", "expected NAME=SOFT:HARD"),
        ("podman", "default_ulimits = ['nofile=9223372036854775808']", "expected NAME=SOFT:HARD"),
        ("podman", "shm_size = 'lots'", "expected a size such as 65536k, got 'lots'"),
        ("podman", "shm_size = ''", "expected a size such as 65536k, got ''"),
        ("podman", "pids_limit = 010", "expected a value"),
        ("crio", "default_ulimits = ['memlock=unlimited']", "expected NAME=SOFT:HARD"),
    ],
)
def test_a_fault_in_another_topic(tmp_path: pathlib.Path, engine: str, line: str, said: str) -> None:
    machine = Engines.made(tmp_path, engine)
    file, head = {"podman": (NODE, "containers"), "crio": ("/etc/crio/crio.conf", "crio.runtime")}[engine]
    apply(machine, sysctls=SYSCTLS)
    machine.put(file, f"[{head}]\n{line}\n")
    row = look(machine, sysctls=SYSCTLS)[f"{engine}.sysctls"]
    assert str(row.status) == "unknown"
    assert f"{file}: line 2: {said}" in row.reason


def test_a_link_that_leads_to_no_file(tmp_path: pathlib.Path) -> None:
    for engine, folder in (("podman", f"{NODE}.d"), ("crio", "/etc/crio/crio.conf.d")):
        for target, status in (("/nowhere", "unknown"), ("/etc", "unknown"), ("/dev/null", "changed")):
            machine = Engines.made(tmp_path / f"{engine}{target.replace('/', '_')}", engine)
            machine.link(f"{folder}/10-a.conf", target)
            row = apply(machine, sysctls=SYSCTLS)[f"{engine}.sysctls"]
            assert str(row.status) == status, (engine, target, row.reason)
        machine.put(f"{folder}/20-folder.conf/README", "no TOML\n" if engine == "podman" else "")
        machine.forget()
        assert str(look(machine, sysctls=SYSCTLS)[f"{engine}.sysctls"].status) == "ok"


@pytest.mark.parametrize("engine", ["podman", "crio", "kubelet"])
def test_a_folder_that_is_a_link_is_not_followed(tmp_path: pathlib.Path, engine: str) -> None:
    machine = kubelet(tmp_path) if engine == "kubelet" else Engines.made(tmp_path, engine)
    file = {"podman": PODMAN, "crio": CRIO, "kubelet": KUBELET}[engine]
    key = f"{engine}.sysctls"
    assert str(apply(machine, sysctls=SYSCTLS)[key].status) in ("changed", "clamped")
    folder = file.rpartition("/")[0]
    machine.put("/srv/x.conf", machine.read(file))
    machine.remove(file)
    pathlib.Path(machine.root + folder).rmdir()
    machine.link(folder, "/srv")
    machine.forget()
    row = look(machine, sysctls=SYSCTLS)[key]
    assert (str(row.status), f"{folder} is a link" in row.reason) == ("unsupported", True), row.reason


def test_a_damaged_file_of_mlnode_is_written_again(tmp_path: pathlib.Path) -> None:
    for number, engine in enumerate(("podman", "crio", "kubelet")):
        folder = tmp_path / str(number)
        machine = kubelet(folder) if engine == "kubelet" else Engines.made(folder, engine)
        file = {"podman": PODMAN, "crio": CRIO, "kubelet": KUBELET}[engine]
        apply(machine, sysctls=SYSCTLS)
        written = machine.read(file)
        machine.put(file, "[[[\nallowedUnsafeSysctls: x\n")
        machine.forget()
        assert told(look(machine, sysctls=SYSCTLS)) == {f"{engine}.sysctls": "drifted"}
        apply(machine, sysctls=SYSCTLS)
        assert machine.read(file) == written
        machine.remove(file)
        machine.link(file, "/nowhere")
        machine.forget()
        apply(machine, sysctls=SYSCTLS)
        assert (machine.is_link(file), machine.read(file)) == (False, written)


def test_a_file_of_the_runtime_layer_alone_is_not_written(tmp_path: pathlib.Path) -> None:
    machine = Engines.made(tmp_path, "podman")
    request = door.request("site", "containers", {"shm_size": "1GiB"}, (Layer.RUNTIME,))
    [row] = [one for one in door.apply(machine, request).rows if "podman" in one.setting.key]
    assert (str(row.status), machine.exists(PODMAN)) == ("unsupported", False)


def test_an_image_gets_the_files(tmp_path: pathlib.Path) -> None:
    machine = Engines.made(tmp_path, "podman")
    request = door.request("site", "containers", {"sysctls": SYSCTLS}, (Layer.BOOT,))
    door.apply(machine, request)
    assert lists(machine, PODMAN)["default_sysctls"] == ["net.core.somaxconn=4096"]


# -- auto ----------------------------------------------------------------------------------


def test_auto_is_what_the_other_areas_have_and_containers_do_not(tmp_path: pathlib.Path) -> None:
    machine = Engines.made(tmp_path, "podman")
    settings = {
        "vm.swappiness": 10,
        "net.core.netdev_max_backlog": 5000,
        "net.ipv4.tcp_rmem": "4096 131072 auto",
        "net.core.somaxconn": {"at_least": 4096},
        "net.ipv4.tcp_fin_timeout": 30,
    }
    declare(machine, "sysctl", {"settings": settings})
    declare(machine, "limits", {"nofile": {"login": 65536, "services": "1024:65536", "docker": 4096}})
    machine.put("/proc/sys/net/core/somaxconn", "8192\n")
    rows = apply(machine, sysctls="auto", ulimits="auto")
    row = rows["podman.sysctls"]
    # A minimum lowers nothing.
    assert row.reading.want == "net.core.somaxconn=8192, net.ipv4.tcp_fin_timeout=30"
    assert lists(machine, PODMAN) == {
        "default_sysctls": ["net.core.somaxconn=8192", "net.ipv4.tcp_fin_timeout=30"],
    }
    # Podman gives more by itself.
    assert (
        rows["podman.ulimits"].reason
        == "no declared value has to be set in containers; nofile is at least 1048576 without a default"
    )
    declare(machine, "sysctl", {"settings": {"vm.swappiness": 10}})
    row = apply(machine, sysctls="auto", ulimits="auto")["podman.sysctls"]
    assert (str(row.status), row.reason) == ("ok", "no declared value has to be set in containers")
    assert not machine.exists(PODMAN)


def test_a_limit_of_another_file_is_not_lowered(tmp_path: pathlib.Path) -> None:
    machine = Engines.made(tmp_path, "podman", "dockerd")
    machine.put(NODE, '[containers]\ndefault_ulimits = ["nofile=512:1048576", "core=-1:-1"]\n')
    machine.put(DOCKER, '{"default-ulimits": {"nofile": {"Name": "nofile", "Hard": 2048, "Soft": 2048}}}')
    declare(machine, "limits", {"nofile": "1024:65536", "core": 0, "memlock": {"services": "unlimited"}})
    apply(machine, ulimits="auto")
    assert lists(machine, PODMAN)["default_ulimits"] == ["nofile=1024:1048576", "core=0:0", "memlock=-1:-1"]
    assert machine.json()["default-ulimits"]["nofile"] == {"Name": "nofile", "Hard": 65536, "Soft": 2048}
    machine.forget()
    assert set(told(look(machine, ulimits="auto")).values()) == {"ok"}
    apply(machine, ulimits={"nofile": 4096})
    assert lists(machine, PODMAN)["default_ulimits"] == ["nofile=4096:4096", "core=-1:-1"]


@pytest.mark.parametrize(
    ("program", "unit", "file"),
    [("dockerd", "docker", DOCKER), ("dockerd", "containerd", DOCKER), ("crio", "crio", CRIO)],
)
def test_a_limit_that_containers_inherit_is_not_lowered(
    tmp_path: pathlib.Path, program: str, unit: str, file: str
) -> None:
    machine = Engines.made(tmp_path, program)
    limits = "LimitNOFILE=1048576\nLimitNPROC=infinity\nLimitMEMLOCK=64M\n"
    machine.unit(unit, f"[Service]\nExecStart=/usr/bin/{program}\n{limits}")
    spec = {"nofile": "1024:65536", "nproc": 4096, "memlock": {"services": "unlimited"}}
    declare(machine, "limits", spec)
    row = apply(machine, ulimits="auto")[f"{'crio' if program == 'crio' else 'docker'}.ulimits"]
    assert row.reading.want == "memlock=unlimited"
    assert "nofile is at least 1048576 without a default; nproc is at least unlimited" in row.reading.note
    assert "nofile" not in machine.read(file)
    declare(machine, "limits", {"nofile": {"services": {"exactly": "1024:65536"}}})
    apply(machine, ulimits="auto")
    assert "nofile" in machine.read(file)
    assert "memlock" not in machine.read(file)


def test_a_service_has_its_own_limit(tmp_path: pathlib.Path) -> None:
    machine = Engines.made(tmp_path, "dockerd")
    declare(machine, "limits", {"nofile": {"services": 65536, "docker": 4096}})
    apply(machine, ulimits="auto")
    assert machine.json()["default-ulimits"]["nofile"]["Hard"] == 4096


def test_locked_memory_is_unlimited_on_a_node_with_rdma_and_stays_without_its_driver(
    tmp_path: pathlib.Path,
) -> None:
    machine = Engines.made(tmp_path, "podman")
    declare(machine, "limits", {"memlock": "auto"})
    row = apply(machine, ulimits="auto")["podman.ulimits"]
    assert (str(row.status), machine.exists(PODMAN)) == ("ok", False)
    assert "neither an RDMA device nor a GPU is here" in row.reason

    machine.put("/sys/class/infiniband/mlx5_0/node_type", "1: CA\n")
    machine.forget()
    apply(machine, ulimits="auto")
    assert lists(machine, PODMAN)["default_ulimits"] == ["memlock=-1:-1"]
    shutil.rmtree(f"{machine.root}/sys/class/infiniband/mlx5_0")
    machine.forget()
    assert told(apply(machine, ulimits="auto")) == {"podman.ulimits": "ok"}
    assert lists(machine, PODMAN)["default_ulimits"] == ["memlock=-1:-1"]


def test_a_key_that_no_runtime_sets(tmp_path: pathlib.Path) -> None:
    machine = Engines.made(tmp_path, "podman")
    machine.put("/proc/sys/kernel/auto_msgmni", "0\n")
    declare(machine, "sysctl", {"settings": {"net.core.somaxconn": 8192, "kernel.auto_msgmni": 1}})
    row = apply(machine, sysctls="auto")["podman.sysctls"]
    assert row.reading.want == "net.core.somaxconn=8192"
    assert row.reading.note == "no runtime sets kernel.auto_msgmni in a container: left out"


def test_a_setting_of_the_node_that_cannot_be_read_leaves_its_keys_out(tmp_path: pathlib.Path) -> None:
    machine = Engines.made(tmp_path, "podman")
    machine.put("/proc/sys/net/ipv6/conf/all/forwarding", "0\n")
    keys = {"net.core.somaxconn": 8192, "net.ipv6.conf.all.forwarding": 1}
    declare(machine, "sysctl", {"settings": keys})
    assert "net.ipv6.conf.all.forwarding=1" in look(machine, sysctls="auto")["podman.sysctls"].reading.want
    machine.unreadable["/proc/sys/net/core/devconf_inherit_init_net"] = errno.EIO
    row = look(machine, sysctls="auto")["podman.sysctls"]
    assert row.reading.want == "net.core.somaxconn=8192"
    assert "not known whether a container has its own net.ipv6.conf.all.forwarding" in row.reading.note


def test_keys_that_would_stop_every_container(tmp_path: pathlib.Path) -> None:
    machine = Engines.made(tmp_path, "podman")
    machine.remove("/proc/sys/net/ipv4/tcp_fin_timeout")
    declare(machine, "sysctl", {"settings": {"net.core.somaxconn": 4096, "net.ipv4.tcp_fin_timeout": 30}})
    row = apply(machine, sysctls="auto")["podman.sysctls"]
    assert row.reading.want == "net.core.somaxconn=4096"
    assert "a container of this kernel has no net.ipv4.tcp_fin_timeout, which is left out" in row.reading.note
    with pytest.raises(
        DeclarationError, match=r"has no net\.ipv4\.tcp_fin_timeout, and no container would start"
    ):
        apply(machine, sysctls={"net.ipv4.tcp_fin_timeout": 30})
    with pytest.raises(RefusedError, match=r"fs\.nr_open is 1048576 .* at least 2097152"):
        apply(machine, ulimits={"nofile": 2097152})


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("net.core.somaxconn", "abc", "must be a number, as the present '4096', got 'abc'"),
        ("net.core.somaxconn", 1 << 40, "must be from 0 to 2147483647"),
        ("net.ipv4.ip_local_port_range", "20000", "must be 2 numbers"),
        ("net.ipv4.ip_local_port_range", "65535 20000", "the first number must not be greater"),
    ],
)
def test_values_that_the_kernel_of_a_container_refuses(
    tmp_path: pathlib.Path, key: str, value: str | int, said: str
) -> None:
    machine = Engines.made(tmp_path, "podman")
    machine.put("/proc/sys/net/ipv4/ip_local_port_range", "32768\t60999\n")
    for layers in ((Layer.RUNTIME, Layer.BOOT), (Layer.BOOT,)):
        request = door.request("site", "containers", {"sysctls": {key: value}}, layers)
        with pytest.raises(DeclarationError) as refused:
            door.apply(machine, request)
        words = said if Layer.RUNTIME in layers else said.partition(",")[0]
        assert words in str(refused.value)
        assert "no container would start with it" in str(refused.value)
    assert not machine.exists(PODMAN)


@pytest.mark.parametrize(
    ("values", "left", "said"),
    [
        ({"range": "512 65535"}, set(), "must begin with 1024 or more in a container"),
        ({"range": "512 65535", "start": 0}, {"start"}, "must begin with 1024 or more in a container"),
        ({"range": "2000 65535", "start": 3000}, {"start"}, "must begin with 3000 or more in a container"),
        ({"range": "50000 60000", "start": 40000}, {"range"}, "must be 32768 or less in a container"),
        ({"range": "1024 65535", "start": 80}, {"range", "start"}, ""),
    ],
)
def test_ports_that_a_new_namespace_refuses(
    tmp_path: pathlib.Path, values: dict[str, object], left: set[str], said: str
) -> None:
    names = {"range": "net.ipv4.ip_local_port_range", "start": "net.ipv4.ip_unprivileged_port_start"}
    machine = Engines.made(tmp_path, "podman")
    machine.put("/proc/sys/net/ipv4/ip_local_port_range", "512\t65535\n")
    machine.put("/proc/sys/net/ipv4/ip_unprivileged_port_start", "0\n")
    spec = {names[name]: value for name, value in values.items()}
    declare(machine, "sysctl", {"settings": spec})
    row = apply(machine, sysctls="auto")["podman.sysctls"]
    assert {name for name in names if names[name] in row.reading.want} == left
    assert said in row.reading.note
    if said:
        with pytest.raises(DeclarationError, match=f"{said}.*no container would start with it"):
            apply(machine, sysctls=spec)


def test_a_congestion_control_that_only_the_node_may_have(tmp_path: pathlib.Path) -> None:
    machine = Engines.made(tmp_path, "podman")
    for name, text in {"": "bbr", "_allowed": "reno bbr", "_available": "reno bbr cubic"}.items():
        word = f"tcp{name}_congestion_control"
        machine.put(f"/proc/sys/net/ipv4/{word}", f"{text}\n")
    key = "net.ipv4.tcp_congestion_control"
    assert told(apply(machine, sysctls={key: "reno"})) == {"podman.sysctls": "changed"}
    for value, said in {"cubic": r"cubic is not in .*\(reno, bbr\)", "new": "new is not offered"}.items():
        with pytest.raises(DeclarationError, match=f"{said}.*no container would start with it"):
            apply(machine, sysctls={key: value})
    declare(machine, "sysctl", {"settings": {key: "cubic"}})
    assert told(apply(machine, sysctls={key: "cubic"})) == {"podman.sysctls": "changed"}


def test_podman_takes_no_equals_sign_in_a_value(tmp_path: pathlib.Path) -> None:
    machine = Engines.made(tmp_path, "podman", "crio")
    machine.put("/proc/sys/net/x", "a\n")
    spec = {"sysctls": {"net.x": "a=b"}, "allow": ["unknown", "user_namespaces"]}
    with pytest.raises(DeclarationError, match=r"net\.x: podman takes no = in a value"):
        apply(machine, **spec)
    assert told(apply(machine, runtimes=["crio"], **spec)) == {"crio.sysctls": "changed"}


def test_a_node_that_is_a_container_cannot_give_more_than_it_has(tmp_path: pathlib.Path) -> None:
    machine = Engines.made(tmp_path, "podman")
    machine.process(1, "systemd", parent=0, caps="0000000000000000", memlock="8388608")
    with pytest.raises(RefusedError, match=r"would start with memlock unlimited, as this container may not"):
        apply(machine, ulimits={"memlock": "unlimited"})
    assert set(told(apply(machine, ulimits={"memlock": 8388608})).values()) == {"changed"}


RELEASE = "/proc/sys/kernel/osrelease"


def test_an_unknown_release_leaves_out_keys_whose_reach_has_changed(tmp_path: pathlib.Path) -> None:
    machine = Engines.made(tmp_path, "podman")
    keys = {"net.ipv4.icmp_msgs_burst": 100, "net.ipv4.tcp_fin_timeout": 30}
    for key in keys:
        machine.put(f"/proc/sys/{key.replace('.', '/')}", "1\n")
    machine.put(RELEASE, "6.18.1\n")
    declare(machine, "sysctl", {"settings": keys})
    spec = {"sysctls": "auto", "allow": ["user_namespaces"]}
    assert "icmp_msgs_burst=100" in look(machine, **spec)["podman.sysctls"].reading.want
    for content, error in ((None, errno.EACCES), (None, errno.EIO), ("", 0), (b"\xff6", 0), ("next", 0)):
        machine.forget()
        machine.unreadable = {RELEASE: error} if error else {}
        if content is not None:
            machine.put(RELEASE, content)
        row = look(machine, **spec)["podman.sysctls"]
        assert row.reading.want == "net.ipv4.tcp_fin_timeout=30", (content, error)
        assert "not known whether a container has its own net.ipv4.icmp_msgs_burst" in row.reading.note


def test_older_kernels_close_files_to_user_namespaces(tmp_path: pathlib.Path) -> None:
    machine = Engines.made(tmp_path, "podman")
    machine.put(RELEASE, "5.14.0-503.el9.x86_64\n")
    declare(machine, "sysctl", {"settings": {**SYSCTLS, "net.ipv4.tcp_fin_timeout": 30}})
    row = apply(machine, sysctls="auto")["podman.sysctls"]
    assert row.reading.want == "net.ipv4.tcp_fin_timeout=30"
    assert "may have no net.core.somaxconn, and does not start then" in row.reading.note
    with pytest.raises(RefusedError, match=r"no net\.core\.somaxconn, .* allow: \[user_namespaces\]"):
        apply(machine, sysctls=SYSCTLS)
    row = apply(machine, sysctls="auto", allow=["user_namespaces"])["podman.sysctls"]
    assert row.reading.want == "net.core.somaxconn=4096, net.ipv4.tcp_fin_timeout=30"
    machine.put(RELEASE, "6.11.0\n")
    machine.forget()
    assert told(look(machine, sysctls=SYSCTLS)) == {"podman.sysctls": "ok"}


# -- docker --------------------------------------------------------------------------------

THEIRS = (
    '{\n    "debug": true,\n    "default-ulimits": {"nproc": {"Name": "nproc", "Hard": 9, "Soft": 9}}\n}\n'
)


def test_docker_keeps_the_operators_file(tmp_path: pathlib.Path) -> None:
    machine = Engines.made(tmp_path, "dockerd")
    machine.put(DOCKER, THEIRS)
    rows = apply(machine, sysctls=SYSCTLS, ulimits={"nofile": "1024:4096"}, shm_size="16GiB")
    assert told(rows) == {
        "docker.sysctls": "unsupported",
        "docker.ulimits": "changed",
        "docker.shm_size": "changed",
    }
    assert rows["docker.sysctls"].reason.startswith("Docker has no default sysctls")
    text = machine.read(DOCKER)
    assert text.startswith('{\n    "default-shm-size": "16g",\n    "debug": true,\n')
    assert machine.json()["default-ulimits"] == {
        "nproc": {"Name": "nproc", "Hard": 9, "Soft": 9},
        "nofile": {"Name": "nofile", "Hard": 4096, "Soft": 1024},
    }
    machine.put(DOCKER, text.replace('"debug": true', '"debug": false,\n    "live-restore": true'))
    machine.forget()
    apply(machine, shm_size="1536MiB")
    assert machine.json() == {
        **json.loads(THEIRS),
        "debug": False,
        "live-restore": True,
        "default-shm-size": "1536m",
    }
    machine.forget()
    apply(machine)
    assert machine.json() == {**json.loads(THEIRS), "debug": False, "live-restore": True}
    assert '    "debug": false,\n    "live-restore": true,' in machine.read(DOCKER)


def test_dockers_file_comes_and_goes(tmp_path: pathlib.Path) -> None:
    machine = Engines.made(tmp_path, "dockerd")
    apply(machine, shm_size="1000")
    assert machine.json() == {"default-shm-size": "1000"}
    machine.forget()
    apply(machine, shm_size="1024")
    assert machine.json() == {"default-shm-size": "1k"}
    machine.forget()
    apply(machine)
    assert not machine.exists(DOCKER)


def test_a_value_of_the_operator_returns(tmp_path: pathlib.Path) -> None:
    machine = Engines.made(tmp_path, "dockerd")
    machine.put(DOCKER, '{"default-shm-size": "1g"}')
    before = machine.tuned()
    apply(machine, shm_size="2GiB")
    assert machine.read(DOCKER) == '{"default-shm-size": "2g"}'
    apply(machine)
    assert machine.tuned() == before
    apply(machine, shm_size="2GiB")
    revert.revert(machine)
    assert machine.read(DOCKER) == '{"default-shm-size": "1g"}'


def test_a_size_that_is_right_keeps_its_spelling(tmp_path: pathlib.Path) -> None:
    machine = Engines.made(tmp_path, "dockerd")
    for text in ("1024 MB", "1.0g", "1073741824"):
        machine.put(DOCKER, f'{{"default-shm-size": "{text}"}}')
        machine.forget()
        assert told(apply(machine, shm_size="1GiB")) == {"docker.shm_size": "ok"}
        assert machine.read(DOCKER) == f'{{"default-shm-size": "{text}"}}'


@pytest.mark.parametrize(
    "text",
    ["", '{"debug": true}', "{}", '{"default-ulimits": null}', '{\r\n"default-shm-size": "1g"}', "{ }\n\n"],
)
def test_the_same_bytes_return(tmp_path: pathlib.Path, text: str) -> None:
    machine = Engines.made(tmp_path, "dockerd")
    machine.put(DOCKER, text)
    apply(machine, shm_size="2GiB", ulimits={"nofile": 4096})
    apply(machine, shm_size="3GiB", ulimits={"nofile": 4096})
    apply(machine)
    assert machine.read(DOCKER) == text


def test_two_declarations_share_dockers_file(tmp_path: pathlib.Path) -> None:
    machine = Engines.made(tmp_path, "dockerd")
    apply(machine, "a", shm_size="1GiB")
    apply(machine, "b", ulimits={"nofile": 4096})
    assert sorted(machine.json()) == ["default-shm-size", "default-ulimits"]
    apply(machine, "a")
    assert sorted(machine.json()) == ["default-ulimits"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"debug": true', "line 1: expected '}', got ''"),
        ('{"debug": true} x', "line 1: expected the end, got 'x'"),
        ('{"a": 1, "a": 2}', "line 1: a is there twice"),
        ("[]", "line 1: expected '{', got '[]'"),
        ('{\n  "a": 1,\n}', "Expecting value"),
        ('{"a": NaN}', "NaN is not a value of JSON"),
        ('{"a": ' + "[" * 100000, "expected fewer levels"),
        ("\ufeff{}", "line 1: expected '{'"),
        ('{"default-shm-size": 1073741824}', "line 1: expected default-shm-size as a text in quotes"),
        ('{"default-shm-size": "lots"}', "line 1: expected default-shm-size as a size such as 64m"),
        ('{"default-ulimits": {"a": {"Name": "a", "Hard": 1, "Soft": 1}}}', "a: expected a limit, such as"),
        ('{\n"default-ulimits": ["nofile=1"]}', "line 2: expected default-ulimits as an object"),
        *(
            (f'{{"default-ulimits": {{"nproc": {entry}}}}}', "line 1: default-ulimits.nproc: expected")
            for entry in (
                '"1:2"',
                '{"Hard": 2, "Soft": 1}',
                '{"Name": "nofile", "Hard": 2, "Soft": 1}',
                '{"Name": "nproc", "Hard": "2", "Soft": "1"}',
                '{"Name": "nproc", "Hard": 2.0, "Soft": 1}',
                '{"Name": "nproc", "Hard": true, "Soft": true}',
                '{"Name": "nproc", "Hard": 1, "Soft": 2}',
                '{"Name": "nproc", "Hard": 9223372036854775808, "Soft": 2}',
            )
        ),
    ],
)
def test_a_file_that_docker_could_not_read_stays(tmp_path: pathlib.Path, text: str, said: str) -> None:
    machine = Engines.made(tmp_path, "dockerd")
    machine.put(DOCKER, text)
    row = apply(machine, shm_size="1GiB")["docker.shm_size"]
    assert (str(row.status), said in row.reason) == ("unknown", True), row.reason
    assert machine.read(DOCKER) == text


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("/usr/sbin/dockerd --default-shm-size 1g", "has --default-shm-size, and dockerd does not start"),
        ('/usr/sbin/dockerd "--default-shm-size" "1g"', "has --default-shm-size, and dockerd does not start"),
        ("/usr/sbin/dockerd --config-file=/srv/d.json", "makes dockerd read /srv/d.json"),
    ],
)
def test_dockers_arguments_come_first(tmp_path: pathlib.Path, command: str, said: str) -> None:
    machine = Engines.made(tmp_path, "dockerd")
    machine.starts("docker", command)
    row = apply(machine, shm_size="1GiB")["docker.shm_size"]
    assert (str(row.status), said in row.reason) == ("unsupported", True), row.reason
    assert "/usr/lib/systemd/system/docker.service:2" in row.reason
    assert not machine.exists(DOCKER)


@pytest.mark.parametrize(
    ("file", "status"),
    [
        ("/etc/default/%p", "unsupported"),
        ("-/etc/default/%N", "unsupported"),
        ("/etc/default/dock*", "unsupported"),
        ("/etc/default/{docker,x}", "unsupported"),
        ("/etc/default/*.conf", "changed"),
        ("/nowhere/*", "changed"),
        ("/etc/*/docker", "unknown"),
        ("/etc/default/%H", "unknown"),
    ],
)
def test_an_environment_file_by_a_pattern(tmp_path: pathlib.Path, file: str, status: str) -> None:
    machine = Engines.made(tmp_path, "dockerd")
    machine.unit("docker", f"[Service]\nExecStart=/usr/bin/dockerd $OPTIONS\nEnvironmentFile={file}\n")
    machine.put("/etc/default/docker", "OPTIONS=--default-shm-size=1g\n")
    assert told(apply(machine, shm_size="2GiB")) == {"docker.shm_size": status}
    assert machine.exists(DOCKER) == (status == "changed")


def test_an_argument_that_appears_later(tmp_path: pathlib.Path) -> None:
    machine = Engines.made(tmp_path, "dockerd")
    apply(machine, shm_size="1GiB", ulimits={"nofile": 4096})
    machine.starts("docker", "/usr/sbin/dockerd --default-shm-size 1g")
    machine.forget()
    for run in (look, apply):
        rows = run(machine, shm_size="1GiB", ulimits={"nofile": 4096})
        assert told(rows) == {"docker.ulimits": "ok", "docker.shm_size": "unsupported"}
    assert [*machine.json()] == ["default-ulimits"]
    machine.starts("docker", "/usr/sbin/dockerd --config-file /srv/d.json")
    machine.forget()
    assert told(look(machine, ulimits={"nofile": 4096})) == {"docker.ulimits": "unsupported"}


def test_a_link_of_the_operator_stays(tmp_path: pathlib.Path) -> None:
    machine = Engines.made(tmp_path, "dockerd")
    machine.put(DOCKER, '{"debug": true}')
    apply(machine, shm_size="1GiB")
    text = machine.read(DOCKER)
    machine.remove(DOCKER)
    machine.put("/srv/d.json", text)
    machine.link(DOCKER, "/srv/d.json")
    machine.forget()
    # dockerd reads through it.
    assert told(apply(machine, shm_size="1GiB")) == {"docker.shm_size": "ok"}
    assert told(apply(machine, shm_size="2GiB")) == {"docker.shm_size": "unsupported"}
    apply(machine)
    revert.revert(machine)
    assert (machine.link_target(DOCKER), machine.read("/srv/d.json")) == ("/srv/d.json", text)


# -- daemons -------------------------------------------------------------------------------


def test_a_running_daemon_reads_the_file_at_its_restart(tmp_path: pathlib.Path) -> None:
    machine = Engines.made(tmp_path, "dockerd")
    machine.daemon("dockerd", age=100)
    assert told(look(machine, shm_size="1GiB")) == {"docker.shm_size": "drifted"}
    row = apply(machine, shm_size="1GiB")["docker.shm_size"]
    assert str(row.status) == "pending_reboot"
    assert "not read yet by dockerd (systemctl restart docker)" in row.reason

    machine.daemon("dockerd", age=-100)
    machine.forget()
    assert told(look(machine, shm_size="1GiB")) == {"docker.shm_size": "ok"}


def test_a_file_that_was_removed_since_its_start(tmp_path: pathlib.Path) -> None:
    machine = Engines.made(tmp_path, "crio")
    later = "/etc/crio/crio.conf.d/zzz.conf"
    machine.put(later, "[crio.runtime]\ndefault_ulimits = ['nofile=1']\n")
    apply(machine, ulimits={"nofile": 4096})
    machine.daemon("crio", age=-100)
    assert told(look(machine, ulimits={"nofile": 4096})) == {"crio.ulimits": "overridden"}
    machine.remove(later)
    machine.forget()
    os.utime(f"{machine.root}/etc/crio/crio.conf.d", (time.time() + 200,) * 2)
    assert told(look(machine, ulimits={"nofile": 4096})) == {"crio.ulimits": "pending_reboot"}


def test_a_daemon_in_a_container_reads_other_files(tmp_path: pathlib.Path) -> None:
    machine = Engines.made(tmp_path, "dockerd")
    apply(machine, shm_size="1GiB")
    machine.daemon("dockerd", age=-100)
    machine.put("/proc/800/cgroup", "0::/system.slice/docker.service\n")
    machine.daemon("dockerd", age=100, pid=900)
    machine.put("/proc/900/cgroup", "0::/system.slice/docker-1234.scope\n")
    assert told(look(machine, shm_size="1GiB")) == {"docker.shm_size": "ok"}
    machine.put("/proc/800/cgroup", "0::/user.slice/user-0.slice/session-1.scope\n")
    machine.forget()
    assert told(look(machine, shm_size="1GiB")) == {"docker.shm_size": "pending_reboot"}


def test_crio_has_both_lists(tmp_path: pathlib.Path) -> None:
    machine = Engines.made(tmp_path, "crio")
    machine.put("/etc/crio/crio.conf", '[crio.runtime]\ndefault_sysctls = ["kernel.sem=1 2 3 4"]\n')
    machine.put("/etc/crio/crio.conf.d/10-a", '[crio]\nruntime.default_ulimits = ["core=0:0"]\n')
    machine.daemon("crio", age=100)
    rows = apply(machine, sysctls=SYSCTLS, ulimits={"nofile": 4096}, shm_size="1GiB")
    assert told(rows) == {
        "crio.sysctls": "pending_reboot",
        "crio.ulimits": "pending_reboot",
        "crio.shm_size": "unsupported",
    }
    assert lists(machine, CRIO) == {
        "default_sysctls": ["kernel.sem=1 2 3 4", "net.core.somaxconn=4096"],
        "default_ulimits": ["core=0:0", "nofile=4096:4096"],
    }
    assert machine.read(CRIO).split("\n")[2] == "[crio.runtime]"


def test_an_argument_of_crio_overrides(tmp_path: pathlib.Path) -> None:
    machine = Engines.made(tmp_path, "crio")
    machine.starts("crio", "/usr/bin/crio --default-sysctls=a=1")
    row = apply(machine, sysctls=SYSCTLS)["crio.sysctls"]
    assert (str(row.status), row.causes[-1].line) == ("overridden", 2)


@pytest.mark.parametrize(
    ("variable", "status"),
    [
        ("CONTAINER_DEFAULT_SYSCTLS=net.core.somaxconn=1", "overridden"),
        ('"CONTAINER_DEFAULT_SYSCTLS=a=1"', "overridden"),
        ("CONTAINER_CONFIG=/srv/crio.conf", "unsupported"),
        ("A=1 CONTAINER_CONFIG_DIR=/srv/crio.conf.d", "unsupported"),
        ("CONTAINER_CONFIG_DIR=/etc/crio/crio.conf.d", "changed"),
        ("CONTAINER_DEFAULT_ULIMITS=nofile=1 MY_CONTAINER_CONFIG=/x", "changed"),
    ],
)
def test_a_variable_of_crio_counts_as_its_argument(
    tmp_path: pathlib.Path, variable: str, status: str
) -> None:
    machine = Engines.made(tmp_path, "crio")
    machine.starts("crio", "/usr/bin/crio")
    machine.put("/etc/systemd/system/crio.service.d/x.conf", f"[Service]\nEnvironment={variable}\n")
    assert str(apply(machine, sysctls=SYSCTLS)["crio.sysctls"].status) == status


def test_containerd_says_what_to_do(tmp_path: pathlib.Path) -> None:
    machine = Engines.made(tmp_path, "containerd")
    rows = apply(machine, sysctls=SYSCTLS, ulimits={"nofile": 4096}, shm_size="1GiB")
    assert set(told(rows).values()) == {"unsupported"}
    # It serves Docker alone there.
    machine.starts("docker", "/usr/sbin/dockerd")
    machine.starts("containerd", "/usr/bin/containerd")
    machine.forget()
    assert not [key for key in apply(machine, sysctls=SYSCTLS) if key.startswith("containerd")]


@pytest.mark.parametrize(
    ("unit", "runtime", "said"),
    [
        ("k3s-agent", "kubelet", "set the values in /etc/rancher/k3s/config.yaml; see mlnode render kubelet"),
        ("rke2-server", "containerd", "limits of the unit"),
        ("snap.microk8s.daemon-kubelite", "kubelet", "/var/snap/microk8s/current/args/kubelet"),
        ("snap.docker.dockerd", "docker", "/var/snap/docker/current/config/daemon.json"),
    ],
)
def test_a_runtime_of_a_bundle_is_not_ok(tmp_path: pathlib.Path, unit: str, runtime: str, said: str) -> None:
    machine = Engines.made(tmp_path)
    machine.put(f"/etc/systemd/system/{unit}.service", "[Service]\nExecStart=/bin/x\n")
    before = machine.tuned()
    row = apply(machine, sysctls=SYSCTLS, ulimits={"nofile": 4096}, shm_size="1GiB")[f"{runtime}.ulimits"]
    assert (str(row.status), said in row.reason) == ("unsupported", True), row.reason
    assert f"{unit}.service contains it" in row.reason
    assert machine.tuned() == before


# -- kubelet -------------------------------------------------------------------------------

_DROP_INS = "--config=/var/lib/kubelet/config.yaml --config-dir=/etc/kubernetes/kubelet.conf.d"
CONFIG = "/var/lib/kubelet/config.yaml"


def kubelet(folder: pathlib.Path, arguments: str = _DROP_INS) -> Engines:
    machine = Engines.made(folder, "kubelet")
    machine.starts("kubelet", f"/usr/bin/kubelet {arguments}")
    return machine


def test_pods_may_ask_for_what_is_allowed(tmp_path: pathlib.Path) -> None:
    machine = kubelet(tmp_path)
    machine.put(
        CONFIG, "kind: KubeletConfiguration\nallowedUnsafeSysctls:\n- kernel.msg*\n- net.ipv4.tcp_fin_*\n"
    )
    machine.put("/etc/kubernetes/kubelet.conf.d/10-a.conf", "maxPods: 200\n")
    values = {**SYSCTLS, "net.ipv4.tcp_fin_timeout": 30}
    row = apply(machine, sysctls=values)["kubelet.sysctls"]
    assert (str(row.status), "none by themselves" in row.reason) == ("clamped", True)
    assert machine.read(KUBELET).split("\n")[2:] == [
        "apiVersion: kubelet.config.k8s.io/v1beta1",
        "kind: KubeletConfiguration",
        "allowedUnsafeSysctls:",
        '- "kernel.msg*"',
        '- "net.ipv4.tcp_fin_*"',
        '- "net.core.somaxconn"',
        "",
    ]
    machine.put("/etc/kubernetes/kubelet.conf.d/zzz.conf", "allowedUnsafeSysctls: []\n")
    machine.forget()
    row = look(machine, sysctls=values)["kubelet.sysctls"]
    assert (str(row.status), row.causes[-1].file) == ("overridden", "/etc/kubernetes/kubelet.conf.d/zzz.conf")


def test_a_slash_at_the_end_and_folders_of_drop_ins(tmp_path: pathlib.Path) -> None:
    machine = kubelet(tmp_path, f"{_DROP_INS}/")
    folder = KUBELET.rpartition("/")[0]
    machine.put(f"{folder}/10-site/a.conf", "allowedUnsafeSysctls: [kernel.sem]\n")
    machine.put(f"{folder}/10-site/README", "allowedUnsafeSysctls: none\n")
    apply(machine, sysctls={**SYSCTLS, "net.ipv4.tcp_fin_timeout": 30})
    apply(machine, sysctls=SYSCTLS)
    assert machine.read(KUBELET).split("\n")[4:] == [
        "allowedUnsafeSysctls:",
        '- "kernel.sem"',
        '- "net.core.somaxconn"',
        "",
    ]
    machine.link(f"{folder}/20-a.conf", "/nowhere")
    machine.forget()
    assert told(look(machine, sysctls=SYSCTLS)) == {"kubelet.sysctls": "unknown"}


def test_all_pods_get_defaults_where_the_kubelet_has_them(tmp_path: pathlib.Path) -> None:
    machine = kubelet(tmp_path)
    machine.put(
        CONFIG, 'featureGates:\n  DefaultPodSysctls: true\ndefaultPodSysctls: {"net.core.somaxconn": "1"}\n'
    )
    # The gate is unknown to an older kubelet, which does not start with it; the version decides.
    assert str(apply(machine, sysctls=SYSCTLS)["kubelet.sysctls"].status) == "clamped"
    machine.versions["kubelet"] = "Kubernetes v1.37.0"
    machine.forget()
    row = apply(machine, sysctls=SYSCTLS)["kubelet.sysctls"]
    assert (str(row.status), row.reading.runtime.text) == ("changed", "net.core.somaxconn=4096")
    assert machine.read(KUBELET).split("\n")[4:] == ["defaultPodSysctls:", '  net.core.somaxconn: "4096"', ""]


@pytest.mark.parametrize(
    "text", ["defaultPodSysctls:\n", '{"defaultPodSysctls": {"net.core.somaxconn": null}}']
)
def test_null_takes_values_of_earlier_files_away(tmp_path: pathlib.Path, text: str) -> None:
    machine = kubelet(tmp_path, f"{_DROP_INS} --feature-gates=DefaultPodSysctls=true")
    machine.versions["kubelet"] = "Kubernetes v1.37.0"
    apply(machine, sysctls=SYSCTLS)
    machine.put("/etc/kubernetes/kubelet.conf.d/zzz.conf", text)
    machine.forget()
    row = look(machine, sysctls=SYSCTLS)["kubelet.sysctls"]
    assert (str(row.status), "got null, which removes" in row.reason) == ("unknown", True), row.reason


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        ("--config=/x", "unsupported", "start it with --config-dir=/etc/kubernetes/kubelet.conf.d"),
        ("--config-dir /srv/k", "unsupported", "makes the kubelet read /srv/k instead"),
        (f"{_DROP_INS} --allowed-unsafe-sysctls=a", "overridden", "kubelet.service:2 overrides the file"),
    ],
)
def test_the_kubelets_arguments_come_first(
    tmp_path: pathlib.Path, arguments: str, status: str, said: str
) -> None:
    row = apply(kubelet(tmp_path, arguments), sysctls=SYSCTLS)["kubelet.sysctls"]
    assert (str(row.status), said in row.reason) == (status, True), row.reason


def test_yaml_that_is_not_understood_is_unknown(tmp_path: pathlib.Path) -> None:
    machine = kubelet(tmp_path)
    machine.put(CONFIG, "allowedUnsafeSysctls: &list\n- a\n")
    row = apply(machine, sysctls=SYSCTLS)["kubelet.sysctls"]
    assert (str(row.status), machine.exists(KUBELET)) == ("unknown", False)
    assert row.reason == f"cannot understand {CONFIG}: line 1: expected a list or a dictionary, got '&list'"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"# c\n# \x80\n", "line 2: expected UTF-8; correct it first"),
        *(
            (b'{"allowedUnsafeSysctls": ["a", "%b"]}' % name, "expected names of sysctls, got ")
            for name in (rb"\ud800", rb"a\"b", rb"\n", b"")
        ),
    ],
)
def test_names_that_no_kubelet_starts_with(tmp_path: pathlib.Path, text: bytes, said: str) -> None:
    machine = kubelet(tmp_path)
    machine.put(CONFIG, text)
    row = apply(machine, sysctls=SYSCTLS)["kubelet.sysctls"]
    assert (str(row.status), said in row.reason) == ("unknown", True), row.reason
    assert not machine.exists(KUBELET)


# -- boot and explanation ------------------------------------------------------------------


def test_the_boot_service_restores_a_file(tmp_path: pathlib.Path) -> None:
    machine = Engines.made(tmp_path, "podman")
    apply(machine, shm_size="1GiB")
    written = machine.read(PODMAN)
    machine.remove(PODMAN)
    machine.forget()
    request = door.request("site", "containers", {"shm_size": "1GiB"}, alone=True)
    _outcome, errors = boot_run.apply_each(machine, request)
    assert (errors, machine.read(PODMAN)) == ([], written)


def test_a_revert_without_origin_names_the_members_that_stay(tmp_path: pathlib.Path) -> None:
    machine = Engines.made(tmp_path, "podman", "dockerd")
    apply(machine, shm_size="1GiB")
    for path in (origin.PATH, origin.COPY):
        machine.remove(path)
    machine.forget()
    removal = without_origin.remove(machine)
    assert not machine.exists(PODMAN)
    assert removal.stays == (f"containers.docker.shm_size = 1073741824 at the next boots, from {DOCKER}:2",)


def test_every_line_that_sets_it(tmp_path: pathlib.Path) -> None:
    machine = Engines.made(tmp_path, "podman", "dockerd")
    machine.put(VENDOR, '[containers]\nshm_size = "1g"\n')
    apply(machine, shm_size="2GiB")
    kind = door.KINDS["containers"]
    assert kind.boot_sources("containers.podman.shm_size", machine) == [
        f"{VENDOR}:2: shm_size = 1000000000",
        f"{PODMAN}:4: shm_size = 2147483648",
    ]
    assert kind.boot_sources("containers.docker.shm_size", machine) == [
        f"{DOCKER}:2: default-shm-size = 2147483648"
    ]
    assert kind.boot_sources("containers.docker.sysctls", machine) == []
