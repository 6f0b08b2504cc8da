"""The history of each group in a run: its members' uptimes, the owners of its partitions, and its lag."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate

import attrs

from jepsen.checkers.committed_offsets import completion_time
from jepsen.checkers.ownership import OwnershipPeriod, find_ownerships
from jepsen.checkers.records import TopicPartition, name_of
from jepsen.history import History, Outcome
from jepsen.report.measures import Bins
from jepsen.store import Uptime


@attrs.frozen
class Claim:
    """The time during which a member considered itself the owner of a partition.

    `place` is the member's place in the group, which is the same for all its uptimes.
    """

    place: str
    begin: float
    end: float
    generation: int


@attrs.frozen
class GroupTimeline:
    """`claims` are by partition, in order. `generations` are (time of its first event, number), where known.

    `lag` has, for each bin, the number of acknowledged records that no member had received yet. `polled` counts the
    records that members received, and `repeated` those of them that a member had received before. `commits` are by
    outcome.
    """

    name: str
    uptimes: Mapping[str, Sequence[Uptime]]
    claims: Mapping[str, Sequence[Claim]]
    generations: Sequence[tuple[float, int]]
    lag: Sequence[float]
    polled: int
    repeated: int
    commits: Mapping[Outcome, int]

    @property
    def places(self) -> list[str]:
        return list(self.uptimes)

    def longest_unowned(self) -> float:
        """The longest time, in seconds, for which a partition had no owner after its first one."""
        longest = 0.0
        for claims in self.claims.values():
            until = claims[0].begin
            for claim in claims:
                longest, until = max(longest, claim.begin - until), max(until, claim.end)
        return longest


def group_timelines(history: History, uptimes: Iterable[Uptime], bins: Bins, end: float) -> list[GroupTimeline]:
    """The history of each group, ordered by the first ownership."""
    by_group: dict[str, list[OwnershipPeriod]] = defaultdict(list)
    for owned in find_ownerships(history):
        by_group[owned.group].append(owned)
    by_place: dict[str, list[Uptime]] = defaultdict(list)
    for uptime in uptimes:
        by_place[uptime.node].append(uptime)
    return [_timeline(name, every, by_place, history, bins, end) for name, every in by_group.items()]


def _timeline(
    name: str,
    every: Sequence[OwnershipPeriod],
    uptimes: Mapping[str, Sequence[Uptime]],
    history: History,
    bins: Bins,
    end: float,
) -> GroupTimeline:
    claims: dict[str, list[Claim]] = defaultdict(list)
    first: dict[int, float] = {}
    for owned in every:
        place = owned.member.partition(".")[0]
        until = owned.ended_at or _death(uptimes.get(place, ()), owned.began_at) or end
        generation, _ = owned.generations[0]
        claims[name_of(owned.partition)].append(Claim(place, owned.began_at, until, generation))
        for number, since in owned.generations:
            first[number] = min(first.get(number, since), since)
    places = sorted({claim.place for each in claims.values() for claim in each})
    return GroupTimeline(
        name,
        {place: uptimes.get(place, ()) for place in places},
        dict(sorted(claims.items())),
        sorted((since, number) for number, since in first.items() if number >= 0),
        _behind(name, history, bins),
        *_polled(name, history),
        Counter(each.outcome for each in history.of("commit") if each.value.group == name),
    )


def _polled(group: str, history: History) -> tuple[int, int]:
    """The number of records that members received, and how many of them were received before."""
    values = [
        value
        for operation in history.of("poll-group", outcome=Outcome.OK)
        if operation.value.group == group
        for _, value in operation.result
    ]
    return len(values), len(values) - len(set(values))


def _death(uptimes: Sequence[Uptime], since: float) -> float | None:
    """The end of the process that ran at time `since`. A paused process does not count as ended."""
    return next((each.ended_at for each in uptimes if (each.ended_at or 0) > since and each.end != "paused"), None)


def _behind(group: str, history: History, bins: Bins) -> list[float]:
    """The lag in each bin: acknowledged records minus records received by a member, by the end offsets of each
    partition.
    """
    gained = bins.zeros()
    ends: dict[tuple[str, TopicPartition], int] = defaultdict(int)
    for operation in sorted(history.of("send", "poll-group", outcome=Outcome.OK), key=completion_time):
        value, result, is_poll = operation.value, operation.result, operation.function == "poll-group"
        if result in (None, ()) or (is_poll and value.group != group):
            continue
        end = result[-1][0] + 1 if is_poll else result + len(value.values)
        key = operation.function, (value.topic, value.partition)
        new, ends[key] = end - ends[key], max(end, ends[key])
        if new > 0:
            gained[bins.index(completion_time(operation))] += -new if is_poll else new
    return [max(each, 0.0) for each in accumulate(gained)]
