"""Clients for the commands, made from the settings of the command line."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Final

import attrs

from broker.cli.grammar.settings import ClusterSettings
from broker.client.admin import Admin, AdminConfig
from broker.client.config import ClientConfig
from broker.client.errors import ConnectionLost, TimedOut, UnsupportedByBroker

# How long the brokers may take for the first answer. A cluster that is up answers at once, and a person who has
# mistyped a port should not wait for the minute that a call may take.
_REACH_MS: Final = 5_000


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
    async with opening as admin:
        await reach(admin, controllers or settings.bootstrap_servers)
        yield admin


async def reach(admin: Admin, servers: str) -> None:
    """Have the cluster answer once. Raises ClientError, KafkaError."""
    try:
        await admin.describe_cluster(timeout_ms=_REACH_MS)
    except UnsupportedByBroker:
        return  # an old broker has answered
    except TimedOut as error:
        reason = error.__cause__ or "it does not answer"
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
    return {field.name for client in (AdminConfig,) for field in attrs.fields(client)}


def _name(key: str) -> str:
    return key.replace(".", "_")


def _short(reason: object) -> str:
    return str(reason).rstrip(".").removeprefix("no broker can be reached: ")
