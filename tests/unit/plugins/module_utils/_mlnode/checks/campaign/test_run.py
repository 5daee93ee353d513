# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
import pathlib
import signal
from collections.abc import Sequence
from typing import Any

import pytest
from ansible_collections.mlnode.tuning.tests.unit import cases
from ansible_collections.mlnode.tuning.tests.unit.campaign_machine import (
    ASKED,
    NO_CLIENT,
    NOW,
    PEER,
    REFUSED,
    SLOT,
    CampaignMachine,
    Time,
    measured,
    served,
)
from ansible_collections.mlnode.tuning.tests.unit.perftest_machine import job
from mlnode.checks.campaign import part, run, scope, store
from mlnode.checks.campaign.kind import FAILED, Part
from mlnode.checks.campaign.store import State
from mlnode.host.system import Finished
from mlnode.model.errors import HostError, MlnodeError, RefusedError, StoreError, UnansweredError

FILE = "/run/mlnode/campaign-4026531840.json"
SERVES = {**SLOT, "round": 1, "serves": True}


@pytest.fixture(autouse=True)
def alarms(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Not of the process that runs the tests."""
    seen: list[int] = []
    monkeypatch.setattr(signal, "alarm", seen.append)
    return seen


@pytest.fixture
def node(tmp_path: pathlib.Path) -> CampaignMachine:
    return CampaignMachine.made(str(tmp_path / "node"))


@pytest.fixture
def time() -> Time:
    return Time()


def asked(**more: Any) -> Part:
    given = {**ASKED, "start": NOW + 10, "slots": [SLOT, SERVES], "rounds": 2, "streams": 2, **more}
    return part.parse(given)


def started(node: CampaignMachine, time: Time, **more: Any) -> run.Started:
    """In this process, to its end."""
    return run.start(node, asked(**more), clock=time.clock, starter=lambda work: work() and None)


def result(node: CampaignMachine, time: Time, **more: Any) -> dict[str, Any]:
    started(node, time, **more)
    found = store.collect(node, "spring-1", 0, time.clock)
    assert found.done
    return json.loads(json.dumps(found.answer))


def test_a_node_measures_and_serves_and_leaves_nothing(node: CampaignMachine, time: Time) -> None:
    found = result(node, time)

    [slot] = found["slots"]
    assert (slot["round"], slot["rail"], slot["reason"]) == (0, 0, "")
    assert slot["forward_gbits"] == pytest.approx(2 * 0.05, rel=0.05)
    assert slot["backward_gbits"] == pytest.approx(2 * 0.05, rel=0.05)
    assert 0.9 < slot["hole"] <= 1
    assert slot["loss"] == [0.0, 0.0]
    assert "failed" not in slot
    assert not slot["cpu_bound"]
    assert slot["evidence"]["interface"] == "eth0"
    assert found["served"] == []
    assert found["kernel"] == "6.12.0-test"
    assert found["rails"][0]["interface"] == "eth0"
    assert not node.exists(FILE)
    clients = [words for words in node.commands if " -c " in words]
    servers = [words for words in node.commands if " -s " in words]
    assert len(clients) == len(servers) == 4
    ports = {words.split(" -p ")[1].split()[0] for words in servers}
    assert ports == {"18600", "18601", "18602", "18603"}


def test_nothing_runs_after_the_last_round_and_the_result_waits(node: CampaignMachine, time: Time) -> None:
    started(node, time)

    assert time.now <= asked().end
    state = store.read(node)
    assert state is not None
    assert state.done
    # The next campaign takes its place.
    assert run.start(node, asked(id="other"), clock=time.clock, starter=lambda work: None).ends


def test_it_ends_by_itself_whatever_happens(node: CampaignMachine, time: Time, alarms: list[int]) -> None:
    result(node, time)

    # The traffic was watched for a second before.
    assert alarms == [int(asked().end - NOW - 1) + 60] * 2


def test_a_node_waits_to_be_told_the_start(node: CampaignMachine, time: Time, alarms: list[int]) -> None:
    seen: list[float] = []

    def tell() -> None:
        state = store.read(node)
        if state is not None and state.start is None and time.now > NOW + 40:
            seen.append(store.begin(node, "spring-1", NOW + 60, time.clock))
            # Once more, as its answer may have got lost
            seen.append(store.begin(node, "spring-1", NOW + 60, time.clock))

    time.on_sleep = tell
    told = run.start(node, asked(start=None), 300, clock=time.clock, starter=lambda work: work() and None)

    lasts = asked().lasts
    assert told.ends is None
    assert seen == [NOW + 60 + lasts] * 2
    found = store.collect(node, "spring-1", 0, time.clock)
    assert found.done
    assert found.answer["slots"][0]["reason"] == ""
    assert alarms[0] == int(300 + lasts) + 60
    assert alarms[1] <= int(20 + lasts) + 60


def test_a_node_that_is_never_told_the_start_leaves_nothing(node: CampaignMachine, time: Time) -> None:
    run.start(node, asked(start=None), 300, clock=time.clock, starter=lambda work: work() and None)

    assert 300 <= time.now - NOW < 305
    assert not node.exists(FILE)
    assert not [words for words in node.commands if " -c " in words or " -s " in words]


def test_a_node_that_is_told_late_takes_part_in_the_rounds_that_are_left(
    node: CampaignMachine, time: Time
) -> None:
    length = asked().round_seconds

    def tell() -> None:
        state = store.read(node)
        if state is not None and state.start is None:
            store.begin(node, "spring-1", time.now - 1.5 * length, time.clock)

    time.on_sleep = tell
    slots = [SLOT, SERVES, {**SLOT, "round": 2}]
    given = asked(start=None, slots=slots, rounds=3)
    run.start(node, given, 300, clock=time.clock, starter=lambda work: work() and None)

    answer = store.collect(node, "spring-1", 0, time.clock).answer
    missed, measured = answer["slots"]
    assert (missed["round"], missed["failed"], measured["round"], measured["reason"]) == (0, "late", 2, "")
    [served] = answer["served"]
    assert (served["round"], served["failed"]) == (1, "late")
    assert "after its start: it was given the start late" in served["reason"]


def test_one_that_was_collected_early_stops_at_its_next_round(node: CampaignMachine, time: Time) -> None:
    time.on_sleep = lambda: store.remove(node)

    run.start(node, asked(), clock=time.clock, starter=lambda work: work() and None)

    assert not [words for words in node.commands if " -c " in words or " -s " in words]
    assert not node.exists(FILE)


@pytest.mark.parametrize(
    ("says", "failed", "reason"),
    [
        (lambda words: REFUSED, "refused", "no server of 10.9.0.2 listened on port 1860"),
        (lambda words: Finished(0, "", ""), "program", "iperf3 ended with 0 and no result"),
        (lambda words: Finished(124, "", ""), "timeout", "iperf3 did not end within 5.5 s"),
        (lambda words: Finished(0, '{"start"', "") if "-R" in words else None, "program", "damaged"),
        (lambda words: unconnected("No route to host"), "unreachable", "No route to host"),
        (lambda words: unconnected("Connection timed out"), "unreachable", "Connection timed out"),
        (
            lambda words: Finished(1, '{"error": "control socket has closed unexpectedly"}', ""),
            "nothing",
            "closed",
        ),
        (lambda words: measured(words, nothing), "nothing", "nothing was received"),
        (lambda words: measured(words, elsewhere), "other", "expected 10.9.0.1 -> 10.9.0.2, got"),
        (lambda words: absent(), "program", "No such file"),
        (lambda words: unanswered(), "timeout", "in time"),
    ],
)
def test_what_was_not_measured_has_a_reason_and_a_word_for_it(
    node: CampaignMachine, time: Time, says: Any, failed: str, reason: str
) -> None:
    node.says = lambda words: says(words) if "-c" in words else None

    [slot] = result(node, time)["slots"]

    assert reason in slot["reason"]
    assert slot["failed"] == failed
    assert failed in FAILED
    assert "forward_gbits" not in slot
    # This machine has no ping.
    assert "probe" not in slot


def unconnected(why: str) -> Finished:
    return Finished(1, json.dumps({"start": {}, "error": f"unable to connect to server: {why}"}), "")


def nothing(document: Any) -> None:
    document["end"]["sum_received"]["bytes"] = 0


def elsewhere(document: Any) -> None:
    document["start"]["connected"][0]["remote_host"] = "10.9.0.9"


def absent() -> Finished:
    raise HostError("run", "iperf3", 2)


def unanswered() -> Finished:
    raise UnansweredError("run", "iperf3", None, "it did not end in time")


def test_a_way_that_leads_nowhere(node: CampaignMachine, time: Time) -> None:
    node.ip.prints["route"] = "[]"

    [slot] = result(node, time)["slots"]

    assert slot["failed"] == "unreachable"
    assert "ip -j route get" in slot["reason"]


@cases.table
def test_what_was_sent_again_is_a_share_of_what_was_sent(
    node: CampaignMachine, time: Time, retransmits: int | None, mss: int | None, loss: float | None
) -> None:
    def change(document: Any) -> None:
        document["start"]["tcp_mss_default"] = mss
        if retransmits is None:
            del document["end"]["sum_sent"]["retransmits"]
        else:
            document["end"]["sum_sent"]["retransmits"] = retransmits

    def says(words: Sequence[str]) -> Finished | None:
        if "-c" not in words or "-R" in words:
            return None
        node.cross("tx", 10**9)
        return measured(words, change)

    node.says = says

    forward, backward = result(node, time)["slots"][0]["loss"]

    assert forward == (None if loss is None else pytest.approx(loss, rel=0.01))
    assert backward == 0


def test_a_server_that_comes_late_is_awaited(node: CampaignMachine, time: Time) -> None:
    tries: list[str] = []

    def says(words: Sequence[str]) -> Finished | None:
        tries.append(" ".join(words))
        return REFUSED if "-c" in words and len(tries) < 6 else None

    node.says = says

    assert result(node, time, streams=1)["slots"][0]["reason"] == ""


def test_what_never_crossed_the_interface_does_not_count(node: CampaignMachine, time: Time) -> None:
    node.crossing = 0.5

    [slot] = result(node, time)["slots"]

    assert "37 MB were measured, but eth0 has sent 19: the others went another way" in slot["reason"]


def test_a_peer_that_is_this_node_does_not_count(node: CampaignMachine, time: Time) -> None:
    node.ip.prints["route"] = '[{"dev": "lo"}]'

    [slot] = result(node, time)["slots"]

    assert slot["reason"] == f"{PEER} is an address of this node itself: nothing would cross the network"


def test_streams_that_did_not_run_together_do_not_count(node: CampaignMachine, time: Time) -> None:
    tries: list[str] = []

    def says(words: Sequence[str]) -> Finished | None:
        if "-c" in words:
            tries.append(words[words.index("-p") + 1])
        return REFUSED if tries[-1:] == ["18601"] and tries.count("18601") < 8 else None

    node.says = says

    assert "apart, and were not measured together" in result(node, time)["slots"][0]["reason"]


def test_a_hole_and_busy_cores_are_seen(node: CampaignMachine, time: Time) -> None:
    def change(document: Any) -> None:
        document["intervals"][2]["sum"]["bytes"] //= 10
        document["end"]["cpu_utilization_percent"]["remote_total"] = 96.0

    def says(words: Sequence[str]) -> Finished | None:
        if "-c" not in words or "-R" in words:
            return None
        node.cross("tx", 10**9)
        return measured(words, change)

    node.says = says

    [slot] = result(node, time)["slots"]

    assert slot["hole"] == pytest.approx(0.1, abs=0.02)
    assert slot["cpu_bound"]


def test_a_stranger_at_the_server_is_reported(node: CampaignMachine, time: Time) -> None:
    node.says = lambda words: served("10.9.0.1", "10.9.9.9") if "-s" in words else None

    [entry] = result(node, time)["served"]

    assert entry == {"round": 1, "rail": 0, "reason": f"10.9.9.9 came to port 18600 in place of {PEER}"}


@pytest.mark.parametrize("answer", [NO_CLIENT, Finished(1, "", "bind failed")])
def test_a_server_without_a_client_says_nothing(node: CampaignMachine, time: Time, answer: Finished) -> None:
    node.says = lambda words: answer if "-s" in words else None

    assert result(node, time)["served"] == []


# -- before it begins ---------------------------------------------------------------------------


def refusal(node: CampaignMachine, time: Time, **more: Any) -> str:
    with pytest.raises(MlnodeError) as error:
        started(node, time, **more)
    assert not node.exists(FILE)
    return str(error.value)


def test_a_job_is_not_disturbed_unless_that_is_allowed(node: CampaignMachine, time: Time) -> None:
    job(node)

    assert "but the node is in use: pid 4711 (python3) holds /dev/nvidia0" in refusal(node, time)
    assert result(node, time, allow=["busy"])["slots"][0]["reason"] == ""


def test_an_interface_in_use_is_not_disturbed(node: CampaignMachine, time: Time) -> None:
    # 1 s at 10 of 100 Gb/s
    time.on_sleep = lambda: node.count("rx", 1_250_000_000)
    with pytest.raises(RefusedError) as error:
        run.start(node, asked(), clock=time.clock, starter=lambda work: None)

    assert "eth0 carries 10 of its 100 Gb/s" in str(error.value)


def test_an_address_that_is_not_here(node: CampaignMachine, time: Time) -> None:
    assert "no interface of this node has the address 10.7.7.7" in refusal(node, time, addresses=["10.7.7.7"])


def test_a_node_without_iperf3(node: CampaignMachine, time: Time) -> None:
    def says(words: Sequence[str]) -> Finished | None:
        raise HostError("run", "iperf3", 2)

    node.says = says

    assert "install iperf3" in refusal(node, time)


def test_no_second_campaign_at_the_same_time(node: CampaignMachine, time: Time) -> None:
    run.start(node, asked(), clock=time.clock, starter=lambda work: None)

    with pytest.raises(RefusedError, match="the campaign spring-1 runs here for "):
        run.start(node, asked(id="other"), clock=time.clock, starter=lambda work: None)


def test_rounds_that_are_all_over(node: CampaignMachine, time: Time) -> None:
    assert "all rounds were over" in refusal(node, time, start=NOW - 3600)


@pytest.mark.parametrize("wait", [0.5, 1e6, float("nan")])
def test_a_wait_without_end(node: CampaignMachine, time: Time, wait: float) -> None:
    with pytest.raises(MlnodeError, match=r"wait: .* is not between 1 and 43200 seconds"):
        run.start(node, asked(start=None), wait, clock=time.clock)


def test_a_node_that_is_prepared_already_is_not_prepared_again(node: CampaignMachine, time: Time) -> None:
    works: list[Any] = []
    for _once_more in range(2):
        found = run.start(node, asked(start=None), clock=time.clock, starter=works.append)
        assert found.interfaces == ("eth0",)

    assert len(works) == 1
    with pytest.raises(RefusedError, match="the campaign spring-1 runs here for 60"):
        run.start(node, asked(start=None, id="other"), clock=time.clock, starter=works.append)


@pytest.mark.parametrize(
    ("state", "start", "said"),
    [
        (None, NOW + 10, "does not wait here: it was not prepared, or has given up waiting"),
        (State("other", NOW + 60, False, {}, None, 20.0), NOW + 10, "does not wait here"),
        (State("spring-1", NOW + 60, False, {}, None, 20.0), NOW - 20, "was over before"),
        (State("spring-1", NOW + 60, False, {}, NOW + 9, 20.0), NOW + 10, "has another start already"),
    ],
)
def test_a_start_that_cannot_be_told(
    node: CampaignMachine, time: Time, state: State | None, start: float, said: str
) -> None:
    if state is not None:
        store.write(node, state)

    with pytest.raises(RefusedError, match=said):
        store.begin(node, "spring-1", start, time.clock)
    assert store.read(node) == state


def test_check_mode_starts_nothing(node: CampaignMachine, time: Time) -> None:
    def starter(_work: object) -> None:
        raise AssertionError

    found = run.start(node, asked(), dry=True, clock=time.clock, starter=starter)

    assert found.interfaces == ("eth0",)
    assert not node.exists(FILE)


def test_a_process_that_cannot_be_started_leaves_nothing(node: CampaignMachine, time: Time) -> None:
    def starter(_work: object) -> None:
        raise OSError(11, "again")

    with pytest.raises(HostError, match="EAGAIN"):
        run.start(node, asked(), clock=time.clock, starter=starter)
    assert not node.exists(FILE)


# -- the end --------------------------------------------------------------------------------------


def test_nothing_to_collect(node: CampaignMachine, time: Time) -> None:
    found = store.collect(node, "spring-1", 5, time.clock)

    assert (found.done, found.answer) == (False, {})
    assert found.problem == "no campaign was started here, or its result has gone"


def test_another_campaign_is_not_collected(node: CampaignMachine, time: Time) -> None:
    run.start(node, asked(), clock=time.clock, starter=lambda work: None)

    assert (
        "the campaign spring-1 is here, and not other" in store.collect(node, "other", 0, time.clock).problem
    )
    assert node.exists(FILE)


def test_one_that_is_not_over_is_ended(node: CampaignMachine, time: Time) -> None:
    run.start(node, asked(), clock=time.clock, starter=lambda work: None)

    found = store.collect(node, "spring-1", 5, time.clock)

    assert (found.done, found.problem) == (False, "it was not over, and was ended")
    assert found.answer["slots"] == []
    assert not node.exists(FILE)


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"format": 1}', '{"format": 1, "id": "a", "done": true, "answer": {}}']
)
def test_a_damaged_file_is_named(node: CampaignMachine, time: Time, text: str) -> None:
    node.put(FILE, text)

    with pytest.raises(StoreError, match=FILE):
        store.collect(node, "spring-1", 0, time.clock)


# -- a scope of systemd ---------------------------------------------------------------------------


def test_without_systemd_there_is_no_scope_and_the_result_says_so(node: CampaignMachine, time: Time) -> None:
    assert result(node, time)["contained"] == "systemd does not run here"


def test_with_systemd_it_runs_in_a_scope(node: CampaignMachine, time: Time) -> None:
    node.put("/run/systemd/system/x", "")

    assert result(node, time)["contained"] == ""
    [call] = [words for words in node.commands if words.startswith("busctl")]
    assert "StartTransientUnit ssa(sv)a(sa(sv)) mlnode-campaign-spring-1-" in call


def test_a_systemd_that_refuses(node: CampaignMachine, time: Time) -> None:
    node.put("/run/systemd/system/x", "")
    node.says = lambda words: Finished(1, "", "Unknown property\n") if words[0] == "busctl" else None

    found = result(node, time)

    assert found["contained"] == "Unknown property"
    assert found["slots"][0]["reason"] == ""


def test_the_scope_allows_the_peers_alone() -> None:
    words = scope.command("x.scope", 42, 90.5, ["10.9.0.2", "fd00::2", "10.9.0.2"])

    text = " ".join(words)
    assert "PIDs au 1 42" in text
    assert "RuntimeMaxUSec t 90500000" in text
    assert "IPAddressDeny a(iayu) 2 2 4 0 0 0 0 0 10 16" in text
    assert "IPAddressAllow a(iayu) 2 2 4 10 9 0 2 32 10 16 253 0 0 0 0 0 0 0 0 0 0 0 0 0 0 2 128" in text
    assert text.endswith(" 128 0")
