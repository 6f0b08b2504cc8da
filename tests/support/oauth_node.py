"""Nodes with a SASL listener that offers OAUTHBEARER: within the test, and as a process."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Final, NamedTuple

import trio

from jepsen.processes.ports import free_ports
from tests.support.identity_provider import AUDIENCE, ISSUER, IdentityProvider
from tests.support.node_process import NodeProcess
from tests.support.running_node import RunningNode
from tests.support.sasl import sasl_node

PREFIX: Final = "listener.name.clients.oauthbearer."


@asynccontextmanager
async def oauth_node(directory: Path, jwks_url: str, **overrides: object) -> AsyncIterator[RunningNode]:
    """A node that has tried to read the keys."""
    settings = {
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        f"{PREFIX}sasl.oauthbearer.jwks.endpoint.url": jwks_url,
        "sasl.oauthbearer.expected.audience": f"other,{AUDIENCE}",
        "sasl.oauthbearer.expected.issuer": ISSUER,
        **overrides,
    }
    async with sasl_node(directory, **settings) as node:
        with trio.fail_after(10):
            while not node.traced.of("token_keys_read") and not node.traced.of("token_keys_not_read"):
                await trio.sleep(0.01)
        yield node


class Servers(NamedTuple):
    """The addresses of a node's listeners: without SASL, and with it."""

    plaintext: str
    sasl: str


@contextmanager
def oauth_process(directory: Path, provider: IdentityProvider, **overrides: str) -> Iterator[Servers]:
    """A node process within the block, which validates tokens with the keys of `provider`.

    `overrides` are configs, with `_` in a key for `.`.
    """
    peers, controllers, clients = free_ports(3)
    configs = {
        "listeners": f"PEERS://127.0.0.1:{peers},CONTROLLER://127.0.0.1:{controllers},CLIENTS://127.0.0.1:{clients}",
        "listener.security.protocol.map": "PEERS:PLAINTEXT,CONTROLLER:PLAINTEXT,CLIENTS:SASL_PLAINTEXT",
        "inter.broker.listener.name": "PEERS",
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "sasl.oauthbearer.jwks.endpoint.url": provider.jwks_url,
        "sasl.oauthbearer.expected.audience": AUDIENCE,
        "sasl.oauthbearer.expected.issuer": ISSUER,
        "offsets.topic.num.partitions": "1",
        **{key.replace("_", "."): text for key, text in overrides.items()},
    }
    node = NodeProcess(directory / "data", configs, ports=(peers, controllers))
    try:
        node.start()
        yield Servers(node.bootstrap, f"127.0.0.1:{clients}")
        node.stop()
    finally:
        node.discard()
