"""Bugs of clients and applications on a real node, which the promises find."""

import asyncio
import json
import time
from collections.abc import Callable
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from confluent_kafka import Consumer, Producer, TopicPartition

from jepsen.testing import Cluster
from jepsen.testing.histories import Promise, Recorder, Status, check, load_history

pytestmark = pytest.mark.clients

WITHIN_S = 60


def until(holds: Callable[[], bool], then: Callable[[], object]) -> None:
    deadline = time.monotonic() + WITHIN_S
    while not holds():
        assert time.monotonic() < deadline
        then()


def test_retry_of_a_producer_that_is_not_idempotent_is_out_of_order(node: Cluster, recorder: Recorder) -> None:
    """Two requests are in flight after a held one. The first gets an error and is sent again, after the second."""
    topic, other = node.topic(), node.topic()
    in_flight: list[int] = []

    def see(statistics: str) -> None:
        brokers = json.loads(statistics)["brokers"].values()
        in_flight.append(max(each["waitresp_cnt"] for each in brokers))

    def are_sent() -> bool:
        """Requests for metadata may wait with those of the records: the number no longer changes once all are sent."""
        return len(in_flight) >= 10 and in_flight[-1] >= 3 and len(set(in_flight[-10:])) == 1

    settings = {"enable.idempotence": False, "max.in.flight": 5, "batch.num.messages": 1, "linger.ms": 0}
    config = {**node.config(), **settings, "statistics.interval.ms": 20, "stats_cb": see}
    producer = recorder.wrap(Producer(config))
    with node.fault(api="Produce", topic=other, hold=True, times=1) as held:
        producer.produce(other, "held", key="k")
        held.wait()
        with node.fault(api="Produce", topic=topic, error="NOT_ENOUGH_REPLICAS", times=1):
            producer.produce(topic, "first", key="k")
            producer.produce(topic, "second", key="k")
            until(are_sent, lambda: producer.poll(0.05))
            held.release()
            assert producer.flush(WITHIN_S) == 0
    recorder.read_to_end(node.config("kraft"))
    verdict = check(recorder, [Promise.ORDER_PER_KEY, Promise.NOTHING_LOST, Promise.NOTHING_TWICE])
    finding, *_ = verdict[Promise.ORDER_PER_KEY].findings
    assert finding.sentence == f"k: second is at 0 of {topic}-0, and k: first, which was sent before it, at 1"
    assert verdict[Promise.NOTHING_LOST].status is Status.KEPT
    assert verdict[Promise.NOTHING_TWICE].status is Status.KEPT


@pytest.mark.parametrize("goes_back", [False, True])
def test_position_that_goes_back_is_found(node: Cluster, recorder: Recorder, goes_back: bool) -> None:
    topic, group = node.topic(), node.group()
    node.produce(topic, ["one", "two", "three"])
    settings = {"group.id": group, "auto.offset.reset": "earliest", "enable.auto.commit": False}
    with recorder.wrap(Consumer({**node.config(), **settings})) as consumer:
        consumer.subscribe([topic])
        seen: list[Any] = []

        def poll() -> None:
            seen.extend(consumer.consume(1, 1))

        until(lambda: len(seen) == 3, poll)
        consumer.commit(asynchronous=False)
        if goes_back:
            consumer.seek(TopicPartition(topic, 0, 1))
            until(lambda: len(seen) == 4, poll)
            consumer.commit(seen[-1], asynchronous=False)
    verdict = check(recorder, [Promise.OFFSETS_NEVER_BACK])
    assert bool(verdict) is not goes_back
    sentences = {finding.sentence.partition(" ")[2] for finding in verdict[Promise.OFFSETS_NEVER_BACK].findings}
    expected = {f"gets 1 of {topic}-0 after 2", f"commits 2 of {topic}-0 after 3 was committed"}
    assert sentences == (expected if goes_back else set())


@pytest.mark.parametrize("isolation_level", ["read_committed", "read_uncommitted"])
def test_consumer_that_reads_uncommitted_records_gets_an_aborted_one(
    node: Cluster, recorder: Recorder, isolation_level: str
) -> None:
    topic = node.topic()
    producer = recorder.wrap(Producer({**node.config(), "transactional.id": node.group()}))
    producer.init_transactions()
    for value, end in (("aborted", producer.abort_transaction), ("committed", producer.commit_transaction)):
        producer.begin_transaction()
        producer.produce(topic, value)
        assert producer.flush(WITHIN_S) == 0
        end()
    settings = {"group.id": node.group(), "auto.offset.reset": "earliest", "isolation.level": isolation_level}
    with recorder.wrap(Consumer({**node.config(), **settings})) as consumer:
        consumer.subscribe([topic])
        seen: list[Any] = []
        until(lambda: b"committed" in [each.value() for each in seen], lambda: seen.extend(consumer.consume(1, 1)))
    recorder.read_to_end(node.config("kraft"))
    verdict = check(recorder, [Promise.NOTHING_ABORTED])
    assert bool(verdict) is (isolation_level == "read_committed"), verdict
    sentences = [finding.sentence for finding in verdict[Promise.NOTHING_ABORTED].findings]
    assert all(each.endswith(f"which was aborted, and is read at 0 of {topic}-0") for each in sentences)


def test_tasks_of_one_producer_promise_no_order_among_each_other(node: Cluster, recorder: Recorder) -> None:
    topic = node.topic()

    async def run() -> None:
        async with recorder.wrap(AIOKafkaProducer(**node.config("aiokafka"))) as producer:
            sends = (producer.send_and_wait(topic, str(number).encode(), b"k") for number in range(20))
            await asyncio.gather(*sends)

    asyncio.run(run())
    history = load_history(recorder.directory)
    assert len({each.value.session for each in history.of("send")}) == 20
    assert check(history, [Promise.ORDER_PER_KEY])
