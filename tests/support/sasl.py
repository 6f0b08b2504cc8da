"""Nodes with a listener that asks for SASL, and the exchange of a client over the wire."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from broker.security.sasl.exchange import ClientExchange
from broker.security.sasl.jaas import PLAIN_MODULE
from broker.security.sasl.plain import PlainClient
from broker.security.sasl.scram import ScramClient
from broker.wire.api.alter_user_scram_credentials import AlterUserScramCredentialsRequest, ScramCredentialUpsertion
from broker.wire.api.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from broker.wire.api.sasl_handshake import SaslHandshakeRequest
from metadata.protocol import ScramMechanism
from metadata.protocol.scram import salted_password
from tests.support.running_node import RunningNode, running_node
from tests.support.wire_client import WireClient, connected

SCRAM: Final = ("SCRAM-SHA-256", "SCRAM-SHA-512")
MECHANISMS: Final = ("PLAIN", *SCRAM)
# The user that each mechanism knows.
USER: Final = "alice"
PASSWORD: Final = 'secr"et=,ß'
_JAAS_PASSWORD: Final = 'secr\\"et=,ß'
USERS_OF_PLAIN: Final = f'{PLAIN_MODULE} required user_{USER}="{_JAAS_PASSWORD}" user_bob="bob-secret";'
LISTENERS: Final = {
    "listeners": "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0,CLIENTS://127.0.0.1:0",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,CLIENTS:SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": ",".join(MECHANISMS),
    "listener.name.clients.plain.sasl.jaas.config": USERS_OF_PLAIN,
}


@asynccontextmanager
async def sasl_node(directory: Path, **overrides: object) -> AsyncIterator[RunningNode]:
    """A node with the SASL listener CLIENTS, which knows the user of all mechanisms."""
    async with running_node(directory, **{**LISTENERS, **overrides}) as node:
        async with connected(node.port) as client:
            for mechanism in ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512:
                await set_password(client, USER, PASSWORD, mechanism)
        yield node
        failed = node.traced.of("handler_failed")
        assert not failed, failed


def sasl_port(node: RunningNode) -> int:
    return next(bound.port for bound in node.node.bound if bound.listener.name == "CLIENTS")


async def set_password(client: WireClient, user: str, password: str, mechanism: ScramMechanism) -> None:
    salted = salted_password(mechanism, password, b"salt", 4096)
    upsertion = ScramCredentialUpsertion(
        name=user, mechanism=mechanism, iterations=4096, salt=b"salt", salted_password=salted
    )
    response = await client.call(AlterUserScramCredentialsRequest(upsertions=[upsertion]), 0)
    assert [(each.user, each.error_code) for each in response.results] == [(user, 0)]


def client_exchange(mechanism: str, user: str = USER, password: str = PASSWORD) -> ClientExchange:
    if mechanism == "PLAIN":
        return PlainClient(user, password)
    return ScramClient(ScramMechanism[mechanism.replace("-", "_")], user, password, "a-nonce-of-the-client")


async def handshake(client: WireClient, mechanism: str) -> Any:
    return await client.call(SaslHandshakeRequest(mechanism=mechanism), 1)


async def authenticate(
    client: WireClient, mechanism: str, user: str = USER, password: str = PASSWORD
) -> SaslAuthenticateResponse:
    """Authenticate, and return the last response."""
    assert (await handshake(client, mechanism)).error_code == 0
    exchange = client_exchange(mechanism, user, password)
    message: bytes | None = exchange.first()
    while True:
        response: SaslAuthenticateResponse = await client.call(SaslAuthenticateRequest(auth_bytes=message), 2)
        if response.error_code:
            return response
        message = exchange.answer(bytes(response.auth_bytes))
        if message is None:
            return response
