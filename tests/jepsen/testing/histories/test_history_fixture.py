"""The fixture `kafka_history` in a session of its own, whose test fails: the report has the findings."""

from pathlib import Path

import pytest

from tests.jepsen.testing.test_pytest_plugin import run_session

pytestmark = pytest.mark.clients

FAILING = """
import pytest
from confluent_kafka import Producer


@pytest.mark.kafka(nodes=1)
def test_order(kafka_cluster, kafka_history):
    topic = kafka_cluster.topic("orders")
    producer = kafka_history.wrap(Producer({**kafka_cluster.config(), "message.timeout.ms": 60000}))
    with kafka_cluster.fault(api="Produce", topic=topic, lose_answer=True, times=1):
        producer.produce(topic, b"order\\x1b[2J", key="k")
        producer.flush(30)
    kafka_history.check("nothing twice").raise_if_broken()


def test_identity_comes_first(kafka, kafka_history):
    kafka_history.wrap(Producer(kafka.config()))
    with pytest.raises(ValueError, match="before the first client is wrapped"):
        kafka_history.identify(lambda record: record.key)


def test_kept(kafka, kafka_history):
    topic = kafka.topic("orders")
    producer = kafka_history.wrap(Producer(kafka.config()))
    producer.produce(topic, b"one")
    producer.flush(30)
    assert kafka_history.check("nothing lost", "nothing twice")
    assert kafka_history.timeline() == []
"""


def test_report_of_a_failed_test_has_the_findings_between_the_events(tmp_path: Path) -> None:
    done = run_session(tmp_path, FAILING, "-n", "0")
    assert "1 failed, 2 passed" in done.stdout, done.stdout + done.stderr
    assert "PromiseBroken: nothing twice: broken" in done.stdout
    assert "\x1b" not in done.stdout
    section = done.stdout.partition("Kafka history: the findings with their operations")[2]
    assert "was sent once to orders-" in section
    lines = section.splitlines()
    [fault] = [line for line in lines if "TEST    fault_ended" in line]
    [send] = [line for line in lines if "APP     producer@" in line and " sends " in line]
    [scan] = [line for line in lines if "APP     application@" in line and " reads " in line][:1]
    assert lines.index(send) < lines.index(fault) < lines.index(scan)
