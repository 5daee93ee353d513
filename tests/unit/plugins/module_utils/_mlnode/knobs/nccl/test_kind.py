# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whole runs: what is written, what stays, what is told, and what is put back."""

from __future__ import annotations

import errno
import os
import pathlib

import pytest
from ansible_collections.mlnode.tuning.tests.unit import cases, door
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine
from mlnode.engine import boot_run, engine, revert
from mlnode.knobs.nccl import jobs
from mlnode.knobs.nccl.file import PATH
from mlnode.knobs.nccl.kind import kind as nccl
from mlnode.model.errors import DeclarationError, HostError, RefusedError
from mlnode.model.setting import BOTH_LAYERS, Layer, Severity, Value

from .node import HCAS, apply, block, conf, declare_class, give_addresses, plan, request, roce, row, rows

BOOT, RUNTIME = (Layer.BOOT,), (Layer.RUNTIME,)

#: As an administrator has left it: a comment, blanks, CRLF, a byte that is no UTF-8, no end of the last line
THEIRS = "# site defaults\n\n NCCL_NET=IB\nNCCL_DEBUG=INFO\r\nNCCL_ALGO=Ring\n# \udcff\nNCCL_IB_TIMEOUT=22"


@pytest.fixture
def machine(tmp_path: pathlib.Path) -> Machine:
    return roce(str(tmp_path / "node"))


def put_theirs(machine: Machine, text: str = THEIRS) -> None:
    with open(machine.root + PATH, "wb") as stream:
        stream.write(text.encode("utf-8", "surrogateescape"))


# -- the file ------------------------------------------------------------------------------


def test_a_new_file(machine: Machine) -> None:
    done = apply(machine, NCCL_IB_HCA="auto", NCCL_SOCKET_IFNAME="auto", NCCL_DEBUG="WARN")

    assert conf(machine) == block(f"NCCL_IB_HCA={HCAS}", "NCCL_SOCKET_IFNAME==eth0", "NCCL_DEBUG=WARN")
    assert os.stat(machine.root + PATH).st_mode & 0o777 == 0o644
    assert done.changed
    assert {str(found.status) for found in done.rows} == {"changed"}
    assert {key: found.reading.runtime.text for key, found in rows(done).items()} == {
        "NCCL_IB_HCA": HCAS,
        "NCCL_SOCKET_IFNAME": "=eth0",
        "NCCL_DEBUG": "WARN",
    }


def gpu(machine: Machine, vendor: str) -> None:
    folder = "/sys/devices/pci0000:e1/0000:e1:00.0"
    for name, text in (("vendor", vendor), ("device", "0x74a1"), ("class", "0x030200")):
        machine.put(f"{folder}/{name}", f"{text}\n")
    machine.link("/sys/bus/pci/devices/0000:e1:00.0", f"../../..{folder[len('/sys') :]}")


RCCL = "/etc/rccl.conf"


def test_gpus_whose_library_reads_another_file(machine: Machine) -> None:
    gpu(machine, "0x1002")
    machine.put(RCCL, "NCCL_ALGO=Ring\n")
    done = apply(machine, NCCL_DEBUG="WARN")
    assert [(str(found.status), found.reading.path) for found in done.rows] == [("changed", RCCL)]
    assert machine.text(RCCL) == block("NCCL_DEBUG=WARN") + "NCCL_ALGO=Ring\n"
    assert not machine.exists(PATH)
    assert not apply(machine, NCCL_DEBUG="WARN").changed
    assert f"{RCCL}:2: NCCL_DEBUG=WARN" in nccl.boot_sources("nccl.NCCL_DEBUG", machine)
    apply(machine, RCCL_MSCCL_ENABLE=0)
    assert machine.text(RCCL) == block("RCCL_MSCCL_ENABLE=0") + "NCCL_ALGO=Ring\n"
    revert.revert(machine)
    assert machine.text(RCCL) == "NCCL_ALGO=Ring\n"
    with pytest.raises(
        DeclarationError, match="RCCL_MSCCL_ENABL': NCCL knows no such variable; did you mean"
    ):
        apply(machine, RCCL_MSCCL_ENABL=0)


@pytest.mark.parametrize("target", ["nccl.conf", PATH])
def test_one_file_for_both_libraries(machine: Machine, target: str) -> None:
    gpu(machine, "0x1002")
    machine.link(RCCL, target)
    assert str(apply(machine, NCCL_DEBUG="WARN").rows[0].status) == "changed"
    assert conf(machine) == block("NCCL_DEBUG=WARN")
    assert machine.link_target(RCCL) == target
    revert.revert(machine)
    assert not machine.exists(PATH)


def test_a_link_to_any_other_file_is_not_written(machine: Machine) -> None:
    gpu(machine, "0x1002")
    machine.put("/srv/site.conf", "NCCL_DEBUG=INFO\n")
    machine.link(RCCL, "/srv/site.conf")
    with pytest.raises(RefusedError, match=f"{RCCL} is a link to /srv/site.conf"):
        apply(machine, NCCL_DEBUG="WARN")


@pytest.mark.parametrize("number", [errno.EACCES, errno.EIO])
def test_the_other_file_cannot_be_read(machine: Machine, number: int) -> None:
    gpu(machine, "0x1002")
    machine.put(RCCL, "NCCL_ALGO=Ring\n")
    machine.unreadable[RCCL] = number
    assert str(row(plan(machine, NCCL_DEBUG="WARN")).status) == "unknown"


def test_a_link_that_cannot_be_read_is_unknown(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    gpu(machine, "0x1002")
    real = machine.link_target

    def link_target(path: str) -> str:
        if path == RCCL:
            raise HostError("read link", path, errno.EIO)
        return real(path)

    monkeypatch.setattr(machine, "link_target", link_target)
    assert jobs.look(machine).lines == ()  # and raises nothing
    assert str(row(plan(machine, NCCL_DEBUG="WARN")).status) == "unknown"


def without_gpu(machine: Machine) -> None:
    machine.remove("/sys/bus/pci/devices/0000:e1:00.0")
    machine.forget()


def test_gpus_that_are_not_visible_for_a_while_move_no_line(machine: Machine) -> None:
    gpu(machine, "0x1002")
    machine.put(PATH, "NCCL_ALGO=Ring\n")
    apply(machine, NCCL_DEBUG="WARN")
    without_gpu(machine)
    again = apply(machine, NCCL_DEBUG="WARN")
    assert (str(row(again).status), row(again).reading.path) == ("ok", RCCL)
    assert (machine.text(RCCL), machine.text(PATH)) == (block("NCCL_DEBUG=WARN"), "NCCL_ALGO=Ring\n")
    apply(machine)
    assert (machine.exists(RCCL), machine.text(PATH)) == (False, "NCCL_ALGO=Ring\n")


def test_the_block_of_an_image_moves_to_the_file_of_the_gpus(machine: Machine) -> None:
    machine.put(PATH, "NCCL_ALGO=Ring\n")
    apply(machine, layers=BOOT, NCCL_DEBUG="WARN")
    gpu(machine, "0x1002")
    machine.forget()
    apply(machine, NCCL_DEBUG="WARN")  # the first boot
    assert (machine.text(RCCL), machine.text(PATH)) == (block("NCCL_DEBUG=WARN"), "NCCL_ALGO=Ring\n")
    revert.revert(machine)
    assert (machine.exists(RCCL), machine.text(PATH)) == (False, "NCCL_ALGO=Ring\n")


@pytest.mark.parametrize("still", [True, False])
def test_other_gpus_leave_no_block_behind(machine: Machine, still: bool) -> None:
    gpu(machine, "0x1002")
    apply(machine, NCCL_DEBUG="WARN")
    without_gpu(machine)
    gpu(machine, "0x10de")
    machine.forget()
    apply(machine, **({"NCCL_DEBUG": "INFO"} if still else {}))
    assert (machine.exists(RCCL), machine.exists(PATH)) == (False, still)


def test_gpus_whose_library_reads_this_file(machine: Machine) -> None:
    gpu(machine, "0x10de")
    assert str(apply(machine, NCCL_DEBUG="WARN").rows[0].status) == "changed"


def test_the_lines_of_others_stay_byte_for_byte(machine: Machine) -> None:
    put_theirs(machine)
    os.chmod(machine.root + PATH, 0o640)

    apply(machine, NCCL_DEBUG="WARN")
    assert conf(machine) == block("NCCL_DEBUG=WARN") + THEIRS
    apply(machine, NCCL_DEBUG="VERSION", NCCL_NET="Socket")
    assert conf(machine) == block("NCCL_DEBUG=VERSION", "NCCL_NET=Socket") + THEIRS
    assert os.stat(machine.root + PATH).st_mode & 0o777 == 0o640
    apply(machine)
    assert conf(machine) == THEIRS


def test_declarations_have_blocks_of_their_own(machine: Machine) -> None:
    apply(machine, "b", NCCL_DEBUG="WARN")
    apply(machine, "a", NCCL_NET="IB")
    both = block("NCCL_NET=IB", name="a") + block("NCCL_DEBUG=WARN", name="b")
    assert conf(machine) == both
    assert not apply(machine, "b", NCCL_DEBUG="WARN").changed

    apply(machine, "a")
    assert conf(machine) == block("NCCL_DEBUG=WARN", name="b")
    apply(machine, "b")
    assert not machine.exists(PATH)


def test_a_declaration_that_was_removed_by_hand_does_not_win_for_ever(machine: Machine) -> None:
    apply(machine, "a", NCCL_DEBUG="INFO")
    machine.remove("/etc/mlnode/declared.d/a.json")

    assert str(row(plan(machine, "b", NCCL_DEBUG="WARN")).status) == "drifted"
    assert str(row(apply(machine, "b", NCCL_DEBUG="WARN")).status) == "changed"
    assert conf(machine) == block("NCCL_DEBUG=WARN", name="b")


def test_a_declaration_that_is_damaged_keeps_its_block(machine: Machine) -> None:
    apply(machine, "a", NCCL_DEBUG="INFO")
    machine.put("/etc/mlnode/declared.d/a.json", "{")

    at_boot = request("b", BOTH_LAYERS, (), {"NCCL_NET": "IB"})._replace(alone=True)
    _outcome, errors = boot_run.apply_each(machine, at_boot)

    assert errors == []
    assert conf(machine) == block("NCCL_DEBUG=INFO", name="a") + block("NCCL_NET=IB", name="b")


def test_two_declarations_that_disagree_are_both_named(machine: Machine) -> None:
    apply(machine, "a", NCCL_IB_TC="0x6a")
    assert not apply(machine, "a", NCCL_IB_TC=106).plan.rows[0].status.is_drift
    with pytest.raises(DeclarationError, match=r"declared as '104' by b and as '106' by a"):
        apply(machine, "b", NCCL_IB_TC=104)
    apply(machine, "b", NCCL_IB_TC=106)  # the same, in another spelling


def test_nothing_declared_leaves_a_file_of_others_alone(machine: Machine) -> None:
    put_theirs(machine, "")
    assert not apply(machine).changed
    assert machine.exists(PATH)


def test_what_was_in_the_block_by_hand_goes(machine: Machine) -> None:
    apply(machine, NCCL_DEBUG="WARN")
    put_theirs(machine, conf(machine).replace("NCCL_DEBUG=WARN\n", "NCCL_DEBUG=WARN\nNCCL_NET=Socket\n"))
    apply(machine, NCCL_DEBUG="WARN")
    assert conf(machine) == block("NCCL_DEBUG=WARN")


# -- what counts ---------------------------------------------------------------------------


@cases.table
def test_a_value_that_is_not_the_wanted_one_does_not_look_like_it(
    machine: Machine, text: str, shown: str
) -> None:
    put_theirs(machine, text)
    found = row(plan(machine, NCCL_IB_TC=106))
    assert found.reading.runtime == Value(text=shown)
    assert str(found.status) == "drifted"
    assert str(row(apply(machine, NCCL_IB_TC=106)).status) == "changed"


def test_a_line_of_others_that_is_overruled_is_told(machine: Machine) -> None:
    put_theirs(machine)
    apply(machine, NCCL_IB_TIMEOUT=20, NCCL_ALGO="Ring")

    found = rows(plan(machine, NCCL_IB_TIMEOUT=20, NCCL_ALGO="Ring"))

    assert str(found["NCCL_IB_TIMEOUT"].status) == "ok"
    assert found["NCCL_IB_TIMEOUT"].reason == (
        "/etc/nccl.conf:11 sets 22, which the line before it overrules"
    )
    assert found["NCCL_ALGO"].reason == ""  # theirs says the same


def test_a_line_that_somebody_puts_before_ours_is_drift_and_mended(machine: Machine) -> None:
    apply(machine, NCCL_DEBUG="WARN")
    put_theirs(machine, "NCCL_DEBUG=INFO\n" + conf(machine))

    found = row(plan(machine, NCCL_DEBUG="WARN"))
    assert str(found.status) == "drifted"
    assert found.reason == "runtime is INFO; boot: /etc/nccl.conf:1 sets INFO"

    apply(machine, NCCL_DEBUG="WARN")
    assert conf(machine) == block("NCCL_DEBUG=WARN") + "NCCL_DEBUG=INFO\n"


def test_the_environment_of_a_login_overrides(machine: Machine) -> None:
    machine.put("/etc/environment", "LANG=C\nNCCL_IB_TC=104\n")
    done = row(apply(machine, NCCL_IB_TC=106))

    assert str(done.status) == "overridden"
    assert done.reason == "boot: /etc/environment:2 sets 104"
    assert done.reading.boot.foreign
    assert conf(machine) == block("NCCL_IB_TC=106")
    machine.put("/etc/environment", "LANG=C\nNCCL_IB_TC='106'\n")
    assert str(row(plan(machine, NCCL_IB_TC=106)).status) == "ok"


def test_what_may_set_it_is_told_and_no_more(machine: Machine) -> None:
    machine.put("/etc/profile.d/a.sh", "export NCCL_IB_TC='106';\n")
    machine.put("/etc/profile.d/b.sh", '[ -e /x ] && export NCCL_IB_TC="104"\n')
    machine.unreadable["/etc/profile.d/a.sh"] = errno.EIO
    done = row(plan(machine, NCCL_IB_TC=106))
    assert "EIO" in done.reading.note
    del machine.unreadable["/etc/profile.d/a.sh"]

    apply(machine, NCCL_IB_TC=106)
    done = row(plan(machine, NCCL_IB_TC=106))

    assert str(done.status) == "ok"
    assert done.reason == "jobs that start with /etc/profile.d/b.sh:1 may have another value"


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o750])
def test_a_file_of_ours_that_users_cannot_read_is_drift_and_mended(machine: Machine, mode: int) -> None:
    apply(machine, NCCL_DEBUG="WARN")
    before = machine.tree()
    os.chmod(machine.root + PATH, mode)
    found = row(plan(machine, NCCL_DEBUG="WARN"))
    assert (str(found.status), found.reason) == (
        "drifted",
        (
            f"runtime is WARN, for the file's owner only; boot: /etc/nccl.conf has mode {mode:04o}, and NCCL "
            "passes over a file that a job's user cannot read: chmod o+r /etc/nccl.conf"
        ),
    )
    assert str(row(apply(machine, NCCL_DEBUG="WARN")).status) == "changed"
    assert machine.tree() == before
    assert not apply(machine, NCCL_DEBUG="WARN").changed


def test_a_file_of_ours_is_opened_at_boot_and_in_an_image(machine: Machine) -> None:
    apply(machine, NCCL_DEBUG="WARN")
    before = machine.tree()
    os.chmod(machine.root + PATH, 0o600)
    work = request("jobs", BOTH_LAYERS, (), {"NCCL_DEBUG": "WARN"})
    boot_run.apply_each(machine, work)
    assert machine.tree() == before
    os.chmod(machine.root + PATH, 0o600)
    work = work._replace(layers=BOOT)
    assert str(row(engine.evaluate(machine, work)).status) == "drifted"
    door.apply(machine, work)
    assert machine.tree() == before


def test_a_file_with_lines_of_others_stays_closed_and_is_drift(machine: Machine) -> None:
    put_theirs(machine)
    os.chmod(machine.root + PATH, 0o600)
    found = row(apply(machine, NCCL_DEBUG="WARN"))
    assert (str(found.status), "chmod o+r /etc/nccl.conf" in found.reason) == ("drifted", True)
    assert machine.mode(PATH) == 0o600
    os.chmod(machine.root + PATH, 0o604)
    assert str(row(plan(machine, NCCL_DEBUG="WARN")).status) == "ok"


def test_a_folder_that_users_cannot_pass_is_drift(machine: Machine) -> None:
    apply(machine, NCCL_DEBUG="WARN")
    os.chmod(machine.root + "/etc", 0o750)
    found = row(apply(machine, NCCL_DEBUG="WARN"))
    assert (str(found.status), found.reason.rpartition(": ")[2]) == ("drifted", "chmod o+x /etc")


def test_a_name_that_is_not_on_the_machine_is_told(machine: Machine) -> None:
    apply(machine, NCCL_IB_HCA="=mlx5_0,mlx5_7")
    found = row(plan(machine, NCCL_IB_HCA="=mlx5_0,mlx5_7"))
    assert (str(found.status), found.reason) == ("ok", "mlx5_7: not on this machine")


# -- what is left out ----------------------------------------------------------------------


def test_an_index_that_is_no_longer_certain_goes(machine: Machine) -> None:
    give_addresses(machine, {"mlx5_0": [3], "mlx5_1": [3]})
    apply(machine, NCCL_IB_GID_INDEX="auto", NCCL_DEBUG="WARN")
    assert conf(machine) == block("NCCL_IB_GID_INDEX=3", "NCCL_DEBUG=WARN")
    give_addresses(machine, {"mlx5_1": [5]})

    drifted = rows(plan(machine, NCCL_IB_GID_INDEX="auto", NCCL_DEBUG="WARN"))["NCCL_IB_GID_INDEX"]
    assert (str(drifted.status), drifted.reading.want) == ("drifted", "not set")
    assert drifted.reason == (
        "runtime is 3; boot: /etc/nccl.conf:2 sets 3, and it is left out: each rail must have one IPv4 "
        "address of RoCE v2, and mlx5_1:1 has 2 of them"
    )
    done = rows(apply(machine, NCCL_IB_GID_INDEX="auto", NCCL_DEBUG="WARN"))["NCCL_IB_GID_INDEX"]
    assert str(done.status) == "changed"
    assert conf(machine) == block("NCCL_DEBUG=WARN")


def test_what_others_say_of_a_variable_that_is_left_out_stays_and_is_told(machine: Machine) -> None:
    put_theirs(machine, "NCCL_IB_GID_INDEX=3\n")
    for _again in range(2):
        done = row(apply(machine, NCCL_IB_GID_INDEX="auto"))
        assert str(done.status) == "ok"
        assert done.reading.runtime.text == "3"
        assert done.reason.endswith("mlx5_0:1 has none; /etc/nccl.conf:1 sets 3")
        assert conf(machine) == "NCCL_IB_GID_INDEX=3\n"


def test_a_line_of_ours_before_a_line_of_others_that_stays(machine: Machine) -> None:
    give_addresses(machine, {"mlx5_0": [3], "mlx5_1": [3]})
    put_theirs(machine, "NCCL_IB_GID_INDEX=1\n")
    apply(machine, NCCL_IB_GID_INDEX="auto")
    give_addresses(machine, {"mlx5_1": [5]})

    assert str(row(plan(machine, NCCL_IB_GID_INDEX="auto")).status) == "drifted"
    done = row(apply(machine, NCCL_IB_GID_INDEX="auto"))

    assert (done.reading.runtime.text, done.status.is_drift) == ("1", False)
    assert conf(machine) == "NCCL_IB_GID_INDEX=1\n"


def test_a_variable_that_is_left_out_and_set_at_login_is_overridden(machine: Machine) -> None:
    machine.put("/etc/environment", "NCCL_IB_GID_INDEX=3\n")
    found = row(apply(machine, NCCL_IB_GID_INDEX="auto"))
    assert (str(found.status), found.reason) == ("overridden", "boot: /etc/environment:1 sets 3")


# -- what is refused -----------------------------------------------------------------------


def test_a_traffic_class_that_the_nics_are_not_set_up_for(machine: Machine) -> None:
    declare_class(machine, 106)
    with pytest.raises(RefusedError) as caught:
        apply(machine, NCCL_IB_TC=104)
    assert (
        "nccl.NCCL_IB_TC: NCCL_IB_TC is declared as 104, and the traffic class of RoCE as 106 by "
        "/etc/mlnode/declared.d/fabric.json: the two must agree"
    ) in str(caught.value)
    assert not machine.exists(PATH)
    apply(machine, NCCL_IB_TC=106)
    assert conf(machine) == block("NCCL_IB_TC=106")


def test_a_traffic_class_that_is_declared_later_does_not_pass_in_silence(machine: Machine) -> None:
    apply(machine, NCCL_IB_TC=104)
    declare_class(machine, 106)
    found = row(plan(machine, NCCL_IB_TC=104))
    assert str(found.status) == "overridden"
    assert "the two must agree" in found.reason


def test_a_boot_leaves_what_is_refused_as_it_is_and_does_the_rest(machine: Machine) -> None:
    apply(machine, NCCL_IB_TC=104, NCCL_DEBUG="INFO")
    declare_class(machine, 106)
    put_theirs(machine, conf(machine).replace("104", "105"))
    spec = request("jobs", BOTH_LAYERS, (), {"NCCL_IB_TC": 104, "NCCL_DEBUG": "WARN"})

    outcome, errors = boot_run.apply_each(machine, spec)

    assert errors == []
    assert {key: str(found.status) for key, found in rows(outcome).items()} == {
        "NCCL_IB_TC": "refused",
        "NCCL_DEBUG": "changed",
    }
    assert conf(machine) == block("NCCL_IB_TC=105", "NCCL_DEBUG=WARN")


@pytest.mark.parametrize("target", ["/opt/site/nccl.conf", "/nowhere"])
def test_a_link_belongs_to_somebody_else(machine: Machine, target: str) -> None:
    machine.put("/opt/site/nccl.conf", "NCCL_DEBUG=INFO\n")
    machine.link(PATH, target)
    with pytest.raises(RefusedError, match=f"{PATH} is a link to {target}, which mlnode does not write"):
        apply(machine, NCCL_DEBUG="WARN")
    assert machine.link_target(PATH) == target
    assert machine.now("/opt/site/nccl.conf") == "NCCL_DEBUG=INFO"


# -- what cannot be told -------------------------------------------------------------------


@pytest.mark.parametrize("number", [errno.EACCES, errno.EIO])
def test_a_file_that_cannot_be_read_is_not_absent(machine: Machine, number: int) -> None:
    put_theirs(machine)
    machine.unreadable[PATH] = number
    found = row(plan(machine, NCCL_DEBUG="WARN"))
    assert str(found.status) == "unknown"
    assert f"cannot read {PATH}: {errno.errorcode[number]}" in found.reason
    apply(machine, NCCL_DEBUG="WARN")
    del machine.unreadable[PATH]
    assert conf(machine) == THEIRS


def test_a_link_to_itself(machine: Machine) -> None:
    machine.link(PATH, "nccl.conf")
    found = row(apply(machine, NCCL_DEBUG="WARN"))
    assert str(found.status) == "unknown"
    assert "ELOOP" in found.reason
    assert os.readlink(machine.root + PATH) == "nccl.conf"


def test_a_folder_in_its_place(machine: Machine) -> None:
    os.makedirs(machine.root + PATH)
    found = row(plan(machine, NCCL_DEBUG="WARN"))
    assert str(found.status) == "unknown"
    assert "EISDIR" in found.reason


def test_rails_that_cannot_be_told_this_once_take_no_line_away(machine: Machine) -> None:
    apply(machine, NCCL_IB_HCA="auto", NCCL_DEBUG="WARN")
    before = conf(machine)
    machine.forget()
    path = next(
        os.path.join(at, "link_layer")[len(machine.root) :]
        for at, _folders, files in os.walk(f"{machine.root}/sys/devices")
        if "link_layer" in files
    )
    machine.unreadable[path] = errno.EIO
    found = rows(apply(machine, NCCL_IB_HCA="auto", NCCL_DEBUG="WARN"))
    assert str(found["NCCL_IB_HCA"].status) == "unknown"
    assert conf(machine) == before


def test_without_rails_the_line_goes_and_the_rest_stays(machine: Machine) -> None:
    apply(machine, NCCL_IB_HCA="auto", NCCL_DEBUG="WARN")
    machine.forget()
    os.rename(f"{machine.root}/sys/class/infiniband", f"{machine.root}/sys/class/other")
    found = rows(apply(machine, NCCL_IB_HCA="auto", NCCL_DEBUG="WARN"))
    assert str(found["NCCL_IB_HCA"].status) == "unsupported"
    assert conf(machine) == block("NCCL_DEBUG=WARN")


# -- layers --------------------------------------------------------------------------------


def test_an_image_build_looks_at_no_hardware_and_leaves_auto_to_the_agent(machine: Machine) -> None:
    machine.enable_agent()
    machine.unreadable["/proc/net/route"] = errno.EIO
    apply(machine, layers=BOOT, NCCL_IB_HCA="auto", NCCL_SOCKET_IFNAME="auto", NCCL_DEBUG="WARN")
    assert conf(machine) == block("NCCL_DEBUG=WARN")
    again = apply(machine, layers=BOOT, NCCL_IB_HCA="auto", NCCL_SOCKET_IFNAME="auto", NCCL_DEBUG="WARN")
    assert {key: str(found.status) for key, found in rows(again).items()} == {
        "NCCL_IB_HCA": "ok",
        "NCCL_SOCKET_IFNAME": "ok",
        "NCCL_DEBUG": "ok",
    }
    assert rows(again)["NCCL_IB_HCA"].reading.boot.source == "mlnode-apply.service"
    del machine.unreadable["/proc/net/route"]
    apply(machine, NCCL_IB_HCA="auto", NCCL_SOCKET_IFNAME="auto", NCCL_DEBUG="WARN")  # the first boot
    full = block(f"NCCL_IB_HCA={HCAS}", "NCCL_SOCKET_IFNAME==eth0", "NCCL_DEBUG=WARN")
    assert conf(machine) == full
    apply(machine, layers=BOOT, NCCL_IB_HCA="auto", NCCL_SOCKET_IFNAME="auto", NCCL_DEBUG="WARN")
    assert conf(machine) == full


def test_the_hardware_that_a_node_wakes_up_on(machine: Machine, tmp_path: pathlib.Path) -> None:
    apply(machine, NCCL_IB_HCA="auto")
    other = roce(str(tmp_path / "other"), 1)
    other.put(PATH, conf(machine))
    other.put("/etc/mlnode/declared.d/jobs.json", machine.text("/etc/mlnode/declared.d/jobs.json"))
    assert str(row(plan(other, NCCL_IB_HCA="auto")).status) == "drifted"
    apply(other, NCCL_IB_HCA="auto")
    assert conf(other) == block("NCCL_IB_HCA==mlx5_0:1")


def test_runtime_alone_can_write_nothing(machine: Machine) -> None:
    done = row(apply(machine, layers=RUNTIME, NCCL_DEBUG="WARN"))
    assert (str(done.status), done.reason) == (
        "unsupported",
        "/etc/nccl.conf is of the layer boot: declare that, too",
    )
    assert not machine.exists(PATH)


def test_an_image_build_is_refused_a_link_too(machine: Machine) -> None:
    machine.link(PATH, "/opt/site/nccl.conf")
    with pytest.raises(RefusedError):
        apply(machine, layers=BOOT, NCCL_DEBUG="WARN")


# -- undo and faults -----------------------------------------------------------------------


@pytest.mark.parametrize("text", [None, "", THEIRS])
def test_a_revert_puts_the_file_back(machine: Machine, text: str | None) -> None:
    if text is not None:
        put_theirs(machine, text)
        os.chmod(machine.root + PATH, 0o640)
    before = machine.tree()

    apply(machine, "a", NCCL_DEBUG="WARN")
    apply(machine, "b", NCCL_NET="IB")
    apply(machine, "a", NCCL_DEBUG="INFO", NCCL_IB_HCA="auto")
    revert.revert(machine)

    assert machine.tree() == before


# -- the rest ------------------------------------------------------------------------------


def test_every_line_about_a_variable_is_mentioned(machine: Machine) -> None:
    machine.put("/etc/environment", "NCCL_DEBUG=INFO\n")
    machine.put("/etc/profile.d/x.sh", "  export NCCL_DEBUG=TRACE\n")
    put_theirs(machine, "NCCL_DEBUG=VERSION\nNCCL_DEBUG_FILE=/x\n")
    assert nccl.boot_sources("nccl.NCCL_DEBUG", machine) == [
        "/etc/environment:1: NCCL_DEBUG=INFO",
        "/etc/profile.d/x.sh:1: export NCCL_DEBUG=TRACE",
        "/etc/nccl.conf:1: NCCL_DEBUG=VERSION",
    ]


@cases.table
def test_what_is_known_of_a_variable(name: str, severity: str, words: str) -> None:
    found = nccl.info(f"nccl.{name}", Value())
    assert found.severity is Severity(severity)
    assert words in found.reason


def test_no_variable_moves_another() -> None:
    assert not nccl.conflicts("nccl.NCCL_DEBUG", "nccl.NCCL_NET")
