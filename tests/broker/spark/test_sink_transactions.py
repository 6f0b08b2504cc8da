"""The exactly-once sink on a node, without Spark: batches that are repeated after each kind of failure."""

from pathlib import Path

import pytest

from broker.client import (
    ConfigChange,
    ConfigResource,
    ConfigResourceType,
    NewTopic,
    PreparedTransaction,
    ProducerFenced,
    SyncAdmin,
    UnsupportedByBroker,
)
from broker.spark.options import IllegalOption
from broker.spark.options.write_options import WriteOptions
from broker.spark.sink.decision_log import DecisionLog
from broker.spark.sink.decisions import (
    Batch,
    CorruptDecision,
    Decision,
    RowsPrepared,
    TaskTransaction,
    TransactionalIds,
    TransactionLost,
)
from broker.spark.sink.driver import sink_driver
from tests.support.committed_records import committed_values
from tests.support.node_process import NodeProcess
from tests.support.spark_topics import create_topic
from tests.support.streaming_tasks import StreamingSink

DECISIONS = "kraft-spark-decisions"


@pytest.fixture
def topic(bootstrap: str) -> str:
    return create_topic(bootstrap, partitions=2)


@pytest.fixture
def sink(bootstrap: str, topic: str) -> StreamingSink:
    return StreamingSink({"kafka.bootstrap.servers": bootstrap, "topic": topic, "exactlyOnce": "true"})


def decide(bootstrap: str, *messages: RowsPrepared) -> None:
    """Writes the decision on a batch, as a driver does that is killed right after."""
    batch = messages[0].batch
    ids = TransactionalIds("kraft-spark", batch.query_id)
    with SyncAdmin(bootstrap) as admin:
        log = DecisionLog(admin, {"bootstrap.servers": bootstrap}, DECISIONS, ids)
        with log.propose(Decision.on(batch, messages)) as proposal:
            assert proposal.last is None or proposal.last.batch.batch_id < batch.batch_id
            proposal.commit()


def fence(bootstrap: str, message: RowsPrepared) -> None:
    """Aborts the transaction of a task, as its coordinator does after its timeout."""
    assert message.transaction is not None
    with SyncAdmin(bootstrap) as admin:
        admin.fence_producers([message.transaction.transactional_id]).raise_first()


def open_transactions(bootstrap: str, sink: StreamingSink) -> list[str]:
    with SyncAdmin(bootstrap) as admin:
        found = admin.list_transactions(states=["Ongoing"], transactional_id_pattern=f".*{sink.query_id}.*").chained()
        return [each.transactional_id for each in found]


def test_rows_are_visible_after_the_commit_of_their_batch(bootstrap: str, topic: str, sink: StreamingSink) -> None:
    first, second = sink.write(0, b"a", b"b"), sink.write(0, b"c")
    assert len(open_transactions(bootstrap, sink)) == 2
    sink.commit(0, first, second)
    assert committed_values(bootstrap, topic) == [b"a", b"b", b"c"]
    sink.commit(1, sink.write(1, b"d"))
    assert committed_values(bootstrap, topic) == [b"a", b"b", b"c", b"d"]


def test_later_batches_of_a_run_use_the_transactional_ids_of_a_worker_again(sink: StreamingSink) -> None:
    def id_of(message: RowsPrepared) -> str:
        assert message.transaction is not None
        return message.transaction.transactional_id

    messages = sink.write(0, b"a"), sink.write(0, b"b")
    sink.commit(0, *messages)
    later = sink.write(1, b"c")
    assert id_of(messages[0]) != id_of(messages[1])
    assert id_of(later) in map(id_of, messages)
    assert id_of(sink.restarted().write(1, b"c")) not in map(id_of, messages)


def test_tasks_and_batches_without_rows_have_no_transaction(bootstrap: str, topic: str, sink: StreamingSink) -> None:
    sink.commit(0, sink.write(0), sink.write(0, b"a"))
    sink.commit(1, sink.write(1))
    sink.commit(2)
    sink.commit(3, sink.write(3, b"b"))
    assert committed_values(bootstrap, topic) == [b"a", b"b"]


def test_batch_of_a_driver_that_died_before_its_decision_is_written_again(
    bootstrap: str, topic: str, sink: StreamingSink
) -> None:
    sink.write(0, b"a")
    after = sink.restarted()
    after.commit(0, after.write(0, b"a"))
    assert committed_values(bootstrap, topic) == [b"a"]
    assert open_transactions(bootstrap, sink) == []


def test_batch_of_a_driver_that_died_after_its_decision_is_completed_and_skipped(
    bootstrap: str, topic: str, sink: StreamingSink
) -> None:
    decide(bootstrap, sink.write(0, b"a"), sink.write(0, b"b"))
    after = sink.restarted()
    messages = after.write(0, b"a"), after.write(0, b"b")
    assert [(message.transaction, message.was_decided) for message in messages] == [(None, True)] * 2
    after.commit(0, *messages)
    assert committed_values(bootstrap, topic) == [b"a", b"b"]
    after.commit(0, *messages)
    after.commit(1, after.write(1, b"c"))
    assert committed_values(bootstrap, topic) == [b"a", b"b", b"c"]


def test_repeated_commit_of_a_batch_that_is_complete_changes_nothing(
    bootstrap: str, topic: str, sink: StreamingSink
) -> None:
    sink.commit(0, sink.write(0, b"a"))
    after = sink.restarted()
    after.commit(0, after.write(0, b"a"))
    assert committed_values(bootstrap, topic) == [b"a"]


def test_transaction_of_a_task_that_was_repeated_is_aborted(bootstrap: str, topic: str, sink: StreamingSink) -> None:
    sink.write(0, b"a")
    sink.commit(0, sink.write(0, b"a"))
    assert committed_values(bootstrap, topic) == [b"a"]
    assert open_transactions(bootstrap, sink) == []


def test_aborted_batch_leaves_nothing_and_is_written_again(bootstrap: str, topic: str, sink: StreamingSink) -> None:
    sink.abort(0, sink.write(0, b"a"), None)
    assert open_transactions(bootstrap, sink) == []
    after = sink.restarted()
    after.commit(0, after.write(0, b"a"))
    assert committed_values(bootstrap, topic) == [b"a"]


def test_abort_after_a_failed_commit_keeps_a_decided_batch(bootstrap: str, topic: str, sink: StreamingSink) -> None:
    message = sink.write(0, b"a")
    decide(bootstrap, message)
    sink.abort(0, message)
    assert len(open_transactions(bootstrap, sink)) == 1
    after = sink.restarted()
    after.commit(0, after.write(0, b"a"))
    assert committed_values(bootstrap, topic) == [b"a"]


def test_driver_that_was_replaced_follows_the_decision_of_its_successor(
    bootstrap: str, topic: str, sink: StreamingSink
) -> None:
    replaced = sink.write(0, b"a")
    after = sink.restarted()
    after.commit(0, after.write(0, b"a"))
    sink.commit(0, replaced)
    assert committed_values(bootstrap, topic) == [b"a"]


def test_decision_that_a_replaced_driver_has_begun_is_not_committed(bootstrap: str, sink: StreamingSink) -> None:
    message = sink.write(0, b"a")
    after = sink.restarted()
    later = after.write(0, b"a")
    ids = TransactionalIds("kraft-spark", sink.query_id)
    with SyncAdmin(bootstrap) as admin:
        log = DecisionLog(admin, {"bootstrap.servers": bootstrap}, DECISIONS, ids)
        with log.propose(Decision.on(message.batch, [message])) as proposal:
            decide(bootstrap, later)
            with pytest.raises(ProducerFenced):
                proposal.commit()
        found = log.last()
        assert found is not None
        assert found.batch == later.batch


def test_late_abort_of_a_replaced_transaction_leaves_the_next_one_of_its_id_open(
    bootstrap: str, topic: str, sink: StreamingSink
) -> None:
    replaced = sink.write(0, b"a").transaction
    assert replaced is not None
    sink.commit(0, sink.write(0, b"a"))
    later = sink.write(1, b"b"), sink.write(1, b"c")
    assert replaced.transactional_id in [each.transaction.transactional_id for each in later if each.transaction]
    options = WriteOptions.of(sink.options, is_streaming=True)
    assert options.exactly_once is not None
    with sink_driver(options, options.exactly_once, sink.query_id) as stopped_for_a_while:
        stopped_for_a_while._abort_transactions([replaced])
    sink.commit(1, *later)
    assert committed_values(bootstrap, topic) == [b"a", b"b", b"c"]


def test_transaction_that_timed_out_before_the_decision_fails_the_batch(
    bootstrap: str, topic: str, sink: StreamingSink
) -> None:
    lost, kept = sink.write(0, b"a"), sink.write(0, b"b")
    fence(bootstrap, lost)
    with pytest.raises(TransactionLost, match=r"batch 0 was not written.*kafka\.transaction\.timeout\.ms"):
        sink.commit(0, lost, kept)
    sink.abort(0, lost, kept)
    assert committed_values(bootstrap, topic) == []
    after = sink.restarted()
    after.commit(0, after.write(0, b"a"), after.write(0, b"b"))
    assert committed_values(bootstrap, topic) == [b"a", b"b"]


def test_transaction_that_timed_out_after_the_decision_is_reported(
    bootstrap: str, topic: str, sink: StreamingSink
) -> None:
    lost, kept = sink.write(0, b"a"), sink.write(0, b"b")
    decide(bootstrap, lost, kept)
    fence(bootstrap, lost)
    with pytest.raises(TransactionLost, match=r"rows of it are lost.*failOnDataLoss=false"):
        sink.commit(0, lost, kept)
    lenient = StreamingSink({**sink.options, "failOnDataLoss": "false"}, sink.query_id)
    lenient.commit(0, lenient.write(0, b"a", b"b"))
    assert committed_values(bootstrap, topic) == [b"b"]


def test_transactional_ids_that_expired_after_the_decision_are_reported(
    bootstrap: str, topic: str, sink: StreamingSink
) -> None:
    """The broker answers an expired transactional id as it answers an id that it has never had."""
    expired_id = TransactionalIds("kraft-spark", sink.query_id).of_task(sink.run_id, "abc123", 7)
    expired = TaskTransaction(expired_id, PreparedTransaction(2**40, 0))
    decide(bootstrap, RowsPrepared(Batch(sink.query_id, sink.run_id, 0), 1, expired))
    after = sink.restarted()
    with pytest.raises(TransactionLost, match=rf"is not known.*transactional\.id\.expiration\.ms.*{expired_id}"):
        after.commit(0, after.write(0, b"a"))
    lenient = StreamingSink({**sink.options, "failOnDataLoss": "false"}, sink.query_id)
    lenient.commit(0, lenient.write(0, b"a"))
    lenient.commit(1, lenient.write(1, b"b"))
    assert committed_values(bootstrap, topic) == [b"b"]


def test_kip_939_prepared_transactions_of_the_sink_have_no_timeout(tmp_path: Path) -> None:
    node = NodeProcess(
        tmp_path / "data", {"unstable.api.versions.enable": "true", "transaction.two.phase.commit.enable": "true"}
    )
    try:
        node.start()
        options = {"kafka.bootstrap.servers": node.bootstrap, "topic": create_topic(node.bootstrap)}
        two_phase = {"exactlyOnce": "true", "kafka.transaction.two.phase.commit.enable": "true"}
        sink = StreamingSink({**options, **two_phase})
        repeated, message = sink.write(0, b"a"), sink.write(0, b"a")
        assert message.transaction is not None
        with SyncAdmin(node.bootstrap) as admin:
            transactional_id = message.transaction.transactional_id
            described = admin.describe_transactions([transactional_id]).value(transactional_id)
        assert (described.state, described.timeout_ms) == ("Ongoing", 2**31 - 1)
        decide(node.bootstrap, message)
        after = sink.restarted()
        after.commit(0, after.write(0, b"a"))
        after.commit(1, after.write(1, b"b"))
        assert open_transactions(node.bootstrap, sink) == [], "the repeated one is aborted too"
        assert repeated.transaction is not None
        assert committed_values(node.bootstrap, options["topic"]) == [b"a", b"b"]
        node.stop()
    finally:
        node.discard()


def test_kip_939_sink_names_the_request_that_brokers_without_it_do_not_serve(sink: StreamingSink) -> None:
    two_phase = StreamingSink({**sink.options, "kafka.transaction.two.phase.commit.enable": "true"})
    with pytest.raises(UnsupportedByBroker, match="InitProducerId"):
        two_phase.write(0, b"a")


def test_topic_that_does_not_keep_decisions_is_refused(bootstrap: str, topic: str, sink: StreamingSink) -> None:
    deleting = create_topic(bootstrap)
    refused = StreamingSink({**sink.options, "decisionsTopic": deleting})
    with pytest.raises(IllegalOption, match=r"set its cleanup\.policy to compact"):
        refused.commit(0, refused.write(0, b"a"))
    resource = ConfigResource(ConfigResourceType.TOPIC, deleting)
    with SyncAdmin(bootstrap) as admin:
        admin.incremental_alter_configs({resource: [ConfigChange("cleanup.policy", "compact")]}).raise_first()
    after = refused.restarted()
    after.commit(0, after.write(0, b"b"))
    refused.abort(0, None)


def test_decisions_that_were_deleted_fail_the_batch(bootstrap: str, sink: StreamingSink) -> None:
    own = f"{create_topic(bootstrap)}-decisions"
    first = StreamingSink({**sink.options, "decisionsTopic": own})
    first.commit(0, first.write(0, b"a"))
    after = first.restarted()
    message = after.write(0, b"a")
    assert message.was_decided
    with SyncAdmin(bootstrap) as admin:
        admin.delete_topics([own]).raise_first()
        admin.create_topics([NewTopic(own, num_partitions=1, configs={"cleanup.policy": "compact"})]).raise_first()
    with pytest.raises(CorruptDecision, match="is gone"):
        after.commit(0, message)


def test_decisions_of_a_query_are_found_before_many_of_others(bootstrap: str, sink: StreamingSink) -> None:
    mine = sink.write(0, b"a")
    decide(bootstrap, mine)
    ids = TransactionalIds("kraft-spark", "33333333-aaaa-4bbb-8ccc-000000000003")
    with SyncAdmin(bootstrap) as admin:
        other = DecisionLog(admin, {"bootstrap.servers": bootstrap}, DECISIONS, ids)
        for number in range(8):
            batch = mine.batch._replace(query_id=ids.query_id, batch_id=number)
            with other.propose(Decision(batch, ())) as proposal:
                if number % 2:
                    proposal.commit()
    assert sink.restarted().write(0, b"a").was_decided
