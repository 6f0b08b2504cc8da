"""Which brokers get a new partition."""

from collections.abc import Iterable, Iterator
from random import Random
from typing import TypeVar

import attrs

from metadata.errors import InvalidReplicationFactor
from metadata.image import BrokerImage

T = TypeVar("T")


@attrs.define
class _Rack:
    unfenced: list[int]
    fenced: list[int]
    # How often the rack has given a leader, and followers: whose turn it is next.
    leaders: int = 0
    followers: int = 0


class StripedReplicaPlacer:
    """Spreads leaders evenly over racks and brokers, and a partition's replicas over as many racks as there are.

    A fenced broker gets replicas only where a rack has nobody else left, and never the first one, which will lead.
    Brokers are shuffled at random, so that small topics do not all land on the same ones. Raises
    InvalidReplicationFactor when that many replicas cannot be had.
    """

    def __init__(self, brokers: Iterable[BrokerImage], replication_factor: int, rng: Random) -> None:
        everybody = sorted(brokers, key=lambda broker: broker.broker_id)
        _check(replication_factor, everybody)
        self._replication_factor = replication_factor
        self._rng = rng
        self._unfenced_count = sum(not broker.fenced for broker in everybody)
        self._placed = 0
        self._racks: list[_Rack] = []
        for name in sorted({broker.rack or "" for broker in everybody}):
            members = [broker for broker in everybody if (broker.rack or "") == name]
            self._racks.append(
                _Rack([b.broker_id for b in members if not b.fenced], [b.broker_id for b in members if b.fenced])
            )
        self._shuffle()

    def place(self) -> tuple[int, ...]:
        """The replicas of the next partition, the one to lead first."""
        if self._placed and self._placed % self._unfenced_count == 0:
            self._shuffle()
        racks = _rotated(self._racks, self._placed)
        leading = next(rack for rack in racks if rack.unfenced)
        leader = leading.unfenced[leading.leaders % len(leading.unfenced)]
        leading.leaders += 1
        self._placed += 1
        if self._replication_factor == 1:
            return (leader,)
        first = racks.index(leading)
        return (leader, *self._followers([*racks[first + 1 :], *racks[: first + 1]], leader))

    def _followers(self, racks: list[_Rack], leader: int) -> Iterator[int]:
        """The others, rack by rack in turn, beginning behind the leader's."""
        turns = [iter(self._candidates(rack, leader)) for rack in racks]
        wanted = self._replication_factor - 1
        while wanted:
            for turn in turns:
                broker = next(turn, None)
                if broker is not None and wanted:
                    yield broker
                    wanted -= 1

    def _candidates(self, rack: _Rack, leader: int) -> list[int]:
        turn, rack.followers = rack.followers, rack.followers + 1
        in_turn = (*_rotated(rack.unfenced, turn), *_rotated(rack.fenced, turn))
        return [broker for broker in in_turn if broker != leader]

    def _shuffle(self) -> None:
        if len(self._racks) > 1:
            self._rng.shuffle(self._racks)
        for rack in self._racks:
            for members in (rack.unfenced, rack.fenced):
                if len(members) > 1:
                    self._rng.shuffle(members)


def _rotated(members: list[T], turn: int) -> list[T]:
    first = turn % len(members) if members else 0
    return [*members[first:], *members[:first]]


def _check(replication_factor: int, brokers: list[BrokerImage]) -> None:
    if replication_factor <= 0:
        raise InvalidReplicationFactor(
            f"Invalid replication factor {replication_factor}: the replication factor must be positive."
        )
    if all(broker.fenced for broker in brokers):
        raise InvalidReplicationFactor("All brokers are currently fenced.")
    if replication_factor > len(brokers):
        raise InvalidReplicationFactor(
            f"The target replication factor of {replication_factor} cannot be reached because only "
            f"{len(brokers)} broker(s) are registered."
        )
