"""Options with misspelt names are reported with the name that was meant."""

import logging

import pytest

from broker.spark.batch_source import batch_reader
from broker.spark.options import IllegalOption, ReadOptions
from broker.spark.options.names import READ_OPTIONS, WRITE_OPTIONS
from broker.spark.options.write_options import WriteOptions
from broker.spark.streaming.batches import MicroBatches
from tests.support.document_tables import table_rows

SERVERS = {"kafka.bootstrap.servers": "localhost:9092"}
READ = {**SERVERS, "subscribe": "a"}


def remark(name: str, meant: str) -> str:
    return f"Option '{name}' has no effect: did you mean '{meant}'?"


@pytest.mark.parametrize("is_streaming", [False, True])
@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("startingOffset", "startingOffsets"),
        ("starting_offsets", "startingOffsets"),
        ("starting.offsets", "startingOffsets"),
        ("maxOffsetPerTrigger", "maxOffsetsPerTrigger"),
        ("failondatalos", "failOnDataLoss"),
        ("fetchOffset.numRetry", "fetchOffset.numRetries"),
        ("isolation.level", "kafka.isolation.level"),
        ("group.id", "kafka.group.id"),
        ("sasl.mechanism", "kafka.sasl.mechanism"),
        ("security.protocol", "kafka.security.protocol"),
        ("kafka_isolation.level", "kafka.isolation.level"),
    ],
)
def test_misspelt_options_of_reading_are_reported(name: str, meant: str, is_streaming: bool) -> None:
    assert ReadOptions.of({**READ, name: "1"}, is_streaming=is_streaming).remarks == (remark(name.lower(), meant),)


@pytest.mark.parametrize(
    ("name", "meant"),
    [("exactly_once", "exactlyOnce"), ("topics", "topic"), ("linger.ms", "kafka.linger.ms"), ("acks", "kafka.acks")],
)
def test_misspelt_options_of_writing_are_reported(name: str, meant: str) -> None:
    given = {**SERVERS, "topic": "a", name: "true"}
    assert WriteOptions.of(given, is_streaming=True).remarks == (remark(name, meant),)


@pytest.mark.parametrize(
    "name", [*READ_OPTIONS, *WRITE_OPTIONS, "path", "checkpointLocation", "my.own.option", "color"]
)
def test_other_names_are_not_reported(name: str) -> None:
    """A query may give its source and its sink the same options, and Spark adds some."""
    writing = WriteOptions.of({**SERVERS, "exactlyOnce": "true", name: "true"}, is_streaming=True)
    assert writing.remarks == ()
    if name in (*WRITE_OPTIONS, "path", "my.own.option"):
        given = {**READ, name: "true"}
        assert ReadOptions.of(given, is_streaming=False).remarks == ()


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ({"bootstrap.servers": "a:1", "subscribe": "a"}, remark("bootstrap.servers", "kafka.bootstrap.servers")),
        (
            {"kafka.bootstrap.server": "a:1", "subscribe": "a"},
            remark("kafka.bootstrap.server", "kafka.bootstrap.servers"),
        ),
        ({**SERVERS, "suscribe": "a"}, remark("suscribe", "subscribe")),
    ],
)
def test_the_refusal_of_a_missing_option_names_the_misspelt_one(given: dict[str, str], meant: str) -> None:
    with pytest.raises(IllegalOption) as refusal:
        ReadOptions.of(given, is_streaming=False)
    assert str(refusal.value).endswith(meant)


def test_remarks_are_logged_once_per_query(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    wrong = {**READ, "startingOffset": "earliest"}
    batch_reader(ReadOptions.of(wrong, is_streaming=False), ("value",))
    MicroBatches.open(ReadOptions.of(wrong, is_streaming=True)).close()
    assert caplog.messages == [remark("startingoffset", "startingOffsets")] * 2


def test_names_are_those_of_the_document() -> None:
    reading = [name for name, *_ in table_rows("docs/spark.md", "Options of reading", "option")]
    streaming = [name for cell, *_ in table_rows("docs/spark.md", "Streaming", "option") for name in cell.split(", ")]
    documented = {*reading, *streaming}
    assert {name for name in documented if " " not in name and not name.startswith("kafka.")} == {*READ_OPTIONS}
    writing = {name for name, *_ in table_rows("docs/spark.md", "Writing", "option") if not name.startswith("kafka.")}
    assert writing == {*WRITE_OPTIONS}
