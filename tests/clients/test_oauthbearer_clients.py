"""librdkafka with OAUTHBEARER: tokens of an identity provider, and authentication again before a token expires.

`test_authentication.py` has all clients with tokens of their own.
"""

import time
from collections.abc import Iterator
from typing import Any

import confluent_kafka
import pytest

from tests.support.identity_provider import IdentityProvider, identity_provider
from tests.support.oauth_node import oauth_process

pytestmark = pytest.mark.clients

SECURED = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanisms": "OAUTHBEARER"}
WITHIN_S = 20.0
# librdkafka looks once a second whether 80 % of a token's time are over, and authenticates again after 90 % of it:
# with shorter tokens it would do so with the old one.
TOKEN_S = 8


@pytest.fixture(scope="module")
def provider() -> Iterator[IdentityProvider]:
    with identity_provider() as provider:
        yield provider


@pytest.fixture(scope="module")
def servers(provider: IdentityProvider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a node's listener with OAUTHBEARER."""
    with oauth_process(tmp_path_factory.mktemp("oauth"), provider) as servers:
        yield servers.sasl


def test_tokens_come_from_the_identity_provider(servers: str, provider: IdentityProvider, topic: str) -> None:
    config = {
        "bootstrap.servers": servers,
        **SECURED,
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.client.id": "alice",
        "sasl.oauthbearer.client.secret": "alice-secret",
        "sasl.oauthbearer.token.endpoint.url": provider.token_url,
    }
    producer = confluent_kafka.Producer(config)
    producer.produce(topic, b"value")
    assert producer.flush(WITHIN_S) == 0
    assert [client for client, _ in provider.grants] == ["alice"]


def test_client_authenticates_again_before_its_token_expires_kip_368(
    servers: str, provider: IdentityProvider, topic: str
) -> None:
    """Without a new token, the node would close the connection when the token expires."""
    issued = []

    def token(config: str) -> tuple[str, float]:
        issued.append(time.time())
        return provider.token(lifetime_s=TOKEN_S), time.time() + TOKEN_S

    errors: list[Any] = []
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": servers, **SECURED, "oauth_cb": token, "error_cb": errors.append}
    )
    expired = time.monotonic() + TOKEN_S + 0.5
    while time.monotonic() < expired:
        producer.produce(topic, b"value")
        assert producer.flush(WITHIN_S) == 0
        producer.poll(0.1)
    assert len(issued) == 2, "at the start, and before the first token expires"
    assert not errors
