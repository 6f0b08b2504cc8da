"""Placement of the replicas of new partitions on brokers."""

from collections.abc import Iterable, Iterator
from random import Random

from kraft import lazy_attrs
from metadata.image import BrokerImage
from metadata.protocol import ErrorCode, KafkaError


@lazy_attrs.define
class _Rack:
    """The active and the other brokers of a rack, in the order of their turns. The counters tell the next turn."""

    active: list[int]
    others: list[int]
    led: int = 0
    followed: int = 0
    followed_by_others: int = 0

    def leader(self) -> int:
        self.led += 1
        return self.active[(self.led - 1) % len(self.active)]

    def followers_beside_leader(self, count: int) -> list[int]:
        """The brokers after the leader in the order of turns, so that followers rotate like leaders."""
        active = _rotated(self.active, self.led)[:-1]
        return [*active[:count], *self._others(count - len(active))]

    def followers(self, count: int) -> list[int]:
        active = _rotated(self.active, self.followed)[:count]
        self.followed += len(active)
        return [*active, *self._others(count - len(active))]

    def _others(self, count: int) -> list[int]:
        if count <= 0:
            return []
        others = _rotated(self.others, self.followed_by_others)[:count]
        self.followed_by_others += len(others)
        return others

    def shuffle(self, rng: Random) -> None:
        for members in (self.active, self.others):
            if len(members) > 1:
                rng.shuffle(members)

    def __len__(self) -> int:
        return len(self.active) + len(self.others)


class StripedReplicaPlacer:
    """Spreads a partition's replicas over as many racks as possible, and leaders evenly over racks and brokers.

    As in Kafka, the racks take turns, whatever their sizes, and so do the brokers of a rack. An inactive broker gets
    replicas only if its rack has no active one left, and never the first replica, which leads. The brokers are shuffled
    after each round, so that two brokers do not share all of their partitions, and small topics do not all use the same
    brokers. A broker of which all log directories are cordoned gets no replicas (KIP-1066).

    Raises KafkaError INVALID_REPLICATION_FACTOR if there are too few brokers.
    """

    def __init__(self, brokers: Iterable[BrokerImage], replication_factor: int, rng: Random) -> None:
        usable = (broker for broker in brokers if not broker.is_cordoned)
        everybody = sorted(usable, key=lambda broker: broker.broker_id)
        _check(replication_factor, everybody)
        self._replication_factor = replication_factor
        self._rng = rng
        self._active_count = sum(broker.is_active for broker in everybody)
        self._placed = 0
        self._racks: list[_Rack] = []
        for name in sorted({broker.rack or "" for broker in everybody}):
            members = [broker for broker in everybody if (broker.rack or "") == name]
            self._racks.append(
                _Rack([b.broker_id for b in members if b.is_active], [b.broker_id for b in members if not b.is_active])
            )
        self._shuffle()

    def place(self) -> tuple[int, ...]:
        """Return the replicas of the next partition, with the leader first."""
        if self._placed and self._placed % self._active_count == 0:
            self._shuffle()
        leading = self._leading[self._placed % len(self._leading)]
        self._placed += 1
        leader = leading.leader()
        if self._replication_factor == 1:
            return (leader,)
        first = self._racks.index(leading)
        return (leader, *self._followers([*self._racks[first:], *self._racks[:first]]))

    def _followers(self, racks: list[_Rack]) -> Iterator[int]:
        """Return the followers, with the racks taking turns. The leader is in the first rack."""
        shares = self._shares(racks)
        chosen = [racks[0].followers_beside_leader(shares[0] - 1)]
        chosen += [rack.followers(share) for rack, share in zip(racks[1:], shares[1:], strict=True)]
        for turn in range(max(shares)):
            yield from (members[turn] for members in chosen[1:] if turn < len(members))
            yield from chosen[0][turn : turn + 1]

    def _shares(self, racks: list[_Rack]) -> list[int]:
        """The number of replicas of each rack: racks take turns, until they have no more brokers."""
        shares, left = [0] * len(racks), self._replication_factor
        while left:
            for index, rack in enumerate(racks):
                if left and shares[index] < len(rack):
                    shares[index] += 1
                    left -= 1
        return shares

    def _shuffle(self) -> None:
        if len(self._racks) > 1:
            self._rng.shuffle(self._racks)
        self._leading = [rack for rack in self._racks if rack.active]
        for rack in self._racks:
            rack.shuffle(self._rng)


def _rotated(members: list[int], turn: int) -> list[int]:
    first = turn % len(members) if members else 0
    return [*members[first:], *members[:first]]


def _check(replication_factor: int, brokers: list[BrokerImage]) -> None:
    if replication_factor <= 0:
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"Invalid replication factor {replication_factor}: the replication factor must be positive.",
        )
    if not any(broker.is_active for broker in brokers):
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "All brokers are currently fenced, or have all their log directories cordoned.",
        )
    if replication_factor > len(brokers):
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"The target replication factor of {replication_factor} cannot be reached because only "
            f"{len(brokers)} broker(s) are registered or some brokers have all their log directories cordoned.",
        )
