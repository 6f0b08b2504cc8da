"""Majorities of voters: election results, and the value that a majority has reached."""

from collections.abc import Iterable, Mapping
from enum import Enum


class Outcome(Enum):
    PENDING = "pending"
    WON = "won"
    LOST = "lost"


def majority(size: int) -> int:
    """The smallest number of voters, out of `size`, such that any two groups of that number overlap."""
    return size // 2 + 1


def reached_by_majority(values: Iterable[float]) -> float:
    """The highest value that a majority of the voters has reached. `values` holds one value per voter, at least one.

    For the durable end offsets of the voters' logs, this is the high watermark. For the times of their last Fetches, it
    is the last time at which the leader was in contact with a majority.
    """
    descending = sorted(values, reverse=True)
    return descending[majority(len(descending)) - 1]


def outcome(voter_ids: Iterable[int], votes: Mapping[int, bool]) -> Outcome:
    """The result of the votes so far. Only the votes of `voter_ids` count; an empty voter set elects no leader."""
    ids = list(voter_ids)
    needed = majority(len(ids))
    granted = sum(votes.get(voter_id) is True for voter_id in ids)
    refused = sum(votes.get(voter_id) is False for voter_id in ids)
    if granted >= needed:
        return Outcome.WON
    return Outcome.LOST if len(ids) - refused < needed else Outcome.PENDING
