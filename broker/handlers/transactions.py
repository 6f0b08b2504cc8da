"""ListTransactions and DescribeTransactions (keys 66 and 65): this broker coordinates no transactions yet (KIP-664).

Kafka refuses a transactional id pattern that is no regular expression. Here it is not compiled, since it has nothing
to match.
"""

from typing import Final

from broker.server.context import RequestContext
from broker.server.handler import SMALL_REQUEST_BYTES_MAX, Handler
from broker.wire.api.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TransactionState,
)
from broker.wire.api.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from broker.wire.errors import ErrorCode

_STATES: Final = frozenset(
    {
        "Empty",
        "Ongoing",
        "PrepareCommit",
        "PrepareAbort",
        "CompleteCommit",
        "CompleteAbort",
        "Dead",
        "PrepareEpochFence",
    }
)


def list_transactions(context: RequestContext, request: ListTransactionsRequest) -> ListTransactionsResponse:
    unknown = [state for state in dict.fromkeys(request.state_filters) if state not in _STATES]
    return ListTransactionsResponse(unknown_state_filters=unknown)


def describe_transactions(
    context: RequestContext, request: DescribeTransactionsRequest
) -> DescribeTransactionsResponse:
    return DescribeTransactionsResponse(
        transaction_states=[
            TransactionState(
                transactional_id=transactional_id,
                error_code=ErrorCode.TRANSACTIONAL_ID_NOT_FOUND if transactional_id else ErrorCode.INVALID_REQUEST,
            )
            for transactional_id in dict.fromkeys(request.transactional_ids)
        ]
    )


DESCRIBE_HANDLER = Handler(
    DescribeTransactionsRequest, describe_transactions, request_bytes_max=SMALL_REQUEST_BYTES_MAX
)
LIST_HANDLER = Handler(ListTransactionsRequest, list_transactions, request_bytes_max=SMALL_REQUEST_BYTES_MAX)
