"""Chooses a consumer's group protocol: the consumer protocol (KIP-848) if the cluster supports it."""

from collections.abc import Sequence
from typing import Final

import attrs
import trio

from broker.client.brokers import Broker
from broker.client.consumer.config import ConsumerConfig
from broker.client.consumer.group.assignors import (
    Assignor,
    CooperativeStickyAssignor,
    RangeAssignor,
    RoundRobinAssignor,
    StickyAssignor,
)
from broker.client.consumer.group.classic.driver import ClassicDriver
from broker.client.consumer.group.consumer.driver import REGEX_SINCE, ConsumerDriver
from broker.client.consumer.group.context import MemberContext, Membership
from broker.client.consumer.group.subscribed_topics import SubscribedTopics
from broker.client.errors import ConnectionLost, UnsupportedByBroker
from broker.wire.api.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest

_GROUP_VERSION: Final = "group.version"
_ASSIGNORS: Final = (RangeAssignor(), RoundRobinAssignor(), StickyAssignor(), CooperativeStickyAssignor())


async def chosen_membership(
    context: MemberContext, subscription: SubscribedTopics, assignors: Sequence[Assignor]
) -> Membership:
    """A member by the protocol that `group.protocol` names.

    Without that, by the consumer protocol where the cluster has finalized it, unless the application has chosen how the
    members of a classic group assign. Raises KafkaError.
    """
    broker = await _any_broker(context)
    named = assignors or [each for name in context.config.partition_assignment_strategy for each in _named(name)]
    protocol = context.config.group_protocol
    if protocol is None:
        is_classic = assignors or _has_chosen_assignors(context.config) or not _has_consumer_protocol(broker)
        protocol = "classic" if is_classic else "consumer"
    if protocol == "classic":
        return ClassicDriver(context, subscription, named)
    return ConsumerDriver(context, subscription, has_regexes=_heartbeat_version(broker) >= REGEX_SINCE)


def _named(name: str) -> list[Assignor]:
    return [assignor for assignor in _ASSIGNORS if assignor.name == name]


def _has_chosen_assignors(config: ConsumerConfig) -> bool:
    default = attrs.fields(ConsumerConfig).partition_assignment_strategy.default
    return config.partition_assignment_strategy != default


def _has_consumer_protocol(broker: Broker) -> bool:
    return broker.features.get(_GROUP_VERSION, 0) >= 1 and _heartbeat_version(broker) >= 0


def _heartbeat_version(broker: Broker) -> int:
    """-1 if the broker does not serve the consumer protocol."""
    try:
        return broker.version_of(ConsumerGroupHeartbeatRequest)
    except UnsupportedByBroker:
        return -1


async def _any_broker(context: MemberContext) -> Broker:
    failures = 0
    while True:
        try:
            return await context.cluster.any_broker()
        except ConnectionLost:
            failures += 1
            await trio.sleep(context.cluster.backoff.pause_s(failures))
