# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import errno
import pathlib
import tempfile

import pytest
from ansible_collections.mlnode.tuning.tests.unit import cases
from ansible_collections.mlnode.tuning.tests.unit.machine import RELEASE, Machine
from ansible_collections.mlnode.tuning.tests.unit.strategies import quick
from hypothesis import given, strategies
from mlnode.linux import modules_load


def listing(machine: Machine, name: str = "loop") -> str:
    line = modules_load.load(machine).listing(name)
    return line.where if line else ""


def barred(machine: Machine, name: str = "loop") -> tuple[str, bool] | None:
    barred = modules_load.load(machine).barred(name)
    return (barred.words, barred.for_all) if barred else None


# -- modules-load.d ------------------------------------------------------------------------


@cases.table
def test_a_line_is_a_name(machine: Machine, text: str, line: int) -> None:
    machine.put("/etc/modules-load.d/a.conf", text)
    assert listing(machine) == (f"/etc/modules-load.d/a.conf:{line}" if line else "")


@pytest.mark.parametrize("spelled", ["rdma-ucm", "rdma_ucm"])
def test_both_signs_are_one(machine: Machine, spelled: str) -> None:
    machine.put("/etc/modules-load.d/a.conf", f"{spelled}\n")
    assert listing(machine, "rdma_ucm") == "/etc/modules-load.d/a.conf:1"


@pytest.mark.parametrize("folder", ["/etc", "/run", "/usr/local/lib", "/usr/lib", "/lib"])
def test_every_folder_counts(machine: Machine, folder: str) -> None:
    machine.put(f"{folder}/modules-load.d/a.conf", "loop\n")
    assert listing(machine) == f"{folder}/modules-load.d/a.conf:1"


@cases.table
def test_a_name_in_an_earlier_folder_hides_the_later(machine: Machine, earlier: str, later: str) -> None:
    machine.put(f"{later}/modules-load.d/a.conf", "loop\n")
    machine.put(f"{earlier}/modules-load.d/a.conf", "# nothing\n")
    assert listing(machine) == ""


def test_a_link_to_nowhere_masks(machine: Machine) -> None:
    machine.put("/usr/lib/modules-load.d/a.conf", "loop\n")
    machine.link("/etc/modules-load.d/a.conf", "/dev/null")
    assert listing(machine) == ""


# -- the folders of modprobe.d (libkmod/libkmod.c: default_config_paths; libkmod-config.c: conf_files_list) --


@pytest.mark.parametrize("folder", ["/etc", "/run", "/usr/local/lib", "/usr/lib", "/lib"])
def test_every_folder_of_modprobe_counts(machine: Machine, folder: str) -> None:
    machine.put(f"{folder}/modprobe.d/a.conf", "options loop max_loop=8\nblacklist loop\n")
    config = modules_load.load(machine)
    assert [one.where for one in config.given("loop", "max_loop")] == [f"{folder}/modprobe.d/a.conf:1"]
    assert barred(machine) == (f"{folder}/modprobe.d/a.conf:2 blacklists it", False)


@cases.table
@pytest.mark.parametrize("masked", [False, True])
def test_a_file_of_an_earlier_folder_of_modprobe_hides_its_name(
    machine: Machine, earlier: str, later: str, masked: bool
) -> None:
    machine.put(f"{later}/modprobe.d/a.conf", "blacklist loop\n")
    machine.put(f"{later}/modprobe.d/b.conf", "blacklist fuse\n")
    if masked:
        machine.link(f"{earlier}/modprobe.d/a.conf", "/dev/null")
    else:
        machine.put(f"{earlier}/modprobe.d/a.conf", "# nothing\n")
    assert barred(machine) is None
    assert barred(machine, "fuse") == (f"{later}/modprobe.d/b.conf:1 blacklists it", False)


def test_files_of_modprobe_count_by_their_names_whatever_their_folder(machine: Machine) -> None:
    machine.put("/etc/modprobe.d/a.conf", "options loop max_loop=1\noptions loop max_loop=2 max_part=3\n")
    machine.put("/usr/lib/modprobe.d/z.conf", "options loop max-loop=4\n")
    machine.put("/run/modprobe.d/m.conf", "softdep loop pre: fuse\nremove loop /bin/true\noptions loop\n")
    machine.put("/lib/modprobe.d/y.conf~", "options loop max_loop=9\n")
    config = modules_load.load(machine)
    assert [one.value for one in config.given("loop", "max_loop")] == ["1", "2", "4"]
    assert [one.value for one in config.given("loop", "max_part")] == ["3"]
    assert barred(machine) is None


def test_usr_lib_is_not_read_twice(machine: Machine) -> None:
    (pathlib.Path(machine.root) / "lib").rename(f"{machine.root}/old")
    machine.link("/lib", "usr/lib")
    machine.put("/usr/lib/modprobe.d/a.conf", "blacklist loop\n")
    assert barred(machine) == ("/usr/lib/modprobe.d/a.conf:1 blacklists it", False)


@pytest.mark.parametrize("name", ["a.conf~", "a.con", ".a.conf", "a.conf.dpkg-old", "a.alias"])
def test_other_files_are_not_read(machine: Machine, name: str) -> None:
    machine.put(f"/etc/modules-load.d/{name}", "loop\n")
    assert listing(machine) == ""


def test_a_file_that_cannot_be_read_is_told(machine: Machine) -> None:
    machine.put("/etc/modprobe.d/a.conf", "")
    machine.unreadable["/etc/modprobe.d/a.conf"] = errno.EACCES
    [words] = modules_load.load(machine).unreadable
    assert words.startswith("cannot read /etc/modprobe.d/a.conf: EACCES")


# -- modprobe.d ----------------------------------------------------------------------------


@cases.table
def test_a_blacklist_names_modules(machine: Machine, text: str, words: str) -> None:
    machine.put("/etc/modprobe.d/a.conf", text)
    assert barred(machine) == ((f"/etc/modprobe.d/a.conf:{words}", False) if words else None)


@cases.table
def test_the_first_install_command_counts(machine: Machine, text: str, command: str) -> None:
    machine.put("/etc/modprobe.d/a.conf", text)
    words = f"/etc/modprobe.d/a.conf:1 has {command} run instead of loading it"
    assert barred(machine) == ((words, True) if command else None)


@cases.table
def test_what_another_install_command_does_is_not_known(machine: Machine, command: str) -> None:
    machine.put("/etc/modprobe.d/a.conf", f"install loop {command}\n")
    bar = modules_load.load(machine).barred("loop")
    assert bar is not None
    assert (bar.where, bar.for_all, bar.sure) == ("/etc/modprobe.d/a.conf:1", True, False)


@cases.table
def test_an_alias_comes_before_the_module(machine: Machine, text: str, words: str) -> None:
    machine.put("/etc/modprobe.d/a.conf", text)
    assert barred(machine) == ((f"/etc/modprobe.d/a.conf:{words}", True) if words else None)


def test_the_first_install_command_is_that_of_the_first_name(machine: Machine) -> None:
    machine.put("/etc/modprobe.d/b.conf", "install loop /sbin/modprobe --ignore-install loop\n")
    machine.put("/usr/lib/modprobe.d/a.conf", "install loop /bin/false\n")
    assert (barred(machine) or ("",))[0].startswith("/usr/lib/modprobe.d/a.conf:1 ")
    machine.put("/etc/modprobe.d/a.conf", "")
    assert barred(machine) is None


def test_mentions(machine: Machine) -> None:
    machine.put("/etc/modules-load.d/a.conf", "other\nloop\n")
    machine.put("/etc/modprobe.d/a.conf", "options loop max_loop=8\nblacklist other\ninstall lo* /bin/true\n")
    lines = modules_load.load(machine).boot_sources("loop")
    assert [f"{line.where}: {line.text}" for line in lines] == [
        "/etc/modules-load.d/a.conf:2: loop",
        "/etc/modprobe.d/a.conf:1: options loop max_loop=8",
        "/etc/modprobe.d/a.conf:3: install lo* /bin/true",
    ]


# -- the kernel command line ---------------------------------------------------------------


@cases.table
def test_the_command_line(machine: Machine, line: str, listed: bool, words: str, for_all: bool) -> None:
    machine.put("/proc/cmdline", f"{line}\n")
    found, barred = modules_load.on_command_line(machine, "rdma_ucm")
    assert found is listed
    assert (barred.words if barred else "").endswith(words)
    assert (barred is None) == (not words)
    assert barred is None or barred.words.startswith("kernel command line (")
    assert (barred.for_all if barred else False) is for_all


# -- what there is -------------------------------------------------------------------------


@cases.table
def test_names_of_files(machine: Machine, path: str) -> None:
    machine.put(f"/lib/modules/{RELEASE}/modules.dep", f"kernel/x.ko: kernel/rdma_ucx.ko\n{path}\n")
    assert modules_load.is_loadable(machine, RELEASE, "rdma_ucm")
    assert not modules_load.is_loadable(machine, RELEASE, "rdma_ucx")
    assert not modules_load.is_loadable(machine, "5.10", "rdma_ucm")
    assert not modules_load.is_built_in(machine, RELEASE, "rdma_ucm")
    machine.put(f"/lib/modules/{RELEASE}/modules.builtin", f"{path.partition(':')[0]}\n")
    assert modules_load.is_built_in(machine, RELEASE, "rdma_ucm")


_TEXT = strategies.lists(
    strategies.sampled_from(
        [
            "install",
            "blacklist",
            "options",
            "loop",
            "lo*",
            "[",
            "[!",
            "/bin/false",
            "#",
            ";",
            "\\",
            "\n",
            " ",
            "\t",
            "\r",
            "\0",
            "é",
        ]
    )
).map("".join)


@quick
@given(_TEXT, _TEXT)
def test_no_file_breaks_it(listed: str, rules: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        machine = Machine(folder)
        machine.put("/etc/modules-load.d/a.conf", listed)
        machine.put("/etc/modprobe.d/a.conf", rules)
        config = modules_load.load(machine)
        config.listing("loop")
        barred = config.barred("loop")
        assert config.unreadable == ()
        assert barred is None or "loop" in rules.replace("\\\n", "") or "*" in rules or "[" in rules
        config.boot_sources("loop")
