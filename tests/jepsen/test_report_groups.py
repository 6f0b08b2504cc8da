"""A report shows the owner of each partition over time, and the lag of each group."""

import re
from pathlib import Path

from jepsen.history import History, Outcome
from jepsen.journal import write_history
from jepsen.report.command import write_report
from jepsen.report.groups import Claim, GroupTimeline, group_timelines
from jepsen.report.measures import Bins
from jepsen.store import RunPlan, Store, Uptime
from jepsen.values import Commit, GroupPoll, Ownership, Sending

TOPIC = "queue"


class Script:
    """Operations at chosen times, each completed at once."""

    def __init__(self) -> None:
        self.now = 0.0
        self.history = History(lambda: self.now)

    def own(self, at: float, function: str, member: str, generation: int, *partitions: int) -> None:
        named = tuple((TOPIC, partition) for partition in partitions)
        self._record(at, member, function, Ownership("group", member, generation, named), None)

    def send(self, at: float, offset: int, count: int) -> None:
        values = tuple(f"p/0@0/{offset + index}" for index in range(count))
        self._record(at, "p", "send", Sending(TOPIC, 0, "p", offset, values), offset)

    def poll(self, at: float, member: str, offset: int, count: int) -> None:
        records = tuple((each, f"p/0@0/{each}") for each in range(offset, offset + count))
        self._record(at, member, "poll-group", GroupPoll("group", member, TOPIC, 0), records)

    def commit(self, at: float, member: str, offset: int) -> None:
        self._record(at, member, "commit", Commit("group", member, 1, ((TOPIC, 0, offset),)), None)

    def timeline(self, *uptimes: Uptime) -> GroupTimeline:
        (timeline,) = group_timelines(self.history, uptimes, Bins.over(20.0), 20.0)
        return timeline

    def _record(self, at: float, client: str, function: str, value: object, result: object) -> None:
        self.now = at
        self.history.ok(self.history.invoke(client, function, value), result)


def test_a_claim_lasts_until_it_is_given_up_or_the_member_dies() -> None:
    script = Script()
    script.own(1.0, "assign", "m1.0.0", 1, 0, 1)
    script.own(5.0, "revoke", "m1.0.0", 1, 1)
    script.own(6.0, "assign", "m2.0.0", 2, 1)
    timeline = script.timeline(Uptime("m1", 0.5, None, 8.0, "killed"), Uptime("m2", 0.5))
    assert timeline.claims == {
        "queue-0": [Claim("m1", 1.0, 8.0, 1)],
        "queue-1": [Claim("m1", 1.0, 5.0, 1), Claim("m2", 6.0, 20.0, 2)],
    }
    assert timeline.generations == [(1.0, 1), (6.0, 2)]
    assert timeline.places == ["m1", "m2"]


def test_paused_member_keeps_its_partitions() -> None:
    script = Script()
    script.own(1.0, "assign", "m1.0.0", 1, 0)
    script.own(7.0, "assign", "m2.0.0", 2, 0)
    script.own(9.0, "lose", "m1.0.0", 1, 0)
    timeline = script.timeline(Uptime("m1", 0.5, None, 3.0, "paused"), Uptime("m1", 8.0), Uptime("m2", 0.5))
    assert timeline.claims["queue-0"] == [Claim("m1", 1.0, 9.0, 1), Claim("m2", 7.0, 20.0, 2)]


def test_lag_is_the_acknowledged_records_that_no_member_received() -> None:
    script = Script()
    script.own(1.0, "assign", "m1.0.0", 1, 0)
    script.send(2.0, 0, 10)
    script.poll(4.0, "m1.0.0", 0, 6)
    script.poll(5.0, "m1.0.0", 3, 7)
    timeline = script.timeline()
    bins = Bins.over(20.0)
    assert [timeline.lag[bins.index(at)] for at in (1.0, 3.0, 4.5, 6.0)] == [0, 10, 4, 0]


def test_repeated_records_and_time_without_an_owner_are_counted() -> None:
    script = Script()
    script.own(1.0, "assign", "m1.0.0", 1, 0)
    script.poll(4.0, "m1.0.0", 0, 6)
    script.commit(4.5, "m1.0.0", 6)
    script.own(5.0, "revoke", "m1.0.0", 1, 0)
    script.own(8.5, "assign", "m2.0.0", 2, 0)
    script.poll(9.0, "m2.0.0", 3, 7)
    timeline = script.timeline()
    assert (timeline.polled, timeline.repeated) == (13, 3)
    assert timeline.longest_unowned() == 3.5
    assert timeline.commits == {Outcome.OK: 1}


def test_it_is_drawn(tmp_path: Path) -> None:
    script = Script()
    script.own(1.0, "assign", "m1.0.0", 1, 0)
    script.send(2.0, 0, 10)
    script.poll(2.5, "m1.0.0", 0, 10)
    script.commit(3.0, "m1.0.0", 10)
    script.own(7.0, "assign", "m2.0.0", 2, 0)
    script.own(9.0, "lose", "m1.0.0", 1, 0)
    store = Store(tmp_path)
    store.write_plan(
        RunPlan("groups", (), ("n1",), 20.0, 1, "2026-01-02T03:04:05", "", parameters={"group": "classic"})
    )
    store.write_members([Uptime("m1", 0.5, None, 10.0, "killed"), Uptime("m2", 0.5)])
    with (tmp_path / "history.jsonl").open("wb") as file:
        write_history(script.history, file)
    assert [each.outcome for each in store.history().of("commit")] == [Outcome.OK]
    text = write_report(store).read_text()
    assert "group group: classic" in text
    assert len(re.findall('class="claim m[01]"', text)) == 2
    assert len(re.findall('class="zombie m0"', text)) == 1
    assert len(re.findall('class="killed"', text)) == 1
    assert "queue-0 is m2's in generation 2" in text.replace("&#x27;", "'")
