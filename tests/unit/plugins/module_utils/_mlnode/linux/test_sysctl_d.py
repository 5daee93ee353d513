# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every rule was checked against systemd-sysctl 252 itself, and against sysctl.d(5)."""

from __future__ import annotations

import errno
import os
import pathlib

import pytest
from ansible_collections.mlnode.tuning.tests.unit import cases
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine
from ansible_collections.mlnode.tuning.tests.unit.strategies import quick
from hypothesis import given
from hypothesis import strategies as st
from mlnode.linux import sysctl_d, sysctl_values
from mlnode.linux.sysctl_d import BootConfig, Line

VLAN = "net/ipv4/conf/eth0.100/rp_filter"


@pytest.fixture
def bare(tmp_path: pathlib.Path) -> Machine:
    """A machine without any file."""
    return Machine(str(tmp_path))


def ruling(machine: Machine, key: str) -> tuple[str, str | None] | None:
    """`path:line` and value that decide a key at boot."""
    line = sysctl_d.load(machine).winner(key)
    return None if line is None else (line.where, line.value)


# -- which files, in which order -----------------------------------------------------------


@pytest.mark.parametrize("late", ["/etc", "/run", "/usr/local/lib", "/usr/lib", "/lib"])
@pytest.mark.parametrize("early", ["/etc", "/run", "/usr/local/lib", "/usr/lib", "/lib"])
def test_the_file_name_decides_the_order_and_not_the_folder(bare: Machine, early: str, late: str) -> None:
    bare.put(f"{early}/sysctl.d/10-a.conf", "vm.swappiness = 10\n")
    bare.put(f"{late}/sysctl.d/90-z.conf", "vm.swappiness = 90\n")
    assert ruling(bare, "vm/swappiness") == (f"{late}/sysctl.d/90-z.conf:1", "90")


@pytest.mark.parametrize(
    ("first", "second"), list(zip(sysctl_d.FOLDERS, sysctl_d.FOLDERS[1:])), ids=lambda folder: folder
)
def test_a_name_in_an_earlier_folder_hides_the_same_name_in_a_later_one(
    bare: Machine, first: str, second: str
) -> None:
    bare.put(f"{first}/50-x.conf", "vm.swappiness = 1\n")
    bare.put(f"{second}/50-x.conf", "vm.swappiness = 2\nvm.max_map_count = 2\n")
    assert ruling(bare, "vm/swappiness") == (f"{first}/50-x.conf:1", "1")
    assert ruling(bare, "vm/max_map_count") is None


def test_names_sort_by_bytes_so_capitals_come_first(bare: Machine) -> None:
    for name in ("Z.conf", "a.conf", "10.conf", "9.conf"):
        bare.put(f"/etc/sysctl.d/{name}", f"vm.swappiness = {name}\n")
    files = [line.file for line in sysctl_d.load(bare).lines]
    assert files == [f"/etc/sysctl.d/{name}" for name in ("10.conf", "9.conf", "Z.conf", "a.conf")]


@pytest.mark.parametrize("name", ["50-x", "50-x.conf~", "50-x.conf.rpmsave", "README", ".50-x.conf"])
def test_only_visible_names_that_end_in_conf_are_read(bare: Machine, name: str) -> None:
    bare.put(f"/etc/sysctl.d/{name}", "vm.swappiness = 1\n")
    assert ruling(bare, "vm/swappiness") is None


@pytest.mark.parametrize("target", ["/dev/null", "/opt/vendor/gone.conf", ""])
def test_a_link_to_nothing_and_an_empty_file_mask_a_file_of_a_later_folder(
    bare: Machine, target: str
) -> None:
    bare.put("/usr/lib/sysctl.d/50-x.conf", "vm.swappiness = 2\n")
    # A captured tree may hold a copy of /dev: nothing in it is read through the link.
    bare.put("/dev/null", "vm.swappiness = 3\n")
    if target:
        bare.link("/etc/sysctl.d/50-x.conf", target)
    else:
        bare.put("/etc/sysctl.d/50-x.conf", "")
    assert sysctl_d.load(bare) == BootConfig(())


def test_a_folder_with_the_name_of_a_file_sets_nothing(bare: Machine) -> None:
    bare.put("/etc/sysctl.d/50-x.conf/inner.conf", "vm.swappiness = 1\n")
    assert sysctl_d.load(bare) == BootConfig(())


def test_sysctl_conf_counts_only_through_a_link_to_it(bare: Machine) -> None:
    bare.put("/etc/sysctl.conf", "# own\nvm.swappiness = 30\n")
    assert ruling(bare, "vm/swappiness") is None
    bare.link("/etc/sysctl.d/99-sysctl.conf", "../sysctl.conf")
    assert ruling(bare, "vm/swappiness") == ("/etc/sysctl.d/99-sysctl.conf:2", "30")


def test_a_merged_lib_is_not_read_twice(bare: Machine) -> None:
    bare.put("/usr/lib/sysctl.d/50-x.conf", "vm.swappiness = 2\n")
    bare.link("/lib", "usr/lib")
    assert [line.where for line in sysctl_d.load(bare).lines] == ["/usr/lib/sysctl.d/50-x.conf:1"]


def test_a_machine_without_folders_sets_nothing(bare: Machine) -> None:
    assert sysctl_d.load(bare) == BootConfig(())


def test_an_unreadable_file_is_listed_as_it_may_set_anything(bare: Machine) -> None:
    bare.put("/etc/sysctl.d/10-a.conf", "vm.swappiness = 1\n")
    bare.put("/etc/sysctl.d/20-b.conf", "vm.swappiness = 2\n")
    bare.unreadable["/etc/sysctl.d/20-b.conf"] = errno.EACCES
    config = sysctl_d.load(bare)
    assert [line.where for line in config.lines] == ["/etc/sysctl.d/10-a.conf:1"]
    assert len(config.unreadable) == 1
    assert "/etc/sysctl.d/20-b.conf" in config.unreadable[0]
    assert "EACCES" in config.unreadable[0]


def test_an_unreadable_folder_is_listed(bare: Machine) -> None:
    bare.link("/etc/sysctl.d", "sysctl.d")  # to itself: ELOOP for everybody, root included
    bare.put("/usr/lib/sysctl.d/50-x.conf", "vm.swappiness = 2\n")
    config = sysctl_d.load(bare)
    assert [line.value for line in config.lines] == ["2"]
    assert len(config.unreadable) == 1
    assert "/etc/sysctl.d" in config.unreadable[0]


# -- one file ------------------------------------------------------------------------------


@cases.table
def test_a_statement_is_read_as_systemd_does(text: str, key: str, value: str | None) -> None:
    assert sysctl_d.parse(f"# head\n\n{text}\n", "/f") == [Line(key, value, "/f", 3)]


@cases.table
def test_what_systemd_ignores_is_ignored(text: str) -> None:
    assert sysctl_d.parse(text, "/f") == []


@cases.table
def test_a_line_ends_where_systemd_ends_it(text: str, numbers: list[int]) -> None:
    assert [(line.key, line.value, line.number) for line in sysctl_d.parse(text, "/f")] == [
        ("a", "1", numbers[0]),
        ("b", "2", numbers[1]),
    ]


def test_the_last_assignment_in_a_file_wins(bare: Machine) -> None:
    bare.put("/etc/sysctl.d/a.conf", "vm.swappiness = 1\nvm/swappiness = 2\n-vm.swappiness = 3\n")
    assert ruling(bare, "vm/swappiness") == ("/etc/sysctl.d/a.conf:3", "3")


def test_the_same_value_again_leaves_the_first_in_its_place(bare: Machine) -> None:
    """It matters where another key stands between them whose write changes this one."""
    bare.put("/etc/sysctl.d/a.conf", "vm.dirty_bytes = 5\nvm.dirty_ratio = 9\nvm.dirty_bytes = 5\n")
    assert ruling(bare, "vm/dirty_bytes") == ("/etc/sysctl.d/a.conf:1", "5")


def test_statements_of_a_key_are_all_that_speak_of_it_in_order(bare: Machine) -> None:
    bare.put("/etc/sysctl.d/a.conf", "net.ipv4.conf.*.rp_filter = 2\nvm.swappiness = 1\n")
    bare.put(
        "/etc/sysctl.d/b.conf", "net.ipv4.conf.eth0/100.rp_filter = 0\n-net.ipv4.conf.eth0/100.rp_filter\n"
    )
    lines = sysctl_d.load(bare).statements(VLAN)
    assert [f"{line.where} {line.text}" for line in lines] == [
        "/etc/sysctl.d/a.conf:1 net.ipv4.conf.*.rp_filter = 2",
        "/etc/sysctl.d/b.conf:1 net.ipv4.conf.eth0/100.rp_filter = 0",
        "/etc/sysctl.d/b.conf:2 -net.ipv4.conf.eth0/100.rp_filter",
    ]


# -- globs ---------------------------------------------------------------------------------


@cases.table
def test_globs_yield_to_what_names_the_key(bare: Machine, lines: list[str], value: str | None) -> None:
    # One file per line: the order of names is the order of lines.
    for number, line in enumerate(lines):
        bare.put(f"/etc/sysctl.d/{number}.conf", f"{line}\n")
    found = ruling(bare, VLAN)
    assert (found[1] if found else None) == value


def test_an_exclusion_is_a_word_about_the_key_and_silence_is_none(bare: Machine) -> None:
    bare.put("/etc/sysctl.d/a.conf", "-vm.swappiness\n")
    assert ruling(bare, "vm/swappiness") == ("/etc/sysctl.d/a.conf:1", None)
    assert ruling(bare, "vm/overcommit_memory") is None


# -- spellings -----------------------------------------------------------------------------


@cases.table
def test_the_first_separator_decides_the_spelling(key: str, path: str) -> None:
    assert sysctl_d.slashed(key) == path


#: A name of a file or folder below /proc/sys: interface names may hold dots
_part = st.text(alphabet="ab0_-.", min_size=1, max_size=5).filter(lambda part: part != ".")
_path = st.tuples(
    st.text(alphabet="ab0_-", min_size=1, max_size=5),  # the first separator has to be the folder's
    st.lists(_part, max_size=4),
).map(lambda parts: "/".join([parts[0], *parts[1]]))


@quick
@given(_path)
def test_slashed_undoes_dotted(path: str) -> None:
    assert sysctl_d.slashed(sysctl_d.dotted(path)) == path
    assert sysctl_d.slashed(path) == path


@quick
@given(
    st.one_of(
        st.text(),
        st.binary().map(lambda raw: raw.decode("utf-8", "surrogateescape")),
        st.text(alphabet="ab.-/=*?[]!^#; \t\r\n"),
    ),
    st.text(alphabet="ab./", max_size=4),
)
def test_parse_takes_any_text_and_every_line_can_be_asked(text: str, key: str) -> None:
    lines = sysctl_d.parse(text, "/f")
    most = sum(text.count(end) for end in "\n\r\0") + 1
    assert len(lines) <= most
    config = BootConfig(tuple(lines))
    for wanted in [key, *(line.key for line in lines)]:
        winner = config.winner(wanted)
        assert winner is None or winner in config.statements(wanted)
    for line in lines:
        assert line.text
        assert 1 <= line.number <= most


_word = st.sampled_from(["a", "b", "c.d", "*", "[ab]"])
_statements = st.lists(
    st.tuples(_word, _word, st.sampled_from([None, "1", "2"])).map(
        lambda parts: f"-{parts[0]}/{parts[1]}" if parts[2] is None else f"{parts[0]}/{parts[1]} = {parts[2]}"
    ),
    max_size=8,
)


@quick
@given(_statements, st.sampled_from(["a/a", "a/b", "b/c.d"]))
def test_the_winner_is_what_a_run_of_all_lines_would_leave(statements: list[str], key: str) -> None:
    """Against sysctl.c told in its own way: one table in order of insertion, then write by write."""
    table: dict[str, str | None] = {}
    for statement in statements:
        name, equals, value = statement.partition(" = ")
        name, wanted = name.lstrip("-"), value if equals else None
        if name in table and table[name] == wanted:
            continue
        table.pop(name, None)
        table[name] = wanted
    kernel: str | None = None
    for name, wanted in table.items():
        if wanted is not None and (name == key or (key not in table and _shell_matches(name, key))):
            kernel = wanted
    winner = BootConfig(tuple(sysctl_d.parse("\n".join(statements), "/f"))).winner(key)
    assert (winner.value if winner else None) == kernel


def _shell_matches(pattern: str, key: str) -> bool:
    """True if both parts of a pattern, of those used above, match."""
    parts = zip(pattern.split("/"), key.split("/"))
    return all(sign in ("*", name) or (sign == "[ab]" and name in ("a", "b")) for sign, name in parts)


def test_a_file_name_that_is_no_utf8_is_read_in_its_place(bare: Machine) -> None:
    bare.put("/etc/sysctl.d/a.conf", "vm.swappiness = 1\n")
    raw = os.fsencode(bare.root + "/etc/sysctl.d/") + b"b\xff.conf"
    with open(raw, "wb") as stream:
        stream.write(b"vm.swappiness = 2 \xff\n")
    config = sysctl_d.load(bare)
    winner = config.winner("vm/swappiness")
    assert not config.unreadable
    assert winner is not None
    assert winner.value == "2 \udcff"


# -- what other lines decide ---------------------------------------------------------------


def effect_of(lines: str, key: str) -> sysctl_d.Effect | None:
    found = sysctl_d.decided(sysctl_d.parse(lines, "a"), key, sysctl_values.writes(release="6.18"))
    return None if found is None else found.effect


@cases.table
def test_ports_depend_on_the_ports_of_root_that_another_line_raises(start: str, known: bool) -> None:
    lines = ["net.ipv4.ip_local_port_range = 2000 60000", f"net.ipv4.ip_unprivileged_port_start = {start}"]
    for text in ("\n".join(lines), "\n".join(reversed(lines))):
        effect = effect_of(text, "net/ipv4/ip_local_port_range")
        assert effect is not None
        assert effect.text == ("2000 60000" if known else None)
        assert ("a:" in effect.unknown and "ip_unprivileged_port_start" in effect.unknown) is not known


def test_a_path_that_climbs_to_a_key_is_unknown() -> None:
    text = "net.core.somaxconn = 4096\nnet/core/../core/somaxconn = 128"
    effect = effect_of(text, "net/core/somaxconn")
    assert effect is not None
    assert "`..`" in effect.unknown
    assert effect_of("net/core/../core/somaxconn = 128", "net/core/rmem_max") is None
    excluded = "net.core.somaxconn = 4096\n-net/core/../core/somaxconn"
    assert effect_of(excluded, "net/core/somaxconn") == sysctl_d.Effect("4096")


def test_a_pattern_with_alternatives_names_a_key() -> None:
    effect = effect_of("net.core.{somaxconn,[rw]mem_max} = 128", "net/core/somaxconn")
    assert effect == sysctl_d.Effect("128")
    # Without one of *?[ it is no pattern, and such a key does not exist
    assert effect_of("net.core.{somaxconn,rmem_max} = 128", "net/core/somaxconn") is None
