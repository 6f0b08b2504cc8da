"""A node with a SASL listener that offers OAUTHBEARER."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import trio

from tests.support.identity_provider import AUDIENCE, ISSUER
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
