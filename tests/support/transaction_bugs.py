"""Bugs planted into the storage and the coordinator of transactions; see `planted_bugs`."""

from typing import Any

import attrs

from broker.coordinator.group.offsets import requests as offset_requests
from broker.coordinator.transaction import requests
from broker.coordinator.transaction.coordinator import TransactionCoordinator
from broker.coordinator.transaction.transaction import Transaction, Transition
from broker.replication.commit_state import CommitState
from broker.storage import aborted_transactions
from broker.storage.log import Log
from broker.storage.producer_state import ProducerStates
from broker.storage.transaction_index import TransactionIndex
from broker.wire.records.batch import BatchHeader
from tests.support.planted_bugs import Bug, PatchedFunction, PatchedFunctions, does_nothing


def _high_watermark(last_stable_offset: Any) -> Any:
    return lambda commit_state, log: commit_state.high_watermark


def _late(since: Any) -> Any:
    """A marker at `offset` itself ends no transaction with records from there on, but the next one may."""
    return lambda index, offset: since(index, offset + 2)


def _only_first(collect: Any) -> Any:
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
        aborted_transactions, "collect_aborted", _only_first
    ),
    "markers of old epochs are accepted": PatchedFunction(ProducerStates, "check_marker", does_nothing),
    "a truncation leaves the transaction index": PatchedFunction(TransactionIndex, "truncate_to", does_nothing),
    "markers are stable before they are replicated": PatchedFunction(
        ProducerStates, "advance_high_watermark", lambda right: lambda states, offset: states.unreplicated.clear()
    ),
}


def _send_markers_at_once(end: Any) -> Any:
    """Send the markers when the outcome is decided, and not when its record is committed."""

    def wrong(coordinator: TransactionCoordinator, transactional_id: str, decide: Any, prepared_of: Any) -> Any:
        partition = coordinator.runtime.partition_for(transactional_id)

        def decide_and_send(state: Any, now_ms: int) -> Any:
            decision = decide(state, now_ms)
            prepared = prepared_of(decision.response)
            if prepared is not None:
                coordinator._send_markers(partition, transactional_id, prepared)
            return decision

        return coordinator.runtime.write(partition, decide_and_send)

    return wrong


def _keep_epoch(transition_of: Any) -> Any:
    def wrong(current: Transaction, *args: Any, **kwargs: Any) -> Transition:
        transition: Transition = transition_of(current, *args, **kwargs)
        same_epoch = attrs.evolve(
            transition.next, producer_id=current.producer_id, producer_epoch=current.producer_epoch
        )
        return transition._replace(next=same_epoch)

    return wrong


def _ignore_members(validate: Any) -> Any:
    def wrong(state: Any, committer: Any, *, is_transactional: bool) -> None:
        if not is_transactional:
            validate(state, committer, is_transactional=is_transactional)

    return wrong


def _forget_sequences(observe_producer: Any) -> Any:
    """A follower forgets which batches it has of a producer; its open transactions stay known."""

    def wrong(log: Log, header: BatchHeader, batch: Any) -> None:
        observe_producer(log, header, batch)
        state = log.producers.get(header.producer_id)
        if state is not None:
            state.batches.clear()

    return wrong


def _accept_after_unknown(check: Any) -> Any:
    def wrong(states: ProducerStates, header: BatchHeader) -> Any:
        state = states.get(header.producer_id)
        is_unknown = state is not None and header.producer_epoch == state.epoch and not state.batches
        return None if is_unknown else check(states, header)

    return wrong


# Rules that only a cluster with several clients can break: `tests/simulation/test_planted_coordination_bugs.py`.
COORDINATION_BUGS: dict[str, Bug] = {
    "markers are sent before the outcome is committed": PatchedFunction(
        TransactionCoordinator, "_end", _send_markers_at_once
    ),
    "fencing leaves the epoch as it is": PatchedFunctions(
        PatchedFunction(requests, "initialize", _keep_epoch), PatchedFunction(requests, "fence", _keep_epoch)
    ),
    "offsets of members that were replaced are accepted": PatchedFunction(
        offset_requests, "_validate", _ignore_members
    ),
    "a new leader does not detect duplicates": PatchedFunctions(
        PatchedFunction(Log, "_observe_producer", _forget_sequences),
        PatchedFunction(ProducerStates, "check", _accept_after_unknown),
    ),
}
