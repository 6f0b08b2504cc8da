"""The numbers of the protocol, and the error that carries a code."""

import pickle

import pytest

from metadata.protocol import (
    MESSAGE_LENGTH_MAX,
    AclOperation,
    ConfigOperation,
    ConfigResourceType,
    ConfigSource,
    ConfigType,
    ElectionType,
    ErrorCode,
    KafkaError,
    OpenEnum,
    ResourceType,
    UpgradeType,
)


@pytest.mark.parametrize("numbers", [AclOperation, ConfigResourceType, ConfigSource, ConfigType, ResourceType])
def test_number_of_a_newer_peer_is_unknown(numbers: type[OpenEnum]) -> None:
    assert numbers(99).name == "UNKNOWN"
    assert numbers(-1).name == "UNKNOWN"
    assert [numbers(each.value) for each in numbers] == list(numbers)


@pytest.mark.parametrize("numbers", [ConfigOperation, ElectionType, UpgradeType])
def test_unknown_number_of_a_request_is_no_member(numbers: type[ConfigOperation]) -> None:
    with pytest.raises(ValueError, match="99 is not a valid"):
        numbers(99)


def test_kafka_error_shows_its_code_and_a_message_that_fits_into_a_response() -> None:
    assert str(KafkaError(ErrorCode.NOT_CONTROLLER)) == "NOT_CONTROLLER"
    assert str(KafkaError(ErrorCode.INVALID_CONFIG, "no such key")) == "INVALID_CONFIG: no such key"
    assert len(KafkaError(ErrorCode.INVALID_CONFIG, "x" * 32_767).message) == MESSAGE_LENGTH_MAX


def test_kafka_error_crosses_processes() -> None:
    """Spark's workers send their errors to the driver."""
    copied = pickle.loads(pickle.dumps(KafkaError(ErrorCode.REQUEST_TIMED_OUT, "late")))
    assert (type(copied), copied.code, copied.message) == (KafkaError, ErrorCode.REQUEST_TIMED_OUT, "late")
    assert copied.retriable
