"""The declaration of a handler."""

from typing import Any

from broker.server.handler import Handler
from broker.wire.api.heartbeat import HeartbeatRequest


def answer_at_once(context: Any, request: Any) -> None:
    """A handler."""


def test_key_and_versions_come_from_the_message_class() -> None:
    handler = Handler(HeartbeatRequest, answer_at_once)
    assert (handler.api_key, handler.min_version, handler.max_version) == (12, 0, 4)
    assert handler.advertised_from == 0


def test_fewer_versions_may_be_served_than_can_be_coded() -> None:
    handler = Handler(HeartbeatRequest, answer_at_once, versions="1-3", advertised_from=0)
    assert (handler.min_version, handler.max_version, handler.advertised_from) == (1, 3, 0)
