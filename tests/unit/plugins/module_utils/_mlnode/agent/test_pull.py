# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node that pulls: a real web server and real signatures, and a node in a folder."""

from __future__ import annotations

import calendar
import functools
import json
import os
import pathlib
import re
import shutil
import ssl
import subprocess
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from ansible_collections.mlnode.tuning.tests.unit import nodes, pull_site
from ansible_collections.mlnode.tuning.tests.unit.pull_site import NODE, Site, declaration, document, signed
from mlnode.agent import call, cli, metrics, pull, pull_document
from mlnode.agent.arguments import DRIFT, ERROR, OK
from mlnode.engine import lock, revert
from mlnode.host import places, system, web
from mlnode.host.host import Host
from mlnode.model.errors import HostError, MlnodeError, UntrustedError

SWAPPINESS = "/proc/sys/vm/swappiness"
FILE = f"/mlnode/{NODE}.signed"
#: Seconds, instead of those that a real network may take
SHORT = 0.8


class Fleet:
    """A node that is enrolled, the site that it pulls from, and the key that signs."""

    def __init__(self, node: nodes.Node, site: Site, key: pathlib.Path, areas: dict[str, Any]) -> None:
        self.node, self.site, self.key, self.areas = node, site, key, areas

    def publish(self, serial: int, **areas: Any) -> None:
        self.put(document(serial, declaration({**self.areas, **areas})))

    def put(self, content: bytes, key: pathlib.Path | None = None, **other: str) -> None:
        self.site.files[FILE] = signed(content, key or self.key, **other)

    def pull(self, dry_run: bool = False) -> dict[str, Any]:
        self.node.forget()
        return pull.pull(self.node, dry_run)[0]

    def verdict(self) -> str:
        return str(self.pull()["verdict"])


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A folder with the key `right` and the key `wrong`."""
    folder = tmp_path_factory.mktemp("keys")
    for name in ("right", "wrong"):
        pull_site.key(folder / name)
    return folder


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> nodes.Node:
    node = nodes.made(nodes.CASES["pull"], tmp_path_factory.mktemp("node"))
    nodes.install(node)
    return node


@pytest.fixture
def site() -> Iterator[Site]:
    with pull_site.serving() as one:
        yield one


@pytest.fixture
def fleet(installed: nodes.Node, site: Site, keys: pathlib.Path, tmp_path: pathlib.Path) -> Fleet:
    return enrolled(installed, site, keys, tmp_path)


def enrolled(
    installed: nodes.Node, site: Site, keys: pathlib.Path, folder: pathlib.Path, **more: Any
) -> Fleet:
    shutil.copytree(installed.root, folder / "node", symlinks=True)
    node = type(installed)(str(folder / "node"))
    public = (keys / "right.pub").read_text(encoding="utf-8").strip()
    spec = {"url": site.url, "node": NODE, "signers": [public], **more}
    areas = {"pull": spec, "sysctl": {"settings": {"vm.swappiness": 60}}}
    answer = call.CALLS["declare"](node, {**declaration(areas), **OWN})
    assert not answer["failed"], answer["msg"]
    return Fleet(node, site, keys / "right", areas)


#: What a push says besides
OWN = {
    **dict.fromkeys(("check", "diff", "install"), False),
    "risky": True,
    "confirm_seconds": 0,
    "interpreter": "",
}


def swappiness(value: int) -> dict[str, Any]:
    return {"settings": {"vm.swappiness": value}}


# -- what is applied -----------------------------------------------------------------------


def test_a_new_document_is_applied_once(fleet: Fleet) -> None:
    fleet.publish(7, sysctl=swappiness(10))
    report = fleet.pull()
    assert (report["verdict"], report["serial"], report["node"]) == ("applied", 7, NODE)
    assert report["changed"] == ["node sysctl"]
    assert fleet.node.text(SWAPPINESS) == "10\n"
    assert fleet.verdict() == "unchanged"
    assert [tag != "" for _path, tag in fleet.site.asked] == [False, True]
    fleet.publish(8, sysctl=swappiness(20))
    assert fleet.verdict() == "applied"
    assert fleet.node.text(SWAPPINESS) == "20\n"


def test_a_tag_that_could_damage_the_state_is_not_kept(fleet: Fleet) -> None:
    fleet.site.tag = '"\x01\xff"'
    fleet.publish(7)
    assert fleet.verdict() == "applied"
    assert fleet.verdict() == "applied", "it is fetched again"
    assert [tag for _path, tag in fleet.site.asked] == ["", ""]


def test_the_report_is_left_and_is_small(fleet: Fleet) -> None:
    fleet.publish(7, sysctl=swappiness(10))
    report = fleet.pull()
    assert json.loads(fleet.node.text(places.PULL_REPORT)) == report
    assert fleet.node.names(places.PULL_FOLDER) == ["report.json"]
    fleet.site.files[FILE] = b"x" * 100
    result = pull.Result(pull.FAILED, "\u20ac" * 20_000, [f"node {area}" for area in call.KINDS] * 2)
    assert len(pull._bytes(pull._report(result, pull.State("n" * 201)))) <= 5000


def test_a_dry_run_writes_nothing(fleet: Fleet) -> None:
    fleet.publish(7, sysctl=swappiness(10))
    before = fleet.node.tree()
    report = fleet.pull(dry_run=True)
    assert (report["verdict"], report["changed"]) == ("applied", ["node sysctl"])
    after = fleet.node.tree()
    assert {path for path in {*before, *after} if before.get(path) != after.get(path)} <= {
        "/run/mlnode",
        places.PULL_FOLDER,
    }


def test_a_document_that_names_another_key_hands_over_to_it(fleet: Fleet, keys: pathlib.Path) -> None:
    wrong = (keys / "wrong.pub").read_text(encoding="utf-8").strip()
    fleet.publish(7, pull={**fleet.areas["pull"], "signers": [wrong]})
    assert fleet.verdict() == "applied"
    fleet.publish(8)
    assert fleet.verdict() == "refused"
    fleet.put(document(9, declaration(fleet.areas)), keys / "wrong")
    assert fleet.verdict() == "applied"


def test_it_ends_where_the_area_leaves_the_declaration(fleet: Fleet) -> None:
    assert places.PULL_TIMER in fleet.node.active
    fleet.put(document(7, declaration({"sysctl": swappiness(10)})))
    assert fleet.verdict() == "applied"
    assert places.PULL_TIMER not in fleet.node.active
    with pytest.raises(HostError, match="node_pull"):
        fleet.pull()


# -- what is refused -----------------------------------------------------------------------


def _unsigned(fleet: Fleet) -> None:
    fleet.site.files[FILE] = document(9, declaration({"sysctl": swappiness(10)}))


def _other_key(fleet: Fleet) -> None:
    fleet.put(document(9, declaration({"sysctl": swappiness(10)})), fleet.key.with_name("wrong"))


def _other_namespace(fleet: Fleet) -> None:
    fleet.put(document(9, declaration({"sysctl": swappiness(10)})), namespace="file")


def _edited(fleet: Fleet) -> None:
    fleet.publish(9, sysctl=swappiness(10))
    fleet.site.files[FILE] = fleet.site.files[FILE].replace(b'"vm.swappiness":10', b'"vm.swappiness":11')


def _cut(fleet: Fleet) -> None:
    """Without a length, as from a server that knows none, half a download looks whole."""
    fleet.publish(9, sysctl=swappiness(10))
    body = fleet.site.files[FILE]
    fleet.site.files[FILE] = body[: len(body) // 2]


def _other_node(fleet: Fleet) -> None:
    fleet.put(document(9, declaration({"sysctl": swappiness(10)}), node="gpu002.example"))


def _older(fleet: Fleet) -> None:
    fleet.publish(6, sysctl=swappiness(10))


def _same_serial(fleet: Fleet) -> None:
    fleet.publish(7, sysctl=swappiness(10))


def _no_document(fleet: Fleet) -> None:
    fleet.put(b'{"format":1,"node":"gpu001.example","serial":9}\n')


def _newer_format(fleet: Fleet) -> None:
    fleet.put(document(9, declaration({})).replace(b'"format":1', b'"format":2'))


def _wrong_exception(fleet: Fleet) -> None:
    fleet.put(document(9, declaration(fleet.areas, ignore=["vm.swappiness"])))


def _unknown_area(fleet: Fleet) -> None:
    fleet.publish(9, warp={"factor": 9})


def _wrong_value(fleet: Fleet) -> None:
    """In the second declaration: the first one is not applied either."""
    first = declaration({**fleet.areas, "sysctl": swappiness(10)})
    second = declaration({"thp": {"enabled": ["madvise"]}}, "fabric")
    fleet.put(document(9, first, second))


def _missing(fleet: Fleet) -> None:
    del fleet.site.files[FILE]


def _moved(fleet: Fleet) -> None:
    fleet.site.answers[FILE] = pull_site.moved


REFUSED: dict[Callable[[Fleet], None], str] = {
    _unsigned: "not a signed document",
    _other_key: "no declared signer has signed it",
    _other_namespace: "no declared signer has signed it",
    _edited: "no declared signer has signed it",
    _cut: "no declared signer has signed it",
    _other_node: "for the node gpu002.example, and this is gpu001.example",
    _older: "serial 6 is older than 7",
    _same_serial: "another document than the one with the same serial 7",
    _no_document: "declarations",
    _newer_format: "newer",
    _wrong_exception: "vm.swappiness",
    _unknown_area: "warp",
    _wrong_value: "fabric: thp.enabled",
    _missing: "404",
    _moved: "302",
}


@pytest.mark.parametrize("make", REFUSED, ids=lambda make: make.__name__)
def test_it_is_refused_and_nothing_is_changed(fleet: Fleet, make: Callable[[Fleet], None]) -> None:
    fleet.publish(7)
    assert fleet.verdict() == "applied"
    before, state = fleet.node.tuned(), fleet.node.text(places.PULLED)
    make(fleet)
    report = fleet.pull()
    assert report["verdict"] == "refused"
    assert REFUSED[make] in report["reason"]
    assert report["serial"] == 7
    assert json.loads(fleet.node.text(places.PULL_REPORT)) == report
    assert (fleet.node.tuned(), fleet.node.text(places.PULLED)) == (before, state)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (pull_site.half, "bytes too early"),
        (pull_site.silent, f"no whole answer in {SHORT} s"),
        (pull_site.dripping, f"no whole answer in {SHORT} s"),
        (pull_site.endless, "more than 1048576 bytes"),
        (lambda handler: handler.wfile.write(b"220 mail.example ESMTP\r\n"), "no answer of HTTP"),
    ],
    ids=["half", "silent", "dripping", "endless", "smtp"],
)
def test_a_server_that_gives_no_whole_answer(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch, answer: Callable[[Any], None], words: str
) -> None:
    monkeypatch.setattr(web, "get", functools.partial(web.get, seconds=SHORT))
    before = fleet.node.tuned()
    fleet.site.answers[FILE] = answer
    report = fleet.pull()
    assert report["verdict"] == "unreachable"
    assert words in report["reason"]
    assert fleet.node.tuned() == before


def test_without_a_server(fleet: Fleet, installed: nodes.Node) -> None:
    del installed
    fleet.areas["pull"]["url"] = "http://127.0.0.1:1/mlnode"  # tcpmux (IANA): nothing listens there
    call.CALLS["declare"](fleet.node, {**declaration(fleet.areas), **OWN})
    report = fleet.pull()
    assert (report["verdict"], "refused" in report["reason"]) == ("unreachable", True)


def test_without_ssh_keygen(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(command: list[str], _seconds: float, _given: str) -> None:
        raise HostError("run", command[0], 2)

    fleet.publish(7, sysctl=swappiness(10))
    monkeypatch.setattr(system, "run", missing)
    report = fleet.pull()
    assert report["verdict"] == "refused"
    assert "install openssh-client" in report["reason"]


@pytest.mark.parametrize("content", ["", "{", '{"format": 1, "node": "a"}', '{"format": 1, "serial": "7"}'])
def test_without_its_state_no_document_is_taken(fleet: Fleet, content: str) -> None:
    fleet.publish(7, sysctl=swappiness(10))
    fleet.node.put(places.PULLED, content)
    report = fleet.pull()
    assert report["verdict"] == "refused"
    assert f"{places.PULLED} is damaged" in report["reason"]
    assert "remove /var/lib/mlnode/pull.json and /etc/mlnode/pull.json" in report["reason"]
    assert fleet.node.text(places.PULLED) == content


def test_a_state_of_another_user_decides_nothing(fleet: Fleet) -> None:
    fleet.publish(7, sysctl=swappiness(10))
    fleet.node.put(places.PULLED, "{}", mode=0o666)
    report = fleet.pull()
    assert (report["verdict"], "can be changed by others" in report["reason"]) == ("refused", True)


@pytest.mark.parametrize("lost", pull.PATHS)
@pytest.mark.parametrize("content", [None, "", '{"format": 1, "serial": "7"}'])
def test_one_copy_of_the_serial_is_enough(fleet: Fleet, lost: str, content: str | None) -> None:
    fleet.publish(7)
    assert fleet.verdict() == "applied"
    fleet.node.remove(lost)
    if content is not None:
        fleet.node.put(lost, content)
    fleet.publish(6, sysctl=swappiness(10))
    report = fleet.pull()
    assert (report["verdict"], report["serial"]) == ("refused", 7)
    assert "older than 7" in report["reason"]
    fleet.publish(8, sysctl=swappiness(10))
    assert fleet.verdict() == "applied"
    assert fleet.node.text(pull.PATHS[0]) == fleet.node.text(pull.PATHS[1])


def test_the_newer_copy_of_the_serial_counts(fleet: Fleet) -> None:
    """As a pull leaves them that was killed between the two."""
    fleet.publish(7)
    assert fleet.verdict() == "applied"
    older = fleet.node.text(places.PULLED_COPY)
    fleet.publish(8)
    assert fleet.verdict() == "applied"
    fleet.node.put(places.PULLED_COPY, older, 0o600)
    fleet.publish(7)
    assert "older than 8" in fleet.pull()["reason"]


def test_both_copies_go_with_a_revert(fleet: Fleet) -> None:
    fleet.publish(7)
    assert fleet.verdict() == "applied"
    for path in pull.PATHS:
        assert fleet.node.exists(path)
        assert fleet.node.mode(path) == 0o600
    revert.revert(fleet.node)
    assert not any(fleet.node.exists(folder) for folder in places.FOLDERS)


# -- what lies in its folder ---------------------------------------------------------------

STRANGER = 1234
LEFT = [f"{places.PULL_FOLDER}/{name}" for name in ("allowed_signers", "signature", ".signature.mlnode-tmp")]


def test_a_folder_of_another_user_verifies_nothing(fleet: Fleet) -> None:
    fleet.publish(7, sysctl=swappiness(10))
    fleet.node.put(f"{places.PULL_FOLDER}/allowed_signers", "x")
    os.chown(fleet.node.root + places.PULL_FOLDER, STRANGER, STRANGER)
    before = fleet.node.tuned()
    with pytest.raises(UntrustedError, match=f"{places.PULL_FOLDER} belongs to UID 1234"):
        fleet.pull()
    assert fleet.node.tuned() == before
    assert fleet.site.asked == []


def test_the_next_pull_clears_what_a_killed_one_leaves(fleet: Fleet) -> None:
    fleet.publish(7)
    assert fleet.verdict() == "applied"
    for path in LEFT:
        fleet.node.put(path, "x", 0o600)
    assert fleet.verdict() == "unchanged"
    assert fleet.node.names(places.PULL_FOLDER) == ["report.json"]


@pytest.mark.parametrize("how", ["reverted", "declared no more"])
def test_who_pulls_no_more_keeps_no_signer(fleet: Fleet, how: str) -> None:
    for path in (*LEFT, places.PULL_LOCK):
        fleet.node.put(path, "x", 0o600)
    if how == "reverted":
        revert.revert(fleet.node)
    else:
        areas = {"sysctl": swappiness(60)}
        answer = call.CALLS["declare"](fleet.node, {**declaration(areas), **OWN})
        assert not answer["failed"], answer["msg"]
    assert fleet.node.names(places.PULL_FOLDER) == []
    assert fleet.node.exists(places.PULL_LOCK) is (how != "reverted"), "the next one takes it over"


# -- limits of what is done ----------------------------------------------------------------


def at(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    seconds = float(calendar.timegm(time.strptime(text, "%Y-%m-%d %H:%M")))
    monkeypatch.setattr(time, "time", lambda: seconds)


def test_it_waits_for_its_window(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = {**fleet.areas["pull"], "window": ["Sat 02:00-04:00"]}
    fleet.publish(7, pull=spec, sysctl=swappiness(10))
    at(monkeypatch, "2026-11-27 12:00")
    before = fleet.node.tuned()
    report = fleet.pull()
    assert report["verdict"] == "waiting"
    assert report["reason"] == "waiting for the window: Sat 02:00-04:00 UTC"
    assert "node sysctl" in report["changed"]
    assert fleet.node.tuned() == before
    assert fleet.verdict() == "waiting"
    assert fleet.site.asked[-1][1] != "", "it is not fetched again meanwhile"
    at(monkeypatch, "2026-11-28 02:00")
    assert fleet.verdict() == "applied"
    assert fleet.node.text(SWAPPINESS) == "10\n"
    assert fleet.verdict() == "unchanged"


def test_what_changes_nothing_waits_for_no_window(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    at(monkeypatch, "2026-11-27 12:00")
    fleet.areas["pull"]["window"] = ["Sat 02:00-04:00"]
    call.CALLS["declare"](fleet.node, {**declaration(fleet.areas), **OWN})
    fleet.publish(7)
    report = fleet.pull()
    assert (report["verdict"], report["changed"]) == ("applied", [])


def test_what_may_cut_off_the_node_is_left_to_a_playbook(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def answer(_host: object, question: dict[str, Any]) -> dict[str, Any]:
        asked.append(question)
        return {"changed": False, "areas": {}, "risks": "nic.all.mtu of eth0 from 1500 to 9000"}

    monkeypatch.setitem(call.CALLS, "declare", answer)
    fleet.put(document(7, declaration(fleet.areas), declaration({}, "fabric")))
    report = fleet.pull()
    assert report["verdict"] == "held"
    assert "eth0" in report["reason"]
    [question] = asked
    assert (question["risky"], question["confirm_seconds"] > 0) == (False, True)
    assert fleet.verdict() == "held", "it is tried again each time"


def test_what_is_not_in_force_is_no_success(fleet: Fleet) -> None:
    fleet.node.put("/etc/sysctl.d/zzz-site.conf", "vm.swappiness = 90\n")
    fleet.publish(7, sysctl=swappiness(10))
    areas = {**fleet.areas, "sysctl": swappiness(10)}
    fleet.put(document(7, declaration(areas, fail_at="low")))
    report = fleet.pull()
    assert report["verdict"] == "failed"
    assert "zzz-site.conf" in report["reason"]
    assert fleet.site.asked[-1][1] == ""
    assert fleet.verdict() == "failed", "it is tried again each time"


def test_one_at_a_time(fleet: Fleet) -> None:
    with lock.alone(fleet.node, places.PULL_LOCK), pytest.raises(HostError, match="pull is under way"):
        fleet.pull()


# -- reports -------------------------------------------------------------------------------


def test_a_report_is_sent_until_it_has_arrived(
    installed: nodes.Node, site: Site, keys: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    fleet = enrolled(installed, site, keys, tmp_path, report=f"{site.url}/reports")
    fleet.publish(7)
    site.post_status = 500
    report = fleet.pull()
    assert (report["verdict"], report["unsent"]) == (
        "applied",
        f"{site.url}/reports answers 500 Internal Server Error",
    )
    site.post_status = 204
    assert "unsent" not in fleet.pull()
    assert [json.loads(body)["verdict"] for body in site.posted] == ["applied", "unchanged"]
    fleet.pull()
    assert len(site.posted) == 2, "nothing is new"
    _other_key(fleet)
    fleet.pull()
    assert json.loads(site.posted[-1])["verdict"] == "refused"


# -- enrolment -----------------------------------------------------------------------------


def test_two_declarations_that_differ(fleet: Fleet) -> None:
    other = {**fleet.areas["pull"], "report": "https://config.example/reports"}
    call.CALLS["declare"](fleet.node, {**declaration({"pull": other}, "site"), **OWN})
    fleet.node.forget()
    with pytest.raises(MlnodeError, match="node and site, differently"):
        fleet.pull()


# -- the command, and the metrics ----------------------------------------------------------


def test_exit_status(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cli, "Host", lambda _root, _mounts: fleet.node)
    monkeypatch.setattr(type(fleet.node), "live", property(lambda _node: True))
    monkeypatch.setattr(fleet.node, "real", Host(fleet.node.root).real)
    fleet.publish(7, sysctl=swappiness(10))
    assert cli.main(["pull", "--dry-run"]) == DRIFT
    assert capsys.readouterr().out == "would be applied, serial 7; would change: node sysctl\n"
    assert cli.main(["pull"]) == OK
    assert capsys.readouterr().out == "applied, serial 7; changed: node sysctl\n"
    assert cli.main(["pull", "--json"]) == OK
    assert json.loads(capsys.readouterr().out)["verdict"] == "unchanged"
    _older(fleet)
    assert cli.main(["pull"]) == ERROR
    assert "is older than 7" in capsys.readouterr().err


def exported(fleet: Fleet) -> tuple[str, float]:
    """Verdict of the last pull, and time of the last good one."""
    fleet.node.forget()
    text = metrics.look(fleet.node).text
    assert 'area="pull"' not in text
    name = "mlnode_pull_success_timestamp_seconds"
    [found] = re.findall(rf'^{name}\{{verdict="(\w+)"\}} (\S+)$', text, re.MULTILINE)
    return found[0], float(found[1])


def test_the_last_pull_and_the_last_success_are_exported(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert exported(fleet) == ("none", 0)
    fleet.publish(7)
    fleet.pull()
    verdict, at_first = exported(fleet)
    assert (verdict, abs(at_first - time.time()) < 60) == ("applied", True)
    _other_key(fleet)
    fleet.pull()
    assert exported(fleet) == ("refused", at_first)
    window = {**fleet.areas["pull"], "window": ["Sat 02:00-04:00"]}
    fleet.publish(8, pull=window, sysctl=swappiness(10))
    for clock in ("2031-11-28 12:00", "2031-11-28 12:15"):
        at(monkeypatch, clock)
        fleet.pull()
        assert exported(fleet) == ("waiting", time.time()), "it is there, and waits as declared"


@pytest.mark.parametrize("content", ["", "[]", "{", '{"verdict": 1}', '{"verdict": "a\\nb"}'])
def test_a_report_that_is_none_is_no_verdict(fleet: Fleet, content: str) -> None:
    fleet.node.put(places.PULL_REPORT, content)
    assert exported(fleet)[0] == "unknown"


# -- TLS -----------------------------------------------------------------------------------


def test_a_certificate_has_to_be_trusted_by_the_node(
    installed: nodes.Node, keys: pathlib.Path, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = tmp_path / "made.pem"
    subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    words = [
        "openssl",
        "req",
        "-x509",
        *curve,
        "-keyout",
        str(made),
        "-out",
        str(tmp_path / "ca.pem"),
        *subject,
    ]
    subprocess.run(words, check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "ca.pem", made)
    with pull_site.serving(lambda one: context.wrap_socket(one, server_side=True), "https") as site:
        fleet = enrolled(installed, site, keys, tmp_path)
        fleet.publish(7)
        report = fleet.pull()
        assert (report["verdict"], "CERTIFICATE_VERIFY_FAILED" in report["reason"]) == ("unreachable", True)
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
        assert fleet.verdict() == "applied"


# -- the form of a document ----------------------------------------------------------------


def test_the_order_stays_which_is_that_of_the_writes() -> None:
    areas = {"sysctl": {"settings": {"vm.swappiness": 1, "vm.dirty_bytes": 2}}, "cpu": {}}
    found = pull_document.parse(document(1, declaration(areas))).declarations[0]["areas"]
    assert json.dumps(found) == json.dumps(areas)


def test_a_document_that_no_node_would_take_is_not_made() -> None:
    with pytest.raises(ValueError, match="bytes; at most"):
        document(1, declaration({"sysctl": {"settings": {"a": "x" * pull_document.MOST}}}))
