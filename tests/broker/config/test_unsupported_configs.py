import pytest

from broker.config import read_config
from broker.config.unsupported import check_supported
from metadata.configuration import ConfigError


def test_what_the_node_runs_passes() -> None:
    check_supported(read_config())
    check_supported(read_config(overrides=["controller.quorum.voters=1@localhost:9093,2@elsewhere:9093"]))
    check_supported(
        read_config(
            b"process.roles=broker\nnode.id=1\ncontroller.listener.names=CONTROLLER\n"
            b"controller.quorum.bootstrap.servers=localhost:1"
        )
    )


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
