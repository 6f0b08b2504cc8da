"""The facts in `tests/kafka_facts` equal those of Kafka's own jars."""

import re
import shutil
import subprocess

import pytest

from benchmarks import apache_kafka
from tests.support import config_values, kafka_facts

pytestmark = pytest.mark.clients


@pytest.mark.parametrize("kind", ["apis", "features", "configs", "throttle_times"])
def test_facts_equal_those_of_kafkas_jars(kind: str, kafka_jars: None) -> None:
    if shutil.which("javac") is None:
        pytest.skip("no Java compiler on PATH")
    program = kafka_facts.DIRECTORY / "KafkaFacts.java"
    line = [*apache_kafka.java(str(program)), kind]
    printed = subprocess.run(line, capture_output=True, text=True, check=True, timeout=300).stdout
    assert printed.splitlines() == (kafka_facts.DIRECTORY / f"{kind}.csv").read_text().splitlines()


def test_share_coordinator_decides_as_that_of_kafkas_jars(kafka_jars: None) -> None:
    if apache_kafka.KAFKA_VERSION != kafka_facts.SHARE_STATE_VERSION:
        pytest.skip(f"the decisions are those of Apache Kafka {kafka_facts.SHARE_STATE_VERSION}")
    program = kafka_facts.DIRECTORY / "ShareStateFacts.java"
    done = subprocess.run(apache_kafka.java(str(program)), capture_output=True, text=True, check=True, timeout=300)
    # Kafka logs some refusals to standard output.
    rows = [line for line in done.stdout.splitlines() if re.match(r"(sequence|\d),", line)]
    assert rows == (kafka_facts.DIRECTORY / "share_state.csv").read_text().splitlines()


def test_accepted_values_equal_those_of_kafkas_jars_and_of_its_broker(kafka_jars: None, full: bool) -> None:
    """Some 80,000 questions, which take three minutes."""
    if not full:
        pytest.skip("takes minutes: --full asks Apache Kafka again")
    assert config_values.kafka_rows() == config_values.read_rows()
