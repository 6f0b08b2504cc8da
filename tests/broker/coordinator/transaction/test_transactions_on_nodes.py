"""Transactions of our client on running nodes: expiry, markers without a leader, and feature levels that change."""

from pathlib import Path

import pytest
import trio

from broker.client import (
    Admin,
    Consumer,
    FeatureUpdate,
    KafkaError,
    NewTopic,
    Producer,
    TopicPartition,
    TransactionAbortable,
    UpgradeType,
)
from broker.wire.errors import ErrorCode
from tests.support.requests import batch, create_topic, produce_request
from tests.support.running_cluster import COMBINED, WITHIN_S, running_cluster
from tests.support.running_node import RunningNode, running_node
from tests.support.transaction_requests import Requests
from tests.support.wire_client import connected, only

RETRY_PAUSE_S = 0.02


def servers_of(node: RunningNode) -> str:
    return f"127.0.0.1:{node.port}"


async def state_of(admin: Admin, transactional_id: str) -> str | None:
    """The state of a transaction; None for an unknown id."""
    outcome = (await admin.describe_transactions([transactional_id]))[transactional_id]
    if isinstance(outcome, KafkaError):
        assert outcome.code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
        return None
    assert not isinstance(outcome, Exception), outcome
    return outcome.state


async def until_state(admin: Admin, transactional_id: str, state: str | None) -> None:
    with trio.fail_after(WITHIN_S):
        while await state_of(admin, transactional_id) != state:
            await trio.sleep(RETRY_PAUSE_S)


async def committed(servers: str, topic: str, count: int) -> list[bytes | None]:
    """The values of a topic's only partition that readers of committed records see, at least `count`."""
    found: list[bytes | None] = []
    async with Consumer(servers, isolation_level="read_committed", auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        with trio.fail_after(WITHIN_S):
            while len(found) < count:
                found += [record.value for record in await consumer.fetch(timeout_s=0.1)]
    return found


async def test_transactional_id_expiration_ms_removes_unused_ids_and_no_open_transaction(tmp_path: Path) -> None:
    async with (
        running_node(
            tmp_path,
            transactional_id_expiration_ms="2000",
            transaction_remove_expired_transaction_cleanup_interval_ms="50",
        ) as node,
        Admin(servers := servers_of(node)) as admin,
    ):
        (await admin.create_topics([NewTopic("orders", 1)])).raise_first()
        async with Producer(servers, transactional_id="open") as producer:
            await producer.begin_transaction()
            await producer.send("orders", b"open", partition=0)
            for unused in ("empty", "ended"):
                async with Producer(servers, transactional_id=unused) as other:
                    await other.init_transactions()
                    if unused == "ended":
                        async with other.transaction():
                            await other.send("orders", b"ended", partition=0)
            for unused in ("empty", "ended"):
                await until_state(admin, unused, None)
            assert await state_of(admin, "open") == "Ongoing"
            await producer.commit_transaction()
        assert sorted(map(str, await committed(servers, "orders", 2))) == ["b'ended'", "b'open'"]
        await until_state(admin, "open", None)


async def test_transaction_completes_without_the_partitions_of_a_deleted_topic(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, Admin(servers := servers_of(node)) as admin:
        (await admin.create_topics([NewTopic("kept", 1), NewTopic("deleted", 1)])).raise_first()
        async with Producer(servers, transactional_id="t") as producer:
            await producer.begin_transaction()
            for topic in ("kept", "deleted"):
                await producer.send(topic, b"value", partition=0)
            (await admin.delete_topics(["deleted"])).raise_first()
            await producer.commit_transaction()
        await until_state(admin, "t", "CompleteCommit")
        assert await committed(servers, "kept", 1) == [b"value"]


async def check_requests_wait_for_markers(port: int, admin: Admin, transactional_id: str) -> None:
    """Sends the requests of the next transaction, whose epoch is known, while the markers of the last one are due.

    Each is told to try again, whatever the outcome that it asks for. None fences the producer, whose clients take that
    for the end (KIP-890).
    """
    outcome = (await admin.describe_transactions([transactional_id]))[transactional_id]
    assert not isinstance(outcome, Exception), outcome
    producer = (outcome.producer_id, outcome.producer_epoch)
    async with connected(port) as client:
        requests = Requests(client)
        for version in (4, 5):
            for ending in ("commit", "abort"):
                await requests.end(transactional_id, producer, ending, version=version)
        for version in (3, 5):
            await requests.add(transactional_id, producer, ("here", 0), version=version)
        await requests.add(transactional_id, producer, ("here", 0), version=5, verify=True)
        await requests.add_offsets(transactional_id, producer, "group")
        await requests.init(transactional_id, producer)
        await requests.init(transactional_id)
    assert len(requests.lines) == 10
    assert all("CONCURRENT_TRANSACTIONS" in line for line in requests.lines), "\n".join(requests.lines)


@pytest.mark.parametrize("is_deleted", [False, True])
async def test_markers_wait_for_a_leader_that_is_away_unless_its_topic_is_deleted(
    tmp_path: Path, is_deleted: bool
) -> None:
    """The outcome is certain meanwhile, and other partitions have their markers."""
    overrides = {"transaction.state.log.num.partitions": "1"}
    async with running_cluster(tmp_path, {1: COMBINED, 2: "broker"}, overrides=overrides) as cluster:
        servers = f"127.0.0.1:{cluster.port(1)}"
        async with Admin(servers) as admin:
            topics = [
                NewTopic("__transaction_state", assignments={0: [1]}, configs={"cleanup.policy": "compact"}),
                NewTopic("here", assignments={0: [1]}),
                NewTopic("away", assignments={0: [2]}),
            ]
            (await admin.create_topics(topics)).raise_first()
            await cluster.until_images_match()
            async with Producer(servers, transactional_id="t") as producer:
                await producer.begin_transaction()
                for topic in ("here", "away"):
                    await producer.send(topic, b"value", partition=0)
                await cluster.nodes[2].stop()
                await producer.commit_transaction()
            assert await committed(servers, "here", 1) == [b"value"]
            assert await state_of(admin, "t") == "PrepareCommit"
            await check_requests_wait_for_markers(cluster.port(1), admin, "t")
            if is_deleted:
                (await admin.delete_topics(["away"])).raise_first()
            else:
                await cluster.start(2)
            await until_state(admin, "t", "CompleteCommit")
            if not is_deleted:
                assert await committed(servers, "away", 1) == [b"value"]


async def test_transaction_whose_outcome_is_committed_after_the_request_has_failed_gets_its_markers(
    tmp_path: Path,
) -> None:
    """Otherwise its partitions would have an open transaction until they have another coordinator."""
    overrides = {"transaction.state.log.num.partitions": "1", "request.timeout.ms": "500"}
    async with running_cluster(tmp_path, {1: COMBINED, 2: "broker"}, overrides=overrides) as cluster:
        servers = f"127.0.0.1:{cluster.port(1)}"
        async with Admin(servers) as admin:
            both_in_sync = {"cleanup.policy": "compact", "min.insync.replicas": "2"}
            topics = [
                NewTopic("__transaction_state", assignments={0: [1, 2]}, configs=both_in_sync),
                NewTopic("orders", assignments={0: [1]}),
            ]
            (await admin.create_topics(topics)).raise_first()
            await cluster.until_images_match()
            async with Producer(servers, transactional_id="t") as producer, connected(cluster.port(1)) as client:
                await producer.begin_transaction()
                await producer.send("orders", b"value", partition=0)
                outcome = (await admin.describe_transactions(["t"]))["t"]
                assert not isinstance(outcome, Exception), outcome
                await cluster.nodes[2].crash()
                requests = Requests(client)
                await requests.end("t", (outcome.producer_id, outcome.producer_epoch), "commit")
                assert "COORDINATOR_NOT_AVAILABLE" in requests.lines[0]
                await cluster.start(2)
                await until_state(admin, "t", "CompleteCommit")
                await producer.commit_transaction()
        assert await committed(servers, "orders", 1) == [b"value"]


async def set_transaction_version(admin: Admin, level: int) -> None:
    current = (await admin.describe_features()).finalized.get("transaction.version")
    kind = UpgradeType.UPGRADE if level > (0 if current is None else current.highest) else UpgradeType.SAFE_DOWNGRADE
    (await admin.update_features({"transaction.version": FeatureUpdate(level, kind)})).raise_first()


async def test_transaction_version_changes_both_ways_under_a_live_producer(tmp_path: Path) -> None:
    """KIP-584, KIP-890: a transaction that is open at the change ends, and each later one is committed once."""
    values: list[bytes] = []
    async with running_node(tmp_path) as node, Admin(servers := servers_of(node)) as admin:
        (await admin.create_topics([NewTopic("orders", 1)])).raise_first()
        async with Producer(servers, transactional_id="t") as producer:
            for number, level in enumerate((1, 0, 2, 0, 1, 2)):
                for when in ("before", "during", "after"):
                    value = b"%d %s" % (number, when.encode())
                    await commit(producer, value, admin if when == "during" else None, level)
                    values.append(value)
        assert await committed(servers, "orders", len(values)) == values


async def commit(producer: Producer, value: bytes, admin: Admin | None, level: int) -> None:
    """One transaction, again if it has to be aborted. With `admin`, transaction.version changes while it is open."""
    while True:
        try:
            async with producer.transaction():
                await producer.send("orders", value, partition=0)
                if admin is not None:
                    await set_transaction_version(admin, level)
        except TransactionAbortable:
            continue
        return


async def test_kip_890_batches_that_may_not_begin_a_transaction_are_refused_as_by_kafka(tmp_path: Path) -> None:
    """Version 8 does not know TRANSACTION_ABORTABLE, and from version 12 on the leader adds the partition."""
    async with running_node(tmp_path) as node, connected(node.port) as client:
        await create_topic(client, partitions=2)
        requests = Requests(client)
        await requests.find("t")
        old = await requests.init("t")
        producer = await requests.init("t")

        async def produced(
            version: int, identity: tuple[int, int], sequence: int, index: int = 0
        ) -> tuple[ErrorCode, int, str | None]:
            records = batch(
                b"value",
                producer_id=identity[0],
                producer_epoch=identity[1],
                base_sequence=sequence,
                transactional=True,
            )
            request = produce_request(records, index=index)
            request.transactional_id = "t"
            answer = only(only((await client.call(request, version)).responses).partition_responses)
            return ErrorCode(answer.error_code), answer.log_start_offset, answer.error_message

        code, log_start_offset, _ = await produced(11, producer, 0)
        assert (code, log_start_offset) == (ErrorCode.TRANSACTION_ABORTABLE, -1)
        refusal = (ErrorCode.INVALID_TXN_STATE, -1, "Partition was not added to the transaction")
        assert await produced(8, producer, 0) == refusal
        assert (await produced(12, producer, -1, 1))[:2] == (ErrorCode.INVALID_RECORD, 0)
        assert (await produced(12, producer, 0))[:2] == (ErrorCode.NONE, 0)
        assert (await produced(12, old, 0))[:2] == (ErrorCode.INVALID_PRODUCER_EPOCH, -1)
