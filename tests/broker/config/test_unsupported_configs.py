import pytest

from broker.config import KafkaConfig, read_config
from broker.config.checks import check_supported
from metadata.configuration import InvalidConfig


def check(config: KafkaConfig) -> None:
    check_supported(config, config.endpoints)


def test_supported_config_is_accepted() -> None:
    check(read_config())
    check(read_config(overrides=["controller.quorum.voters=1@localhost:9093,2@elsewhere:9093"]))
    check(
        read_config(
            b"process.roles=broker\nnode.id=1\ncontroller.listener.names=CONTROLLER\n"
            b"controller.quorum.bootstrap.servers=localhost:1"
        )
    )


@pytest.mark.parametrize("protocol", ["SASL_PLAINTEXT", "SASL_SSL"])
def test_sasl_to_controllers_is_refused_rather_than_left_out(protocol: str) -> None:
    config = read_config(overrides=[f"listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:{protocol}"])
    with pytest.raises(InvalidConfig, match="not supported yet, but is asked for by: CONTROLLER"):
        check(config)
