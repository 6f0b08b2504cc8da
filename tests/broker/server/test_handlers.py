"""The declaration of a handler."""

from collections.abc import Generator
from typing import Any

from broker.server.handler import Handler
from broker.wire.api.heartbeat import HeartbeatRequest


def answer_at_once(context: Any, request: Any) -> None:
    """An immediate handler."""


def answer_in_steps(context: Any, request: Any) -> Generator[None, None, None]:
    """A sliced handler."""
    yield


async def answer_later(context: Any, request: Any) -> None:
    """A deferred handler."""


def test_key_and_versions_come_from_the_message_class() -> None:
    handler = Handler(HeartbeatRequest, answer_at_once)
    assert (handler.api_key, handler.min_version, handler.max_version) == (12, 0, 4)
    assert handler.advertised_from == 0


def test_fewer_versions_may_be_served_than_can_be_coded() -> None:
    handler = Handler(HeartbeatRequest, answer_at_once, versions="1-3", advertised_from=0)
    assert (handler.min_version, handler.max_version, handler.advertised_from) == (1, 3, 0)


def test_kind_of_function_says_how_it_is_carried_out() -> None:
    handlers = [Handler(HeartbeatRequest, handle) for handle in (answer_at_once, answer_in_steps, answer_later)]
    assert [handler.immediate for handler in handlers] == [answer_at_once, None, None]
    assert [handler.sliced for handler in handlers] == [None, answer_in_steps, None]
    assert [handler.deferred for handler in handlers] == [None, None, answer_later]
