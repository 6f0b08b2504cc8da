"""Clients for the commands, made from the settings of the command line."""

import logging
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Final

import attrs

from broker.cli.grammar.settings import ClusterSettings
from broker.client.admin import Admin, AdminConfig
from broker.client.config import ClientConfig
from broker.client.consumer.config import ConsumerConfig
from broker.client.errors import ConnectionLost, MismatchedEndpointType, TimedOut, UnsupportedByBroker
from broker.client.producer.config import ProducerConfig
from broker.client.reachability import LOGGER as REACHABILITY_LOGGER

if TYPE_CHECKING:
    from broker.client.consumer.consumer import Consumer
    from broker.client.producer.producer import Producer

# How long the brokers may take for the first answer. A cluster that is up answers at once, and a person who has
# mistyped a port should not wait for the minute that a call may take.
_REACH_MS: Final = 5_000
_CONFIG_CLASSES: Final[tuple[type[ClientConfig], ...]] = (AdminConfig, ProducerConfig, ConsumerConfig)


@asynccontextmanager
async def open_admin(settings: ClusterSettings, controllers: str | None = None) -> AsyncIterator[Admin]:
    """An Admin whose cluster has been reached, by way of brokers or, where they are given, of controllers (KIP-919).

    Raises ClientError, KafkaError.
    """
    configs = configs_for(AdminConfig, settings.configs)
    if controllers is None:
        opening = Admin(settings.bootstrap_servers, config=configs)
    else:
        opening = Admin(config=configs, bootstrap_controllers=controllers)
    with _unlogged_troubles():
        async with opening as admin:
            await reach(admin, controllers or settings.bootstrap_servers)
            yield admin


@contextmanager
def _unlogged_troubles() -> Iterator[None]:
    """Leaves the client's warnings about servers that it cannot reach out of the log: the command's error has them."""
    logger = logging.getLogger(REACHABILITY_LOGGER)
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)


@asynccontextmanager
async def open_producer(settings: ClusterSettings, configs: Mapping[str, str | None]) -> AsyncIterator["Producer"]:
    """A Producer whose cluster has been reached. `configs` win over those of the settings, unless they are None."""
    # Most commands need neither a producer nor a consumer, whose modules take a tenth of a command's start.
    from broker.client.producer.producer import Producer

    async with open_admin(settings):
        pass
    given = {key: value for key, value in configs.items() if value is not None}
    merged = {**configs_for(ProducerConfig, settings.configs), **given}
    async with Producer(settings.bootstrap_servers, config=merged) as producer:
        yield producer


@asynccontextmanager
async def open_consumer(settings: ClusterSettings, configs: Mapping[str, str | None]) -> AsyncIterator["Consumer"]:
    """Open a Consumer. The caller has to have checked that the cluster can be reached."""
    from broker.client.consumer.consumer import Consumer

    given = {key: value for key, value in configs.items() if value is not None}
    merged = {**configs_for(ConsumerConfig, settings.configs), **given}
    async with Consumer(settings.bootstrap_servers, config=merged) as consumer:
        yield consumer


async def reach(admin: Admin, servers: str) -> None:
    """Send one request to check that the cluster can be reached. Raises ClientError, KafkaError."""
    try:
        await admin.describe_cluster(timeout_ms=_REACH_MS)
    except UnsupportedByBroker:
        return  # an old broker has answered
    except MismatchedEndpointType as error:
        raise MismatchedEndpointType(
            f"A controller answers at {servers}. -b takes ports of brokers; those of controllers are given to"
            " the `quorum` commands, by --bootstrap-controller."
        ) from error
    except TimedOut as error:
        reason = error.__cause__ or f"none of them answers within {_REACH_MS // 1000} s"
        raise Unreachable(
            f"No server of {servers} can be used: {_short(reason)}. Is the cluster running, and is the address right?"
        ) from error


class Unreachable(ConnectionLost):
    """No server answers."""


def configs_for(client: type[ClientConfig], configs: Mapping[str, str]) -> dict[str, str]:
    """The configs for one kind of client: a file and a context have those of all kinds.

    A key that no kind of client knows is passed on, so that the client refuses it with a suggestion.
    """
    own = {field.name for field in attrs.fields(client)}
    return {key: value for key, value in configs.items() if _name(key) in own or _name(key) not in _all_names()}


def _all_names() -> set[str]:
    return {field.name for client in _CONFIG_CLASSES for field in attrs.fields(client)}


def _name(key: str) -> str:
    return key.replace(".", "_")


def _short(reason: object) -> str:
    return str(reason).rstrip(".").removeprefix("no broker can be reached: ")
