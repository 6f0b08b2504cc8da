"""The SASL mechanisms of a node's listeners, as its configuration makes them."""

import re
from collections.abc import Mapping
from types import MappingProxyType

import pytest

from broker.config import KafkaConfig, read_config
from broker.net.authentication_counts import AuthenticationCounts
from broker.node.sasl_listeners import SaslListeners
from broker.security.sasl.jaas import PLAIN_MODULE
from broker.security.sasl.scram import ScramClient
from kraft.env import real_env
from metadata.configuration import InvalidConfig
from metadata.protocol import ScramMechanism

JAAS = "listener.name.clients.plain.sasl.jaas.config"
SCRAM = MappingProxyType({"sasl.enabled.mechanisms": "SCRAM-SHA-256"})
SHARED = MappingProxyType({**SCRAM, "delegation.token.secret.key": "the secret of the cluster"})


def config(settings: Mapping[str, str]) -> KafkaConfig:
    overrides = {
        "listeners": "PLAINTEXT://127.0.0.1:0,CLIENTS://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CLIENTS:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
        **settings,
    }
    return read_config(overrides=[f"{key}={text}" for key, text in overrides.items()])


def listeners(settings: Mapping[str, str]) -> SaslListeners:
    return SaslListeners(real_env(lambda kind, /, **fields: None), config(settings), AuthenticationCounts())


def salt_of(node: SaslListeners, name: str) -> str:
    """The salt of the challenge to a client."""
    offered = node.of("CLIENTS")
    assert offered is not None
    first = ScramClient(ScramMechanism.SCRAM_SHA_256, name, "password", "a-nonce").first()
    challenge, _ = offered.mechanisms["SCRAM-SHA-256"].start().evaluate(first)
    found = re.search(r",s=([^,]+),", challenge.decode())
    assert found is not None
    return found[1]


def test_nodes_with_a_shared_secret_challenge_an_unknown_name_alike() -> None:
    assert salt_of(listeners(SHARED), "mallory") == salt_of(listeners(SHARED), "mallory")
    assert salt_of(listeners(SHARED), "mallory") != salt_of(listeners(SHARED), "trudy")
    other = {**SHARED, "delegation.token.secret.key": "another secret"}
    assert salt_of(listeners(SHARED), "mallory") != salt_of(listeners(other), "mallory")


def test_node_without_a_shared_secret_challenges_an_unknown_name_alike_while_it_runs() -> None:
    node = listeners(SCRAM)
    assert salt_of(node, "mallory") == salt_of(node, "mallory")
    assert salt_of(node, "mallory") != salt_of(listeners(SCRAM), "mallory")


def plain(*users: str) -> dict[str, str]:
    options = "".join(f' user_{user}="secret"' for user in users)
    return {"sasl.enabled.mechanisms": "PLAIN", JAAS: f"{PLAIN_MODULE} required{options};"}


def test_change_that_removes_all_users_of_plain_is_refused() -> None:
    node = listeners(plain("alice"))
    node.configure(config(plain("bob")))
    with pytest.raises(InvalidConfig, match=r"plain\.sasl\.jaas\.config has to list the users of PLAIN"):
        node.configure(config(plain()))


def test_node_that_has_started_without_users_of_plain_takes_other_changes() -> None:
    node = listeners(plain())
    node.configure(config({**plain(), "sasl.server.max.receive.size": "1000"}))
    offered = node.of("CLIENTS")
    assert offered is not None
    assert offered.message_bytes_max == 1_000
