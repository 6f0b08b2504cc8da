"""ListTransactions and DescribeTransactions (keys 66 and 65): transactions that this broker coordinates (KIP-664)."""

from collections.abc import Callable
from functools import partial
from typing import Final

from broker.coordinator.runtime.completion import Completion, gather
from broker.coordinator.transaction.transaction import Transaction
from broker.coordinator.transaction.transaction import TransactionState as CoordinatorState
from broker.server.context import BrokerContext
from broker.server.handler import SMALL_REQUEST_BYTES_MAX, Handler
from broker.server.scheduler import Work, in_task
from broker.server.slices import each
from broker.wire.api import list_transactions as listing
from broker.wire.api.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TopicData,
    TransactionState,
)
from broker.wire.errors import ErrorCode, KafkaError
from metadata.protocol import AclOperation, ResourceType
from metadata.regex.matching import RegexError, compile_regex

_STATES: Final = frozenset(state.wire_name for state in CoordinatorState)


def list_transactions(
    context: BrokerContext, request: listing.ListTransactionsRequest
) -> Work[listing.ListTransactionsResponse]:
    unknown = [state for state in dict.fromkeys(request.state_filters) if state not in _STATES]
    states = [state for state in request.state_filters if state in _STATES]
    response = listing.ListTransactionsResponse(unknown_state_filters=unknown)
    if unknown and not states:
        return response  # only unknown states match nothing
    try:
        matches = _matcher(request.transactional_id_pattern)
    except RegexError:
        response.error_code = ErrorCode.INVALID_REGULAR_EXPRESSION
        return response
    if not context.services.coordination.are_made:
        yield from in_task(context.services.coordination.make())
    coordinator = context.services.transactions
    ask = partial(
        coordinator.list_transactions,
        states=frozenset(states),
        producer_ids=frozenset(request.producer_id_filters),
        open_for_ms=request.duration_filter,
        matches=matches,
    )
    completions = yield from each(ask, coordinator.runtime.led_partitions, step_items=1)
    outcomes = yield from gather(completions)
    for outcome in outcomes:
        if isinstance(outcome, KafkaError):
            if outcome.code is not ErrorCode.NOT_COORDINATOR:  # another broker lists those
                return listing.ListTransactionsResponse(error_code=outcome.code)
            continue
        response.transaction_states += [
            listing.TransactionState(
                transactional_id=transactional_id,
                producer_id=transaction.producer_id,
                transaction_state=transaction.state.wire_name,
            )
            for transactional_id, transaction in outcome
            if context.allows(AclOperation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, transactional_id, is_tried=False)
        ]
    return response


def _matcher(pattern: str | None) -> Callable[[str], bool] | None:
    """Raises RegexError."""
    return compile_regex(pattern).matches if pattern else None


def describe_transactions(
    context: BrokerContext, request: DescribeTransactionsRequest
) -> Work[DescribeTransactionsResponse]:
    ids = request.transactional_ids
    response = DescribeTransactionsResponse()
    completions: list[Completion[Transaction]] = yield from each(context.services.transactions.describe, ids)
    yield from gather(completions)
    for transactional_id, completion in zip(ids, completions, strict=True):
        outcome = completion.outcome
        if not context.allows(AclOperation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, transactional_id):
            outcome = KafkaError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        response.transaction_states.append(_described(context, transactional_id, outcome))
    return response


def _described(context: BrokerContext, transactional_id: str, outcome: Transaction | KafkaError) -> TransactionState:
    if isinstance(outcome, KafkaError):
        return TransactionState(transactional_id=transactional_id, error_code=outcome.code)
    topics: dict[str, list[int]] = {}
    for topic, index in outcome.partitions:
        if context.allows(AclOperation.DESCRIBE, ResourceType.TOPIC, topic, is_tried=False):
            topics.setdefault(topic, []).append(index)
    return TransactionState(
        transactional_id=transactional_id,
        transaction_state=outcome.state.wire_name,
        transaction_timeout_ms=outcome.timeout_ms,
        transaction_start_time_ms=outcome.start_ms,
        producer_id=outcome.producer_id,
        producer_epoch=outcome.producer_epoch,
        topics=[TopicData(topic=topic, partitions=indexes) for topic, indexes in topics.items()],
    )


DESCRIBE_HANDLER = Handler(
    DescribeTransactionsRequest, describe_transactions, request_bytes_max=SMALL_REQUEST_BYTES_MAX
)
LIST_HANDLER = Handler(listing.ListTransactionsRequest, list_transactions, request_bytes_max=SMALL_REQUEST_BYTES_MAX)
