# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import errno
import os
import pathlib

import pytest
from ansible_collections.mlnode.tuning.tests.unit import cases, door
from ansible_collections.mlnode.tuning.tests.unit.machine import RELEASE, Machine
from ansible_collections.mlnode.tuning.tests.unit.strategies import quick
from hypothesis import given, strategies
from mlnode.engine import engine, revert
from mlnode.engine.engine import Request
from mlnode.engine.kind import Row
from mlnode.knobs.modules.kind import DROP_IN
from mlnode.knobs.modules.kind import kind as modules
from mlnode.linux import modules_load
from mlnode.model.errors import DeclarationError, HostError
from mlnode.model.setting import BOTH_LAYERS, Layer, Value

FILE = "/etc/modules-load.d/mlnode-modules.default.conf"
DEP, BUILTIN = (f"/lib/modules/{RELEASE}/modules.{name}" for name in ("dep", "builtin"))
RULES = "/etc/modprobe.d/local.conf"
BOOT = (Layer.BOOT,)


@pytest.fixture
def machine(tmp_path: pathlib.Path) -> Machine:
    found = Machine.debian(str(tmp_path / "node"))
    found.put(DEP, "kernel/a/ib_uverbs.ko.xz:\nkernel/a/rdma_ucm.ko.xz: kernel/a/ib_uverbs.ko.xz\n")
    found.put(BUILTIN, "kernel/fs/ext4/ext4.ko\n")
    return found


def request(*names: str, layers: tuple[Layer, ...] = BOTH_LAYERS) -> Request:
    return Request("default", modules, {"modules": [*names]} if names else {}, layers)


def row(machine: Machine, name: str = "ib_uverbs", layers: tuple[Layer, ...] = BOTH_LAYERS) -> Row:
    [found] = engine.evaluate(machine, request(name, layers=layers)).rows
    return found


def apply(
    machine: Machine, *names: str, layers: tuple[Layer, ...] = BOTH_LAYERS
) -> dict[str, tuple[str, str]]:
    """Key → status and reason."""
    rows = door.apply(machine, request(*names, layers=layers)).rows
    return {one.setting.key: (str(one.status), one.reason) for one in rows}


def loaded(machine: Machine) -> list[str]:
    return [name for name in machine.names("/sys/module") if name != ".keep"]


def listed(machine: Machine) -> list[str]:
    return [line for line in machine.text(FILE).splitlines() if not line.startswith("#")]


# -- declarations --------------------------------------------------------------------------


def test_both_signs_are_one() -> None:
    settings = door.parse("modules", {"modules": ["rdma-ucm", "ib_uverbs", "rdma_ucm"]})
    assert [(one.key, one.path, one.want) for one in settings] == [
        ("module.rdma_ucm", "/sys/module/rdma_ucm", "loaded"),
        ("module.ib_uverbs", "/sys/module/ib_uverbs", "loaded"),
    ]


@quick
@given(strategies.one_of(strategies.text(), strategies.text("ab-_.# \n;")))
def test_a_name_is_one_line_of_a_file(name: str) -> None:
    try:
        [setting] = door.parse("modules", {"modules": [name]})
    except DeclarationError:
        return
    assert name.isascii()
    assert not {*name} & {*" \t\r\n#;/.\\\0"}
    assert setting.key == "module." + name.replace("-", "_")


# -- runs ----------------------------------------------------------------------------------


def test_a_module_is_loaded_now_and_at_boot(machine: Machine) -> None:
    assert row(machine).reason == "runtime is not loaded; boot: no file in modules-load.d lists it"
    assert apply(machine, "rdma-ucm", "ib_uverbs") == {
        "module.rdma_ucm": ("changed", "runtime is not loaded; boot: no file in modules-load.d lists it"),
        "module.ib_uverbs": ("changed", "runtime is not loaded; boot: no file in modules-load.d lists it"),
    }
    assert loaded(machine) == ["ib_uverbs", "rdma_ucm"]
    assert listed(machine) == ["rdma_ucm", "ib_uverbs"]
    assert row(machine).reading.boot.source == f"{FILE}:4"


def test_the_file_of_sysctl_is_another() -> None:
    """Whatever the declarations are called."""
    assert not DROP_IN.startswith("/etc/modules-load.d/mlnode-modules-")


def test_a_revert_takes_no_module_away_from_who_uses_it_by_now(machine: Machine) -> None:
    machine.put("/sys/module/ib_uverbs/initstate", "live\n")
    before = machine.tree()
    apply(machine, "rdma_ucm", "ib_uverbs")
    changes = revert.pending(machine)
    assert revert.revert(machine) == changes
    assert {*machine.tree()} - {*before} == {"/sys/module/rdma_ucm"}
    assert not [change for change in changes if "rdma_ucm" in change.key]


def test_what_is_no_longer_declared_stays_until_the_boot(machine: Machine) -> None:
    apply(machine, "ib_uverbs", "rdma_ucm")
    apply(machine, "rdma_ucm")
    assert (listed(machine), loaded(machine)) == (["rdma_ucm"], ["ib_uverbs", "rdma_ucm"])
    apply(machine)
    assert not machine.exists(FILE)


@pytest.mark.parametrize("there", [False, True])
def test_built_in_counts_as_loaded(machine: Machine, there: bool) -> None:
    if there:
        machine.put("/sys/module/ext4/parameters/x", "1\n")
    found = row(machine, "ext4")
    assert (found.reading.runtime.text, found.reading.boot.source) == ("loaded", "built into the kernel")
    assert (str(found.status), found.reason) == ("ok", "built into the kernel")
    assert found.reading.load == ()


def test_built_in_is_listed_too_for_the_next_kernel(machine: Machine) -> None:
    apply(machine, "ext4")
    assert listed(machine) == ["ext4"]


def test_no_blacklist_stops_what_is_built_in(machine: Machine) -> None:
    machine.put(RULES, "blacklist ext4\n")
    assert str(row(machine, "ext4").status) == "ok"


@pytest.mark.parametrize("state", ["coming", "going"])
def test_a_module_that_comes_or_goes_is_not_there_yet(machine: Machine, state: str) -> None:
    machine.put("/sys/module/ib_uverbs/initstate", f"{state}\n")
    assert str(row(machine).status) == "drifted"


def test_what_this_kernel_does_not_have_is_unsupported_and_not_listed(machine: Machine) -> None:
    found = apply(machine, "ib_uverbs", "nvidia_peermem")
    words = f"/lib/modules/{RELEASE} has no module nvidia_peermem, and it is not built into this kernel"
    assert found["module.nvidia_peermem"] == ("unsupported", words)
    assert listed(machine) == ["ib_uverbs"]


def test_without_the_modules_of_this_kernel(machine: Machine) -> None:
    machine.remove(DEP)
    words = f"{DEP} does not exist: this kernel's modules are not installed"
    assert (str(row(machine).status), row(machine).reason) == ("unsupported", words)


def test_what_cannot_be_read_is_unknown_and_stays_listed(machine: Machine) -> None:
    apply(machine, "ib_uverbs")
    os.rmdir(f"{machine.root}/sys/module/ib_uverbs")
    machine.unreadable[DEP] = errno.EIO
    before = machine.tree()
    found = apply(machine, "ib_uverbs")["module.ib_uverbs"]
    assert found[0] == "unknown"
    assert DEP in found[1]
    assert machine.tree() == before


@pytest.mark.parametrize("layers", [BOTH_LAYERS, BOOT])
def test_a_loader_that_cannot_be_read_leaves_the_list(machine: Machine, layers: tuple[Layer, ...]) -> None:
    apply(machine, "ib_uverbs", layers=layers)
    drop_ins = "/etc/systemd/system/systemd-modules-load.service.d"
    machine.link(drop_ins, drop_ins)
    machine.forget()
    before = machine.tree()
    assert apply(machine, "ib_uverbs", layers=layers)["module.ib_uverbs"][0] == "unknown"
    assert machine.tree() == before


def test_a_kernel_that_cannot_be_looked_at_leaves_the_list(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    apply(machine, "ib_uverbs")
    before = machine.tree()

    def load(_host: object) -> None:
        raise HostError("read", "/etc/modprobe.d", errno.EIO)

    monkeypatch.setattr(modules_load, "load", load)
    assert apply(machine, "ib_uverbs")["module.ib_uverbs"][0] == "unknown"
    assert machine.tree() == before


# -- what stops it at boot -----------------------------------------------------------------


def test_a_blacklist_overrides_the_list_and_not_modprobe(machine: Machine) -> None:
    machine.put(RULES, "# theirs\nblacklist ib-uverbs\n")
    assert row(machine).reason == f"runtime is not loaded; boot: {RULES}:2 blacklists it"
    assert apply(machine, "ib_uverbs")["module.ib_uverbs"] == ("overridden", f"boot: {RULES}:2 blacklists it")
    assert (loaded(machine), listed(machine)) == (["ib_uverbs"], ["ib_uverbs"])
    machine.remove(RULES)
    assert str(row(machine).status) == "ok"


@cases.table
def test_what_modprobe_cannot_load_either_is_not_tried(
    machine: Machine, path: str, text: str, words: str
) -> None:
    machine.put(path, text)
    assert apply(machine, "ib_uverbs")["module.ib_uverbs"] == (
        "overridden",
        f"runtime is not loaded; boot: {words}",
    )
    assert (loaded(machine), listed(machine)) == ([], ["ib_uverbs"])


def test_a_kernel_that_loads_nothing_more_waits_for_a_boot(machine: Machine) -> None:
    machine.put("/proc/sys/kernel/modules_disabled", "1\n")
    assert apply(machine, "ib_uverbs")["module.ib_uverbs"] == (
        "pending_reboot",
        "runtime is not loaded; the next boot brings loaded",
    )
    assert loaded(machine) == []


def test_the_command_line_lists_modules_too(machine: Machine) -> None:
    machine.put("/proc/cmdline", "modules-load=ib_uverbs\n")
    assert row(machine).reading.boot.source == "kernel command line"


def test_a_rule_that_cannot_be_read_may_say_anything(machine: Machine) -> None:
    apply(machine, "ib_uverbs")
    machine.put(RULES, "")
    machine.unreadable[RULES] = errno.EACCES
    assert str(row(machine).status) == "unknown"
    assert RULES in row(machine).reason


# -- elsewhere -----------------------------------------------------------------------------


def in_container(machine: Machine) -> None:
    machine.put("/run/systemd/container", "docker\n")


def test_a_container_has_the_modules_of_its_host(machine: Machine) -> None:
    in_container(machine)
    machine.put("/sys/module/ib_uverbs/initstate", "live\n")
    before = machine.tree()
    found = engine.evaluate(machine, request("ib_uverbs", "rdma_ucm", "gone"))
    assert [(str(one.status), one.reading.boot.source) for one in found.rows] == [
        ("ok", "the container's host"),
        ("unsupported", ""),
        ("unsupported", ""),
    ]
    for one in found.rows[1:]:
        assert "belong to the container's host" in one.reason
    apply(machine, "ib_uverbs", "rdma_ucm", "gone")
    assert loaded(machine) == ["ib_uverbs"]
    new = {*machine.tree()} - {*before}
    assert not any("modules-load" in path for path in new)


@pytest.mark.parametrize("container", [False, True])
def test_an_image_build_writes_and_loads_nothing(machine: Machine, container: bool) -> None:
    if container:
        in_container(machine)
    machine.remove(DEP)
    machine.put("/proc/cmdline", "module_blacklist=ib_uverbs\n")
    apply(machine, "ib_uverbs", layers=BOOT)
    assert (loaded(machine), listed(machine)) == ([], ["ib_uverbs"])
    assert (str(row(machine, layers=BOOT).status), row(machine, layers=BOOT).reading.runtime) == (
        "ok",
        Value(),
    )


def test_an_image_build_sees_the_files_of_its_image(machine: Machine) -> None:
    machine.put(RULES, "blacklist ib_uverbs\n")
    assert apply(machine, "ib_uverbs", layers=BOOT)["module.ib_uverbs"][0] == "overridden"


# -- explanations --------------------------------------------------------------------------


def test_mentions(machine: Machine) -> None:
    machine.put(RULES, "options ib_uverbs x=1\n")
    machine.put("/proc/cmdline", "modprobe.blacklist=ib_uverbs\n")
    apply(machine, "ib_uverbs")
    assert modules.boot_sources("module.ib_uverbs", machine) == [
        "kernel command line (modprobe.blacklist=ib_uverbs) blacklists it",
        f"{FILE}:3: ib_uverbs",
        f"{RULES}:1: options ib_uverbs x=1",
    ]
