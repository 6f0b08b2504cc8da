import pytest

from broker.config import read_config
from broker.unsupported import check_supported
from metadata.configuration import ConfigError

ROLES = b"process.roles=%s\nnode.id=1\ncontroller.listener.names=C\ncontroller.quorum.bootstrap.servers=localhost:1\n"


def test_what_the_node_runs_passes() -> None:
    check_supported(read_config())
    check_supported(read_config(overrides=["controller.quorum.voters=1@localhost:9093"]))


@pytest.mark.parametrize("protocol", ["SSL", "SASL_PLAINTEXT", "SASL_SSL"])
def test_a_listener_that_is_meant_to_be_secured_is_not_served_in_plain_text(protocol: str) -> None:
    config = read_config(
        overrides=[
            "listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093,SAFE://localhost:9094",
            f"listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SAFE:{protocol}",
        ]
    )
    with pytest.raises(ConfigError, match="not supported yet, but are asked for by: SAFE"):
        check_supported(config)


@pytest.mark.parametrize("properties", [ROLES % b"controller" + b"listeners=C://:1", ROLES % b"broker"])
def test_a_node_of_one_role_does_not_start(properties: bytes) -> None:
    with pytest.raises(ConfigError, match="nodes of one role are not supported yet"):
        check_supported(read_config(properties))


def test_one_voter_of_several_does_not_found_a_cluster_of_its_own() -> None:
    with pytest.raises(ConfigError, match=r"must name this node alone.*\[2, 3\]"):
        check_supported(
            read_config(overrides=["controller.quorum.voters=1@localhost:9093,2@localhost:9094,3@localhost:9095"])
        )
