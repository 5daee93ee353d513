# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The check as metrics: which series a node has, the causes of a drift, and what is kept."""

from __future__ import annotations

import errno
import json
import pathlib
import re
import socket
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from ansible_collections.mlnode.tuning.tests.unit import nodes
from ansible_collections.mlnode.tuning.tests.unit.plugins.module_utils._mlnode.report.test_metrics import LINE
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mlnode.agent import causes, checked, cli, history, metrics
from mlnode.agent import declare as agent_declare
from mlnode.agent.node import NodeRow, Survey
from mlnode.agent.registry import KINDS
from mlnode.engine import declared, lock
from mlnode.engine.declared import Declaration
from mlnode.engine.kind import Info, Row
from mlnode.host import places
from mlnode.host.system import Finished
from mlnode.linux import node_exporter
from mlnode.model.cause import placed
from mlnode.model.errors import HostError, MlnodeError
from mlnode.model.setting import Boot, Layer, Reading, Setting, Severity, Status, Value

FILE = f"{node_exporter.DEBIAN}/mlnode.prom"
SWAPPINESS = "/proc/sys/vm/swappiness"
BOOT = "/proc/sys/kernel/random/boot_id"
GUIDE = pathlib.Path(__file__).parents[6] / "docs" / "guide" / "watching.md"
SYSCTL = {"settings": {"vm.swappiness": 10, "vm.dirty_bytes": 268435456}}


@pytest.fixture
def node(tmp_path: pathlib.Path) -> nodes.Node:
    """Tuned, and checked once."""
    node = nodes.made(nodes.CASES["metrics"], tmp_path / "node")
    nodes.install(node)
    node.put(BOOT, "5d0c6f5e-1\n")
    apply(node)
    export(node)
    return node


def apply(node: nodes.Node, **areas: Any) -> agent_declare.Result:
    node.forget()
    given = areas or {"sysctl": SYSCTL, "metrics": {"textfile_directory": "auto"}}
    order = agent_declare.Order("node", KINDS, given, tuple(KINDS), whole=True, after=history.record)
    done = agent_declare.run(node, order)
    assert not done.failed, done.msg
    return done


def export(node: nodes.Node) -> dict[str, float]:
    """The series of the file that a check writes."""
    node.forget()
    metrics.export(node)
    return series(node.text(FILE))


def series(text: str) -> dict[str, float]:
    found: dict[str, float] = {}
    for line in text.split("\n")[:-1]:
        match = LINE.match(line)
        if line == "# Written by mlnode.tuning":
            continue
        assert match, line
        if match["name"]:
            name, value = line.rsplit(" ", 1)
            assert name not in found, f"{name} twice"
            found[name] = float(value)
    return found


def drift(found: dict[str, float]) -> dict[str, tuple[str, str]]:
    """Setting → cause and status."""
    form = re.compile(
        r'mlnode_drift_info\{area="[a-z]+",setting="([^"]+)",cause="([^"]+)",status="([a-z_]+)"\}\Z'
    )
    matches = [form.match(name) for name in found if name.startswith("mlnode_drift_info")]
    return {match[1]: (match[2], match[3]) for match in matches if match}


# -- the series ----------------------------------------------------------------------------


def test_a_node_as_declared_has_zeros(node: nodes.Node) -> None:
    found = export(node)
    assert found['mlnode_settings{area="sysctl",state="ok"}'] == 2
    assert found['mlnode_settings{area="sysctl",state="drifted"}'] == 0
    assert found['mlnode_settings{area="sysctl",state="unsupported"}'] == 0
    assert found["mlnode_check_success"] == 1
    assert found["mlnode_corrections_total"] == found["mlnode_reboot_required"] == 0
    assert drift(found) == {}
    assert any(name.startswith("mlnode_declaration_info") and 'author="mlnode"' in name for name in found)


def test_a_drift_is_counted_and_named(node: nodes.Node) -> None:
    node.put(SWAPPINESS, "60\n")
    found = export(node)
    assert found['mlnode_settings{area="sysctl",state="ok"}'] == 1
    assert found['mlnode_settings{area="sysctl",state="drifted"}'] == 1
    assert drift(found) == {"vm.swappiness": ("unknown", "drifted")}


def test_a_part_that_cannot_be_checked_is_no_success(node: nodes.Node) -> None:
    node.put("/etc/mlnode/declared.d/other.json", "{")
    found = export(node)
    assert found["mlnode_check_success"] == 0
    assert found['mlnode_settings{area="sysctl",state="ok"}'] == 2


def test_a_declaration_that_no_run_has_written(node: nodes.Node) -> None:
    other = Declaration("other", {"sysctl": {"settings": {"vm.overcommit_memory": "0"}}})
    node.put(declared.path_of("other"), declared.render(other).decode())
    assert any('author="other"' in name for name in export(node))


def test_an_edited_declaration_is_not_that_of_a_run(node: nodes.Node) -> None:
    path = declared.path_of("node")
    node.put(path, node.text(path).replace('"10"', '"11"').replace(": 10", ": 11"))
    found = export(node)
    assert any('author="other"' in name for name in found)
    assert drift(found) == {"vm.swappiness": ("unknown", "drifted")}


def test_nodes_that_pull_have_one_digest_whatever_their_names(node: nodes.Node) -> None:
    def info(name: str, url: str) -> list[str]:
        pulling = {"url": url, "node": name, "signers": ["ssh-ed25519 AAAA"]}
        node.put(declared.path_of("other"), declared.render(Declaration("other", {"pull": pulling})).decode())
        return [one for one in export(node) if one.startswith("mlnode_declaration_info")]

    [first] = info("gpu001.example", "http://config.example")
    assert info("gpu002.example", "http://config.example") == [first]
    assert info("gpu001.example", "http://other.example") != [first]


def _row(area: str, number: int, status: Status, severity: Severity = Severity.LOW) -> Row:
    setting = Setting(area, f"{area}.{number}", "/x", "1", "1")
    reading = Reading("/x", Value(text="0"), Boot(Value(text="1")))
    return Row(setting, reading, status, (), Info(severity, "", ""))


def _look(
    node: nodes.Node, monkeypatch: pytest.MonkeyPatch, rows: list[Row], errors: tuple[str, ...] = ()
) -> dict[str, float]:
    survey = Survey(tuple(NodeRow(row, ("node",)) for row in rows), errors)
    monkeypatch.setattr(metrics, "survey", lambda _host: survey)
    return series(metrics.look(node).text)


def _rich(node: nodes.Node) -> None:
    """All that adds a series: exceptions, and pause frames."""
    days = [{"key": f"x{day}", "reason": "why", "until": f"2031-01-{day:02}"} for day in range(1, 29)]
    apply(node, sysctl=SYSCTL, metrics={"textfile_directory": "auto", "ignore": days})
    node.put("/proc/uptime", "1000.00 1.00\n")


def test_no_more_series_than_the_budget(
    node: nodes.Node, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    _rich(node)
    monkeypatch.setattr(metrics.pauses, "_nics", lambda _host: ["eth0", "eth1"])
    frames = iter([1, 2, 1001, 3])
    monkeypatch.setattr(metrics.pauses, "_frames", lambda _host, _name: next(frames))
    first = metrics.look(node)
    checked.save(node, first.checked)
    node.put("/proc/uptime", "1100.00 1.00\n")
    right = [_row(area, number, Status.OK) for area in metrics.areas() for number in range(30)]
    found = _look(node, monkeypatch, right)
    assert found['mlnode_nic_pause_frames_per_second{device="eth0"}'] == 10
    assert any(name.startswith("mlnode_exception_expiry") for name in found)
    assert len(found) == metrics.SERIES
    frames = iter([2001, 3])
    wrong = [_row(area, number, Status.DRIFTED) for area in metrics.areas() for number in range(30)]
    found = _look(node, monkeypatch, wrong, ("an error",))
    assert len(drift(found)) == metrics.LISTED
    assert found["mlnode_drift_unlisted_settings"] == len(wrong) - metrics.LISTED
    assert len(found) <= metrics.SERIES + metrics.LISTED


def test_the_guide_names_the_budget() -> None:
    assert f"at most {metrics.SERIES + metrics.LISTED} series" in GUIDE.read_text(encoding="utf-8")


def test_the_severe_are_named_first(node: nodes.Node, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [_row("sysctl", number, Status.DRIFTED) for number in range(40)]
    rows.append(_row("sysctl", 99, Status.DRIFTED, Severity.HIGH))
    assert "sysctl.99" in drift(_look(node, monkeypatch, rows))


@settings(
    deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)  # fmt: skip
@given(
    st.lists(
        st.tuples(
            st.sampled_from([*KINDS, "agent"]),
            st.text(max_size=40),
            st.sampled_from([*Status]),
            st.sampled_from([*Severity]),
            st.one_of(st.none(), st.text(st.characters(), max_size=60)),
            st.text(st.characters(), max_size=60),
        ),
        max_size=60,
        unique_by=lambda item: (item[0], item[1]),
    ),
    st.lists(st.text(max_size=30), max_size=3),
)
def test_any_state_of_a_node_is_a_file_of_the_format(
    node: nodes.Node,
    monkeypatch: pytest.MonkeyPatch,
    given_rows: list[tuple[str, str, Status, Severity, str | None, str]],
    errors: list[str],
) -> None:
    rows = []
    for area, key, status, severity, runtime, source in given_rows:
        setting = Setting(area, f"{area}.{key}", "/x", "1", "1")
        value = Value(text=runtime) if runtime is not None else Value(unreadable="no")
        boot = Boot(Value(text="2"), source, foreign=True)
        rows.append(Row(setting, Reading("/x", value, boot), status, (), Info(severity, "", "")))
    found = _look(node, monkeypatch, rows, tuple(errors))
    assert len(found) <= metrics.SERIES + metrics.LISTED


# -- causes --------------------------------------------------------------------------------


def test_a_file_that_overrides_it(node: nodes.Node) -> None:
    node.put("/etc/sysctl.d/zzz-other.conf", "# other\nvm.swappiness = 60\n")
    assert drift(export(node)) == {"vm.swappiness": ("/etc/sysctl.d/zzz-other.conf", "overridden")}


def test_a_file_that_another_has_loaded(node: nodes.Node) -> None:
    """It does not win at boot, and was given to sysctl --load."""
    node.put("/etc/sysctl.d/10-other.conf", "vm.swappiness = 60\n")
    node.put(SWAPPINESS, "60\n")
    assert drift(export(node)) == {"vm.swappiness": ("/etc/sysctl.d/10-other.conf", "drifted")}


def test_tuned(node: nodes.Node) -> None:
    node.put("/etc/tuned/active_profile", "own\n")
    node.put("/etc/tuned/own/tuned.conf", "[sysctl]\nvm.swappiness=30\n")
    node.put(SWAPPINESS, "30\n")
    expected = ("tuned: /etc/tuned/own/tuned.conf", "drifted")
    assert drift(export(node)) == {"vm.swappiness": expected}
    node.put(SWAPPINESS, "31\n")
    assert drift(export(node)) == {"vm.swappiness": ("unknown", "drifted")}


@pytest.mark.parametrize(
    ("cause", "label"),
    [
        ("/etc/sysctl.d/9.conf:12", "/etc/sysctl.d/9.conf"),
        ("/run/netplan/a b.yml:7 (vm.swappiness = 60)", "/run/netplan/a b.yml (vm.swappiness = 60)"),
        (
            "/boot/loader/entries/0123456789abcdef0123456789abcdef-6.1.0.conf:4",
            "/boot/loader/entries/*-6.1.0.conf",
        ),
        (
            "/etc/NetworkManager/system-connections/eth0-0f1e2d3c-0000-4000-8000-00000000000a.nmconnection",
            "/etc/NetworkManager/system-connections/eth0-*.nmconnection",
        ),
        (
            "/boot/grub/grub.cfg:12, the entry chosen (/boot/grub/grubenv:3, by /etc/default/grub:7: x)",
            "/boot/grub/grub.cfg, the entry chosen (/boot/grub/grubenv, by /etc/default/grub: x)",
        ),
        ("0000:3b:00.0 has 1024:1048576",) * 2,
        ("kernel command line (transparent_hugepage=never)",) * 2,
    ],
)
def test_a_cause_is_the_same_label_on_all_nodes(cause: str, label: str) -> None:
    assert causes.origin(placed(Layer.BOOT, "overridden", cause)) == (cause, label)


def test_a_line_that_moves_is_the_same_cause(node: nodes.Node) -> None:
    labels = []
    for lines in (0, 5):
        node.put("/etc/sysctl.d/zzz-other.conf", "\n" * lines + "vm.swappiness = 60\n")
        labels.append(drift(export(node)))
    assert labels[0] == labels[1] != {}


def test_a_reboot(node: nodes.Node) -> None:
    node.put(BOOT, "another\n")
    node.put(SWAPPINESS, "60\n")
    assert drift(export(node)) == {"vm.swappiness": ("reboot", "drifted")}
    # A later check does not know it any more, and the first one's word stays.
    assert drift(export(node)) == {"vm.swappiness": ("reboot", "drifted")}


def test_what_cannot_be_read(node: nodes.Node) -> None:
    node.unreadable[SWAPPINESS] = 5
    assert drift(export(node)) == {"vm.swappiness": ("unreadable", "unknown")}


def test_the_timer_is_off(node: nodes.Node) -> None:
    node.run(["systemctl", "stop", "mlnode-check.timer"])
    assert drift(export(node)) == {"metrics.textfile": ("unknown", "drifted")}


def test_a_driver_that_was_loaded_again(tmp_path: pathlib.Path) -> None:
    node = nodes.made(nodes.CASES["nic"], tmp_path / "nic")
    nodes.install(node)
    node.put(BOOT, "5d0c6f5e-1\n")
    apply(node, nic=nodes.CASES["nic"].spec)
    node.put("/sys/class/net/eth2/ifindex", "7\n")
    node.forget()
    checked.save(node, metrics.look(node).checked)
    vars(node)["nics"]["eth2"].ring["rx"] = 512
    node.put("/sys/class/net/eth2/ifindex", "8\n")
    node.forget()
    assert drift(series(metrics.look(node).text)) == {"nic.two.ring.rx": ("driver reload", "drifted")}


# -- exceptions ----------------------------------------------------------------------------


@pytest.mark.parametrize(("until", "counts"), [("2001-01-01", True), ("2999-12-31", False)])
def test_an_exception_holds_until_its_day(node: nodes.Node, until: str, counts: bool) -> None:
    known = {"key": "vm.swap*", "reason": "known", "until": until}
    apply(node, sysctl=SYSCTL, metrics={"textfile_directory": "auto", "ignore": [known]})
    node.put(SWAPPINESS, "60\n")
    found = export(node)
    assert ("vm.swappiness" in drift(found)) is counts
    [end] = [value for name, value in found.items() if name.startswith("mlnode_exception_expiry")]
    assert end % 86400 == 0


# -- the file and what is kept -------------------------------------------------------------


def test_the_file_goes_with_the_declaration(node: nodes.Node) -> None:
    assert node.exists(FILE)
    apply(node, sysctl=SYSCTL)
    assert not node.exists(FILE)
    assert not node.matching("/etc/systemd/system/timers.target.d/*")
    assert not {*places.TIMED_UNITS} & {*node.active}


def test_two_declarations_and_the_timer_runs_until_the_last(node: nodes.Node) -> None:
    order = agent_declare.Order(
        "site", KINDS, {"metrics": {"textfile_directory": "auto"}}, tuple(KINDS), whole=True
    )
    node.forget()
    assert not agent_declare.run(node, order).failed
    apply(node, sysctl=SYSCTL)
    assert "mlnode-check.timer" in node.active
    assert node.exists(FILE)


def test_nothing_is_written_where_nothing_is_declared(node: nodes.Node) -> None:
    apply(node, sysctl=SYSCTL)
    node.forget()
    with pytest.raises(MlnodeError, match="no declaration has textfile_directory"):
        metrics.export(node)
    assert not node.exists(FILE)


@pytest.mark.parametrize("number", [errno.EROFS, errno.EPERM])
def test_a_run_that_may_not_write_there_leaves_the_file_to_the_check(
    node: nodes.Node, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """As a pull in its sandbox, whose new declaration has no metrics."""
    real, ran, run = type(node).remove_file, [], type(node).run

    def refuse(self: nodes.Node, path: str, mark: bytes = b"") -> None:
        if path == FILE:
            raise HostError("remove", path, number)
        real(self, path, mark)

    def remember(self: nodes.Node, command: Sequence[str], seconds: float = 60) -> Finished:
        ran.append(" ".join(command))
        return run(self, command, seconds)

    monkeypatch.setattr(type(node), "remove_file", refuse)
    monkeypatch.setattr(type(node), "run", remember)
    apply(node, sysctl=SYSCTL)
    assert node.exists(FILE)
    assert "systemctl start --no-block mlnode-check.service" in ran
    monkeypatch.undo()
    node.forget()
    metrics.export(node)
    assert not node.exists(FILE)
    assert not node.exists(node_exporter.NOTE)


def test_nothing_is_removed_while_a_declaration_cannot_be_read(node: nodes.Node) -> None:
    node.put("/etc/mlnode/declared.d/node.json", "{")
    node.forget()
    with pytest.raises(MlnodeError):
        metrics.export(node)
    assert node.exists(FILE)


def test_a_folder_that_is_gone_is_named(node: nodes.Node) -> None:
    node.remove("/usr/lib/systemd/system/prometheus-node-exporter.service")
    node.forget()
    with pytest.raises(MlnodeError, match="node_exporter has no service here"):
        metrics.export(node)


def test_never_two_at_once(node: nodes.Node) -> None:
    with lock.alone(node, places.CHECK_LOCK) as is_alone:
        assert is_alone
        with pytest.raises(HostError, match="another check is under way"):
            metrics.export(node)
    export(node)


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"format": 9}', '{"format": 1}', '{"format": 1, "at": "x"}', b"\xff"]
)
def test_a_damaged_state_begins_afresh(node: nodes.Node, text: str | bytes) -> None:
    node.put(checked.PATH, text)
    node.put(history.PATH, text)
    node.put(SWAPPINESS, "60\n")
    assert drift(export(node)) == {"vm.swappiness": ("unknown", "drifted")}
    assert json.loads(node.text(checked.PATH))["settings"]["vm.swappiness"]["cause"] == ["unknown", "unknown"]


def test_a_state_of_before_causes_had_labels_is_passed_over(node: nodes.Node) -> None:
    state = checked.LastCheck(settings={"vm.swappiness": checked.CheckedSetting("drifted", "60", None, 5.0)})
    kept = checked.document(state)
    kept["settings"]["vm.swappiness"]["cause"] = "ab"
    node.put(checked.PATH, json.dumps({**kept, "format": 1}))
    assert checked.load(node) == checked.LastCheck()


def test_a_look_writes_nothing(node: nodes.Node) -> None:
    before = node.state()
    node.forget()
    metrics.look(node)
    assert node.state() == before


def test_the_command_prints(node: nodes.Node, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["metrics", "--root", node.root]) == 0
    printed = capsys.readouterr().out
    assert "mlnode_check_success 1" in printed
    assert cli.main(["metrics", "--json", "--root", node.root]) == 0
    assert json.loads(capsys.readouterr().out)["settings"]["vm.swappiness"]["status"] == "ok"


# -- who changed it ------------------------------------------------------------------------


@pytest.fixture
def journal(node: nodes.Node) -> Iterator[socket.socket]:
    """Its path may have 107 characters (unix(7)), and has the name of the test in it."""
    folder = f"{node.root}/run/systemd/journal"
    pathlib.Path(folder).mkdir(parents=True)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        receiver.bind(f"{folder}/socket")
        receiver.settimeout(5)
        yield receiver


def entry(receiver: socket.socket) -> dict[str, str]:
    """One line of the journal, by the native protocol."""
    data, fields = receiver.recv(65536), {}
    while data:
        name, _end, data = data.partition(b"\n")
        length = int.from_bytes(data[:8], "little")
        fields[name.decode()] = data[8 : 8 + length].decode()
        data = data[8 + length + 1 :]
    return fields


def test_changed_twice(node: nodes.Node, journal: socket.socket) -> None:
    node.put("/etc/tuned/active_profile", "own\n")
    node.put("/etc/tuned/own/tuned.conf", "[sysctl]\nvm.swappiness=30\n")
    cause = "tuned: /etc/tuned/own/tuned.conf:2"
    for number in (1, 2):
        node.put(SWAPPINESS, "30\n")
        export(node)
        seen = entry(journal)
        assert seen["MESSAGE_ID"] == history.CHANGED_ID
        assert (seen["MLNODE_SETTING"], seen["MLNODE_CAUSE"]) == ("vm.swappiness", cause)
        assert (seen["MLNODE_FROM"], seen["MLNODE_TO"]) == ("10", "30")
        export(node)  # says nothing more
        apply(node)
        seen = entry(journal)
        assert seen["MESSAGE_ID"] == history.CORRECTED_ID
        assert (seen["MLNODE_CAUSE"], seen["MLNODE_CORRECTIONS"]) == (cause, str(number))
        assert export(node)["mlnode_corrections_total"] == number
    assert "put back 2 times" in seen["MESSAGE"]
    past = history.load(node).settings["vm.swappiness"]
    assert past.causes == {cause: 2}


def test_no_correction(node: nodes.Node, journal: socket.socket) -> None:
    other = {"settings": {**SYSCTL["settings"], "vm.swappiness": 1}}
    apply(node, sysctl=other, metrics={"textfile_directory": "auto"})
    seen = entry(journal)
    assert (seen["MESSAGE_ID"], seen["MLNODE_FROM"], seen["MLNODE_TO"]) == (history.SET_ID, "10", "1")
    assert export(node)["mlnode_corrections_total"] == 0


def test_what_a_boot_has_lost_is_no_correction(node: nodes.Node) -> None:
    node.put(BOOT, "another\n")
    node.put(SWAPPINESS, "60\n")
    apply(node)
    assert export(node)["mlnode_corrections_total"] == 0


def test_one_that_no_check_has_seen_is_counted(node: nodes.Node) -> None:
    node.put(SWAPPINESS, "60\n")
    apply(node)
    assert export(node)["mlnode_corrections_total"] == 1
    assert history.load(node).settings["vm.swappiness"].causes == {"unknown": 1}


def test_many_causes_keep_the_latest(node: nodes.Node) -> None:
    for number in range(12):
        node.put("/etc/sysctl.d/10-other.conf", "\n" * number + "vm.swappiness = 60\n")
        node.put(SWAPPINESS, "60\n")
        apply(node)
    causes = history.load(node).settings["vm.swappiness"].causes
    assert len(causes) == 8
    assert [*causes][-1] == "/etc/sysctl.d/10-other.conf:12"
