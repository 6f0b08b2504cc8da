"""SyncConsumer with a node."""

import inspect
import threading
from collections.abc import Sequence
from itertools import islice
from typing import Any

import pytest

from broker.client import (
    ClientError,
    ClientFailed,
    ClosedError,
    ConfigError,
    Consumer,
    NewTopic,
    OffsetAndMetadata,
    SyncAdmin,
    SyncConsumer,
    SyncProducer,
    SyncRebalanceListener,
    TopicPartition,
)
from broker.client.consumer.group.assignors import RoundRobinAssignor
from broker.client.consumer.record_reader import RecordReader
from tests.support.scripts import run_script

# Parameters with async methods that SyncConsumer replaces, and one that only simulations pass.
OTHERS = {"listener", "environment"}


def write(bootstrap: str, topic: str, count: int, partitions: int = 1) -> None:
    with SyncAdmin(bootstrap) as admin:
        admin.create_topics([NewTopic(topic, partitions)]).raise_first()
    with SyncProducer(bootstrap) as producer:
        for number in range(count):
            producer.send_soon(topic, b"%d" % number, partition=number % partitions)


def reader_of(bootstrap: str, topic: str, group_id: str | None = None, **settings: object) -> SyncConsumer:
    return SyncConsumer(
        bootstrap,
        config={"group.id": group_id or f"{topic}-readers", "auto.offset.reset": "earliest", **settings},
        topics=[topic],
    )


def committed(bootstrap: str, topic: str) -> int | None:
    with SyncAdmin(bootstrap) as admin:
        group_id = f"{topic}-readers"
        offset = admin.list_group_offsets({group_id: [TopicPartition(topic, 0)]}).value(group_id)
        found = offset.value(TopicPartition(topic, 0))
        return None if found is None else found.offset


def _parameters(function: object) -> dict[str, inspect.Parameter]:
    parameters = inspect.signature(function).parameters  # type: ignore[arg-type]
    return {name: parameter for name, parameter in parameters.items() if name not in OTHERS}


def test_every_method_of_consumer_has_a_blocking_one_with_equal_parameters() -> None:
    methods = [name for name, _ in inspect.getmembers(Consumer, inspect.isfunction) if not name.startswith("_")]
    assert "fetch" in methods
    for name in methods:
        method = getattr(SyncConsumer, name)
        assert _parameters(method) == _parameters(getattr(Consumer, name)), name
        assert not inspect.iscoroutinefunction(method), name
    assert _parameters(SyncConsumer) == _parameters(Consumer)


def test_records_are_iterated_over_in_order_and_committed_at_the_end(bootstrap: str) -> None:
    write(bootstrap, "iterated", 1_200)
    with reader_of(bootstrap, "iterated") as consumer:
        assert [record.value for record in islice(consumer, 1_200)] == [b"%d" % number for number in range(1_200)]
    assert committed(bootstrap, "iterated") == 1_200


def test_a_block_that_fails_does_not_commit_the_record_that_it_works_on(bootstrap: str) -> None:
    write(bootstrap, "failing", 20)
    with pytest.raises(ZeroDivisionError), reader_of(bootstrap, "failing") as consumer:
        any(1 / (record.offset - 7) > 1 for record in consumer)
    assert committed(bootstrap, "failing") == 7


def test_batches_positions_and_seeks(bootstrap: str) -> None:
    write(bootstrap, "batches", 30, partitions=2)
    first, second = TopicPartition("batches", 0), TopicPartition("batches", 1)
    with SyncConsumer(bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([first])
        assert consumer.assignment() == {first}
        assert [record.offset for record in consumer.fetch(max_records=5, timeout_s=10)] == [0, 1, 2, 3, 4]
        assert consumer.position(first) == 5
        assert consumer.lag() == {first: 10}
        consumer.seek(first, 12)
        assert [record.offset for record in consumer.fetch(timeout_s=10)] == [12, 13, 14]
        assert consumer.fetch(timeout_s=0.05) == []
        assert consumer.end_offsets([first, second]) == {first: 15, second: 15}
        assert [each.partition for each in consumer.partitions_for("batches")] == [0, 1]
        consumer.pause([first])
        assert consumer.paused() == {first}
        consumer.assign([second])
        table = consumer.fetch_arrow(max_records=4, timeout_s=10, columns=["offset"])
        assert table.column("offset").to_pylist() == [0, 1, 2, 3]


def test_another_thread_commits_exactly_the_returned_records(bootstrap: str) -> None:
    write(bootstrap, "two-threads", 400)
    partition = TopicPartition("two-threads", 0)
    with reader_of(bootstrap, "two-threads", **{"enable.auto.commit": "false"}) as consumer:
        commits: list[int] = []

        def commit() -> None:
            while not commits or commits[-1] < 400:
                consumer.commit()
                offset = consumer.committed([partition])[partition]
                commits.append(0 if offset is None else offset.offset)

        next(consumer)
        thread = threading.Thread(target=commit)
        thread.start()
        offsets = [record.offset for record in islice(consumer, 399)]
        thread.join(30)
        assert offsets == list(range(1, 400)), "a record is returned once, though positions are taken meanwhile"
        assert commits == sorted(commits)
        assert commits[-1] == 400


def test_listener_that_closes_its_consumer_is_told_that_it_cannot(bootstrap: str) -> None:
    write(bootstrap, "closing", 1)

    class Listener(SyncRebalanceListener):
        def on_assigned(self, partitions: Sequence[TopicPartition]) -> None:
            consumer.close()

    consumer = SyncConsumer(bootstrap, topics=["closing"], group_id="closing-readers", listener=Listener())
    with pytest.raises(RuntimeError, match="a callback cannot close its client"):
        consumer.fetch(timeout_s=10)
    consumer.close()


def test_a_rebalance_listener_runs_on_the_thread_that_reads_and_may_commit(bootstrap: str) -> None:
    write(bootstrap, "listened", 10)
    partition = TopicPartition("listened", 0)
    seen: list[tuple[str, Sequence[TopicPartition], bool]] = []

    class Listener(SyncRebalanceListener):
        def on_assigned(self, partitions: Sequence[TopicPartition]) -> None:
            seen.append(("assigned", partitions, threading.current_thread() is threading.main_thread()))
            for each in partitions:
                consumer.seek(each, 4)

        def on_revoked(self, partitions: Sequence[TopicPartition]) -> None:
            seen.append(("revoked", partitions, threading.current_thread() is threading.main_thread()))
            consumer.commit({partition: OffsetAndMetadata(6)})

    with SyncConsumer(bootstrap, group_id="listened-readers", enable_auto_commit=False) as consumer:
        consumer.subscribe(["listened"], listener=Listener())
        assert next(consumer).offset == 4
        consumer.unsubscribe()
        assert committed(bootstrap, "listened") == 6
        consumer.subscribe(["listened"], listener=Listener())
        next(consumer)
    # The main thread closes the consumer, which calls on_revoked, too.
    assert [(what, list(partitions), is_main) for what, partitions, is_main in seen if partitions] == [
        ("assigned", [partition], True),
        ("revoked", [partition], True),
    ] * 2


def test_an_error_of_a_listener_is_raised_by_the_reading_thread(bootstrap: str) -> None:
    write(bootstrap, "broken-listener", 1)

    class Listener(SyncRebalanceListener):
        def on_assigned(self, partitions: Sequence[TopicPartition]) -> None:
            raise ValueError("as asked")

    consumer = SyncConsumer(bootstrap, topics=["broken-listener"], group_id="broken", listener=Listener())
    with consumer, pytest.raises(ValueError, match="as asked"):
        consumer.fetch(timeout_s=30)


def test_records_whose_fetch_is_interrupted_come_again(bootstrap: str, monkeypatch: pytest.MonkeyPatch) -> None:
    write(bootstrap, "interrupted", 10)
    with SyncConsumer(bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition("interrupted", 0)])
        run = consumer._hosted.run

        def interrupted(method: object, *arguments: object) -> None:
            monkeypatch.undo()
            run(method, *arguments)  # type: ignore[arg-type]
            raise KeyboardInterrupt  # it is raised after the records have arrived

        for read in (lambda: consumer.fetch(5, 10), lambda: next(consumer), lambda: consumer.fetch_arrow(5, 10)):
            monkeypatch.setattr(consumer._hosted, "run", interrupted)
            with pytest.raises(KeyboardInterrupt):
                read()
        assert [record.offset for record in consumer.fetch(3, 10)] == [0, 1, 2]


def test_a_cut_run_counts_exactly_the_records_that_another_thread_takes() -> None:
    for _ in range(200):
        reader = RecordReader.__new__(RecordReader)
        reader.run, reader._run_length = iter(list(range(5_000))), 5_000
        taken: list[object] = []
        begun = threading.Event()

        def iterate(reader: RecordReader = reader, taken: list[object] = taken, begun: threading.Event = begun) -> None:
            while True:
                for record in reader.run:
                    taken.append(record)
                    begun.set()
                    break
                else:
                    return

        thread = threading.Thread(target=iterate)
        thread.start()
        begun.wait()
        reader.cut_run()
        thread.join()
        assert reader._run_length == len(taken)


def test_a_forked_process_reads_with_a_consumer_of_its_own(bootstrap: str) -> None:
    write(bootstrap, "forked-consumer", 20)
    script = """
import os, sys
from itertools import islice
from broker.client import ClosedError, SyncConsumer, TopicPartition
partition = TopicPartition("forked-consumer", 0)
with SyncConsumer(sys.argv[1], auto_offset_reset="earliest") as consumer:
    consumer.assign([partition])
    assert next(consumer).offset == 0
    child = os.fork()
    if not child:
        code = 1
        try:
            next(consumer)
        except ClosedError:
            with SyncConsumer(sys.argv[1], auto_offset_reset="earliest") as own:
                own.assign([partition])
                code = 0 if next(own).offset == 0 else 2
        os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert [record.offset for record in islice(consumer, 19)] == list(range(1, 20))
"""
    run_script(script, bootstrap)


def test_a_closed_consumer_says_so(bootstrap: str) -> None:
    consumer = SyncConsumer(bootstrap)
    consumer.close()
    with pytest.raises(ClosedError):
        consumer.fetch()
    with pytest.raises(ClosedError):
        next(consumer)
    with pytest.raises(ConfigError, match=r"group\.id"):
        SyncConsumer(bootstrap, config={"group.idd": "x"})


def test_wrong_partition_is_refused_at_the_call_and_concerns_no_other_client(bootstrap: str) -> None:
    with SyncProducer(bootstrap) as other, SyncConsumer(bootstrap) as consumer:
        with pytest.raises(TypeError, match=r"assign\(\): partitions\[0\]\.topic must be str, not bytes"):
            consumer.assign([TopicPartition(b"wrong", 0)])  # type: ignore[arg-type]
        with pytest.raises(ValueError, match=r"seek\(\): partition\.partition must be at least 0, not -1"):
            consumer.seek(TopicPartition("wrong", -1), 0)
        with pytest.raises(ClientError, match="there is nothing to read"):
            consumer.fetch(timeout_s=0)
        other.send("wrong", b"value")


def test_task_that_fails_ends_its_consumer_alone_and_calls_name_the_cause(bootstrap: str) -> None:
    class Failing(RoundRobinAssignor):
        def assign(self, topics: object, members: object) -> Any:
            raise LookupError("of the application")

    with SyncProducer(bootstrap) as other:
        other.send("failing-assignor", b"value")
        consumer = SyncConsumer(bootstrap, topics=["failing-assignor"], group_id="failing", assignors=[Failing()])
        for _ in range(2):
            with pytest.raises(ClosedError) as raised:
                consumer.fetch(timeout_s=30)
            cause = raised.value.__cause__
            assert isinstance(cause, ClientFailed)
            assert isinstance(cause.__cause__, LookupError)
        with pytest.raises(ClientFailed):
            consumer.close()
        consumer.close()
        other.send("failing-assignor", b"value")
