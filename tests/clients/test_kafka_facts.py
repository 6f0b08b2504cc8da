"""The facts in `tests/kafka_facts` equal those of Kafka's own jars."""

import shutil

import pytest

from tests.support import config_values, kafka_facts, make_kafka_facts

pytestmark = pytest.mark.clients


@pytest.mark.parametrize("kind", make_kafka_facts.PRINTED)
def test_facts_equal_those_of_kafkas_jars(kind: str, kafka_jars: None) -> None:
    if shutil.which("javac") is None:
        pytest.skip("no Java compiler on PATH")
    assert (
        make_kafka_facts.printed(kind).splitlines() == (kafka_facts.DIRECTORY / f"{kind}.csv").read_text().splitlines()
    )


def test_accepted_values_equal_those_of_kafkas_jars_and_of_its_broker(kafka_jars: None, full: bool) -> None:
    """Some 80,000 questions, which take three minutes."""
    if not full:
        pytest.skip("takes minutes: --full asks Apache Kafka again")
    assert config_values.kafka_rows() == config_values.read_rows()
