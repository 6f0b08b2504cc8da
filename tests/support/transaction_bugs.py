"""Bugs to plant into the storage of transactions; see `planted_bugs`."""

from typing import Any

from broker.replication.commit_state import CommitState
from broker.storage import aborted_transactions
from broker.storage.producer_state import ProducerStates
from broker.storage.transaction_index import TransactionIndex
from tests.support.planted_bugs import Bug, PatchedFunction, does_nothing


def _high_watermark(last_stable_offset: Any) -> Any:
    return lambda commit_state, log: commit_state.high_watermark


def _late(since: Any) -> Any:
    """A marker at `offset` itself ends no transaction with records from there on, but the next one may."""
    return lambda index, offset: since(index, offset + 2)


def _first_alone(collect: Any) -> Any:
    return lambda segments, offset, end_offset: collect(segments, offset, end_offset)[:1]


def _begins_one_offset_late(collect: Any) -> Any:
    def wrong(segments: Any, offset: int, end_offset: int) -> Any:
        found = collect(segments, offset, end_offset)
        return [entry._replace(first_offset=entry.first_offset + 1) for entry in found]

    return wrong


TRANSACTION_BUGS: dict[str, Bug] = {
    "the last stable offset passes open transactions": PatchedFunction(
        CommitState, "last_stable_offset", _high_watermark
    ),
    "the transaction index is searched too far along": PatchedFunction(TransactionIndex, "since", _late),
    "aborted transactions begin one offset late": PatchedFunction(
        aborted_transactions, "collect_aborted", _begins_one_offset_late
    ),
    "the list of aborted transactions is cut short": PatchedFunction(
        aborted_transactions, "collect_aborted", _first_alone
    ),
    "markers of old epochs are accepted": PatchedFunction(ProducerStates, "check_marker", does_nothing),
    "a truncation leaves the transaction index": PatchedFunction(TransactionIndex, "truncate_to", does_nothing),
    "markers are stable before they are replicated": PatchedFunction(
        ProducerStates, "advance_high_watermark", lambda right: lambda states, offset: states.unreplicated.clear()
    ),
}
