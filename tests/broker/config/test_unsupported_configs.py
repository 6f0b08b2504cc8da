import pytest

from broker.config import read_config
from broker.config.checks import check_supported
from metadata.configuration import InvalidConfig


def test_supported_config_is_accepted() -> None:
    check_supported(read_config())
    check_supported(read_config(overrides=["controller.quorum.voters=1@localhost:9093,2@elsewhere:9093"]))
    check_supported(
        read_config(
            b"process.roles=broker\nnode.id=1\ncontroller.listener.names=CONTROLLER\n"
            b"controller.quorum.bootstrap.servers=localhost:1"
        )
    )


@pytest.mark.parametrize("assignors", ["com.example.OwnAssignor", "uniform,com.example.OwnAssignor"])
def test_assignor_of_another_class_is_refused_rather_than_left_out(assignors: str) -> None:
    with pytest.raises(InvalidConfig, match=r"group\.consumer\.assignors has to name some of: uniform, range"):
        check_supported(read_config(overrides=[f"group.consumer.assignors={assignors}"]))
