"""Majorities. Both the high watermark and check-quorum ask one question: how far has a majority come?"""

from collections.abc import Iterable, Mapping
from enum import Enum


class Outcome(Enum):
    PENDING = "pending"
    WON = "won"
    LOST = "lost"


def majority(size: int) -> int:
    """How many of `size` voters any two groups of which share a member."""
    return size // 2 + 1


def reached_by_majority(values: Iterable[float]) -> float:
    """The highest value that a majority of the voters have reached, given one value for each voter.

    With the offsets up to which each voter's log is durable, it is the high watermark; with the times at which each was
    last heard, it is when the leader last had its majority. At least one voter.
    """
    descending = sorted(values, reverse=True)
    return descending[majority(len(descending)) - 1]


def outcome(voter_ids: Iterable[int], votes: Mapping[int, bool]) -> Outcome:
    """What the votes so far decide; only those of `voter_ids` count. Nobody wins among no voters."""
    ids = list(voter_ids)
    needed = majority(len(ids))
    granted = sum(votes.get(voter_id) is True for voter_id in ids)
    refused = sum(votes.get(voter_id) is False for voter_id in ids)
    if granted >= needed:
        return Outcome.WON
    return Outcome.LOST if len(ids) - refused < needed else Outcome.PENDING
