"""The SASL mechanisms of a node's listeners, as its configuration makes them, and changes of that configuration."""

import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import pytest

from broker.config import KafkaConfig, read_config
from broker.net.authentication_counts import AuthenticationCounts
from broker.node.sasl_listeners import SaslListeners
from broker.security.sasl.jaas import PLAIN_MODULE
from broker.security.sasl.scram import ScramClient
from broker.wire.api import alter_configs
from broker.wire.api.alter_configs import AlterConfigsResourceResponse
from broker.wire.api.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from broker.wire.errors import ErrorCode
from kraft.env import real_env
from metadata.configuration import InvalidConfig
from metadata.protocol import ConfigOperation, ConfigResourceType, ScramMechanism
from tests.support.running_node import NODE_ID
from tests.support.sasl import USERS_OF_PLAIN, authenticate, sasl_node, sasl_port
from tests.support.wire_client import connected

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


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        (JAAS, (ConfigOperation.SET, "nonsense"), "sasl.jaas.config is invalid"),
        (JAAS, (ConfigOperation.SET, f"{PLAIN_MODULE} required;"), "has to list the users of PLAIN"),
        (
            "sasl.enabled.mechanisms",
            (ConfigOperation.APPEND, "GSSAPI"),
            "The SASL mechanism GSSAPI of listener CLIENTS is not supported",
        ),
    ],
)
async def test_broker_refuses_configs_that_it_could_not_apply(
    tmp_path: Path, name: str, change: tuple[ConfigOperation, str], message: str
) -> None:
    """As in Kafka, the broker that gets the request checks them before it answers."""
    operation, value = change
    async with sasl_node(tmp_path) as node, connected(node.port) as client:
        altered = AlterableConfig(name=name, config_operation=operation, value=value)
        own = AlterConfigsResource(
            resource_type=ConfigResourceType.BROKER, resource_name=str(NODE_ID), configs=[altered]
        )
        retention = AlterableConfig(name="log.retention.ms", config_operation=ConfigOperation.SET, value="7")
        default = AlterConfigsResource(resource_type=ConfigResourceType.BROKER, resource_name="", configs=[retention])
        response = await client.call(IncrementalAlterConfigsRequest(resources=[own, default]), 1)
        assert [each.error_code for each in response.responses] == [ErrorCode.INVALID_REQUEST, ErrorCode.NONE]
        assert message in response.responses[0].error_message
        assert not node.traced.of("dynamic_config_refused")
        async with connected(sasl_port(node)) as other:
            assert not (await authenticate(other, "PLAIN")).error_code


async def test_broker_refuses_replaced_configs_that_it_could_not_apply(tmp_path: Path) -> None:
    async with sasl_node(tmp_path) as node, connected(node.port) as client:

        async def alter(value: str) -> AlterConfigsResourceResponse:
            configs = [alter_configs.AlterableConfig(name=JAAS, value=value)]
            resource = alter_configs.AlterConfigsResource(
                resource_type=ConfigResourceType.BROKER, resource_name=str(NODE_ID), configs=configs
            )
            response = await client.call(alter_configs.AlterConfigsRequest(resources=[resource]), 2)
            result: AlterConfigsResourceResponse = response.responses[0]
            return result

        refused = await alter("nonsense")
        assert refused.error_code == ErrorCode.INVALID_REQUEST
        assert "sasl.jaas.config is invalid" in (refused.error_message or "")
        assert (await alter(USERS_OF_PLAIN)).error_code == ErrorCode.NONE
