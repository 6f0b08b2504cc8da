"""Exit codes and sentences of failures."""

import pytest

from broker.cli.grammar.command import shown_item
from broker.cli.grammar.failures import Exit, exit_code_of, sentence
from broker.client import TimedOut
from broker.client.admin import ConfigResource, ConfigResourceType
from broker.wire.errors import ErrorCode, KafkaError


@pytest.mark.parametrize(
    ("cause", "code"),
    [
        (KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS), Exit.FAILED),
        (KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), Exit.NOT_FOUND),
        (KafkaError(ErrorCode.REQUEST_TIMED_OUT), Exit.UNREACHABLE),
        (None, Exit.UNREACHABLE),
    ],
)
def test_call_that_timed_out_has_the_exit_code_of_its_last_error(cause: KafkaError | None, code: Exit) -> None:
    error = TimedOut("the record was not written in time")
    error.__cause__ = cause
    assert exit_code_of(error) == code


def test_broker_that_is_not_part_of_the_cluster_is_not_found_and_the_command_that_shows_brokers_is_named() -> None:
    error = KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, "broker 9 is not part of the cluster at present")
    assert exit_code_of(error) == Exit.NOT_FOUND
    assert sentence(error).endswith("at present; `kraft cluster describe` shows the brokers that are")


def test_configs_that_all_brokers_have_are_named_default() -> None:
    assert shown_item(ConfigResource(ConfigResourceType.BROKER, "")) == "default"
