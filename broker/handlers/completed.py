"""Replies that a coordinator completes: at once, or when what they rest on is committed."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Final, TypeVar

import trio

from broker.coordinator.runtime.completion import Completion
from broker.coordinator.runtime.decision import CoordinatorError
from broker.net.reply import Pending
from broker.server.context import Message, RequestContext

T = TypeVar("T")

# Groups that are asked about at once. A request about more is answered in slices.
FEW_GROUPS: Final = 16
# Groups of a large request whose outcomes are awaited together. Outcomes of 18,000 groups take 5 ms to gather, and as
# long to be freed.
PORTION_GROUPS: Final = 256


def reply(
    context: RequestContext, completion: Completion[T], respond: Callable[[T | CoordinatorError], Message]
) -> Message | Pending:
    """The response that `respond` makes of what came of it, or a parked reply."""
    if completion.done:
        return respond(completion.outcome)
    pending = Pending(context.own_connection)

    completion.then(partial(_answer, context, pending, respond))
    return pending


def portions(group_ids: list[str], size: int = PORTION_GROUPS) -> Iterator[list[str]]:
    """The groups of a large request, some at a time."""
    for first in range(0, len(group_ids), size):
        yield group_ids[first : first + size]


async def outcome_of(completion: Completion[T]) -> T | CoordinatorError:
    """What comes of it, once it is complete."""
    if not completion.done:
        done = trio.Event()
        completion.then(lambda _: done.set())
        await done.wait()
    return completion.outcome


def _answer(
    context: RequestContext,
    pending: Pending,
    respond: Callable[[T | CoordinatorError], Message],
    outcome: T | CoordinatorError,
) -> None:
    context.complete(pending, partial(respond, outcome))
