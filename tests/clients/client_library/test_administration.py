"""The client library's Admin with three nodes of this project, or of Apache Kafka."""

import pytest
import trio
from confluent_kafka.admin import AdminClient, ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion

from benchmarks import apache_kafka
from broker.client import (
    AclBinding,
    AclFilter,
    AclOperation,
    Admin,
    ClientQuota,
    ConfigChange,
    ConfigOperation,
    ConfigResource,
    ConfigResourceType,
    ConfigSource,
    Consumer,
    ElectionType,
    FeatureUpdate,
    KafkaError,
    NewPartitions,
    NewTopic,
    OffsetAndMetadata,
    OffsetSpec,
    ResourceType,
    TopicPartition,
)
from broker.wire.errors import ErrorCode
from tests.support.client_peers import NOON_MS, WITHIN_S, ClientPeer, code_of, fill

pytestmark = pytest.mark.clients


async def test_topics_are_administered(peer: ClientPeer, topic: str) -> None:
    async with Admin(peer.bootstrap) as admin:
        wanted = [
            NewTopic(topic, 2, 3, configs={"retention.ms": "1000000"}),
            NewTopic(f"{topic}-placed", assignments={0: [2, 3], 1: [3, 1]}),
            NewTopic("not/allowed"),
            NewTopic(f"{topic}-unknown-config", configs={"no.such.config": "1"}),
            NewTopic(f"{topic}-too-many", 1, 4),
        ]
        checked = await admin.create_topics(wanted[:1], validate_only=True)
        assert checked.value(topic).num_partitions == 2
        created = await admin.create_topics(wanted)
        assert {name: outcome.code for name, outcome in created.failed.items() if isinstance(outcome, KafkaError)} == {
            "not/allowed": ErrorCode.INVALID_TOPIC_EXCEPTION,
            f"{topic}-unknown-config": ErrorCode.INVALID_CONFIG,
            f"{topic}-too-many": ErrorCode.INVALID_REPLICATION_FACTOR,
        }
        made = created.value(topic)
        assert (made.num_partitions, made.replication_factor, len(made.topic_id)) == (2, 3, 16)
        again = await admin.create_topics([wanted[0]])
        assert code_of(again[topic]) == ErrorCode.TOPIC_ALREADY_EXISTS

        grown = await admin.create_partitions({topic: 4, f"{topic}-placed": NewPartitions(3, [[1, 2]]), "absent": 2})
        assert code_of(grown["absent"]) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert code_of((await admin.create_partitions({topic: 1}))[topic]) == ErrorCode.INVALID_PARTITIONS
        await peer.until_described(topic, lambda described: len(described.partitions) == 4)
        await peer.until_described(f"{topic}-placed", lambda described: len(described.partitions) == 3)
        described = await admin.describe_topics([made.topic_id, f"{topic}-placed", "absent"])
        assert code_of(described["absent"]) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert described.value(made.topic_id).name == topic
        placed = described.value(f"{topic}-placed").partitions
        assert [each.replicas for each in placed] == [(2, 3), (3, 1), (1, 2)]
        listed = {each.name: each for each in await admin.list_topics()}
        assert listed[topic].topic_id == made.topic_id
        assert not any(each.is_internal for each in listed.values())

        deleted = await admin.delete_topics([made.topic_id, f"{topic}-placed", "absent"])
        assert code_of(deleted["absent"]) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert len(deleted.succeeded) == 2


async def test_configs_are_described_and_altered(peer: ClientPeer, topic: str, group: str) -> None:
    await peer.create(topic)
    resource = ConfigResource(ConfigResourceType.TOPIC, topic)
    broker = ConfigResource(ConfigResourceType.BROKER, "2")
    of_group = ConfigResource(ConfigResourceType.GROUP, group)
    absent = ConfigResource(ConfigResourceType.TOPIC, "absent")
    append = ConfigChange("cleanup.policy", "compact", ConfigOperation.APPEND)
    changes = {
        resource: [ConfigChange("retention.ms", "123456789"), append],
        of_group: [ConfigChange("consumer.session.timeout.ms", "50000")],
        broker: [ConfigChange("log.segment.bytes", "987654321")],
        absent: [ConfigChange("retention.ms", "1")],
    }
    async with Admin(peer.bootstrap) as admin:
        altered = await admin.incremental_alter_configs(changes)
        assert {each: code_of(error) for each, error in altered.failed.items()} == {
            absent: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        }
        bad = await admin.incremental_alter_configs({resource: [ConfigChange("retention.ms", "x")]}, validate_only=True)
        assert code_of(bad[resource]) == ErrorCode.INVALID_CONFIG
        with trio.fail_after(WITHIN_S):
            while True:
                described = await admin.describe_configs(
                    [resource, broker, of_group], include_synonyms=True, include_documentation=True
                )
                entries, of_broker = described.value(resource), described.value(broker)
                # One broker answers for the topic, and broker 2 for itself.
                is_known = entries["retention.ms"].value == "123456789"
                if is_known and of_broker["log.segment.bytes"].value == "987654321":
                    break
                await trio.sleep(0.05)
        assert entries["retention.ms"].source == ConfigSource.TOPIC
        assert entries["retention.ms"].synonyms[0].value == "123456789"
        assert entries["cleanup.policy"].value == "delete,compact"
        assert entries["retention.ms"].documentation
        assert described.value(of_group)["consumer.session.timeout.ms"].value == "50000"
        assert of_broker["log.segment.bytes"].source == ConfigSource.BROKER
        assert of_broker["node.id"].is_read_only
        named = await admin.describe_configs([resource], names=["segment.bytes"])
        assert list(named.value(resource)) == ["segment.bytes"]
        assert of_group in await admin.list_config_resources([ConfigResourceType.GROUP])
        undo = {
            each: [ConfigChange(change.name, None, ConfigOperation.DELETE) for change in changes[each]]
            for each in (of_group, broker)
        }
        (await admin.incremental_alter_configs(undo)).raise_first()


async def test_the_cluster_and_its_quorum_are_described(peer: ClientPeer) -> None:
    async with Admin(peer.bootstrap) as admin:
        cluster = await admin.describe_cluster(include_fenced_brokers=True, include_authorized_operations=True)
        assert cluster.cluster_id == apache_kafka.CLUSTER_ID
        assert [each.port for each in sorted(cluster.nodes)] == [each.port for each in peer.cluster.members]
        assert cluster.controller_id in (1, 2, 3)
        assert cluster.fenced == frozenset()
        quorum = await admin.describe_metadata_quorum()
        assert sorted(each.id for each in quorum.voters) == [1, 2, 3]
        assert quorum.leader_id in (1, 2, 3)
        assert quorum.high_watermark > 0
        versions = (await admin.describe_api_versions()).raise_first()
        assert sorted(versions) == [1, 2, 3]
        assert versions[1].apis[18].highest >= 4
        features = await admin.describe_features()
        level = features.finalized["metadata.version"].highest
        assert features.supported["metadata.version"].highest >= level >= 25
        updated = await admin.update_features({"metadata.version": FeatureUpdate(level)}, validate_only=True)
        updated.raise_first()
        with pytest.raises(KafkaError, match="BROKER_ID_NOT_REGISTERED"):
            await admin.unregister_broker(99)
        # Apache Kafka's nodes are formatted with controller.quorum.voters, so the voters of their quorum cannot be
        # changed.
        with pytest.raises(KafkaError, match="UNSUPPORTED_VERSION" if peer.is_apache_kafka else "VOTER_NOT_FOUND"):
            await admin.remove_raft_voter(99, bytes(range(16)))
        directories = (await admin.describe_log_dirs()).raise_first()
        assert sorted(directories) == [1, 2, 3]
        assert all(each.error is None and each.total_bytes for dirs in directories.values() for each in dirs.values())
    controllers = ",".join(f"127.0.0.1:{each.controller_port}" for each in peer.cluster.members)
    async with Admin(bootstrap_controllers=controllers) as admin:
        assert (await admin.describe_metadata_quorum()).leader_id == quorum.leader_id


async def test_groups_and_their_offsets_are_administered(peer: ClientPeer, topic: str, group: str) -> None:
    partitions = first, second = await peer.create(topic, 2)
    await fill(peer, partitions, 10)
    async with Admin(peer.bootstrap) as admin:
        (await admin.alter_group_offsets(group, {first: 3, second: OffsetAndMetadata(4, 0, "note")})).raise_first()
        offsets = (await admin.list_group_offsets({group: partitions}, require_stable=True)).value(group)
        assert {each: offset and (offset.offset, offset.metadata) for each, offset in offsets.succeeded.items()} == {
            first: (3, ""),
            second: (4, "note"),
        }
        listed = {each.group_id: each for each in (await admin.list_groups(states=["Empty"])).chained()}
        assert (listed[group].type, listed[group].state) == ("classic", "Empty")
        (await admin.delete_group_offsets(group, [second])).raise_first()
        async with Consumer(peer.bootstrap, group_id=group, topics=[topic], auto_offset_reset="earliest") as consumer:
            assert len(await peer.take(consumer, 17)) == 17
            described = (await admin.describe_groups([group, "absent"])).value(group)
            assert (described.state, described.type, len(described.members)) == ("Stable", "consumer", 1)
            refused = await admin.alter_group_offsets(group, {first: 0})
            assert code_of(refused[first]) in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.NON_EMPTY_GROUP)
            assert code_of((await admin.delete_groups([group]))[group]) == ErrorCode.NON_EMPTY_GROUP
        deleted = await admin.delete_groups([group, "absent"])
        assert deleted.value(group) is None
        assert code_of(deleted["absent"]) == ErrorCode.GROUP_ID_NOT_FOUND
        assert group not in {each.group_id for each in (await admin.list_groups()).chained()}


async def test_partitions_are_moved_elected_and_measured(peer: ClientPeer, topic: str) -> None:
    partition = TopicPartition(topic, 0)
    async with Admin(peer.bootstrap) as admin:
        (await admin.create_topics([NewTopic(topic, assignments={0: [1, 2]})])).raise_first()
        await fill(peer, [partition], 10)
        specs = {partition: OffsetSpec.LATEST}
        assert ((await admin.list_offsets(specs)).value(partition) or (0,))[0] == 10
        for spec, offset in ((OffsetSpec.EARLIEST, 0), (OffsetSpec.MAX_TIMESTAMP, 9), (NOON_MS + 3500, 4)):
            assert ((await admin.list_offsets({partition: spec})).value(partition) or (0,))[0] == offset

        moved = await admin.alter_partition_reassignments({partition: [3, 2]})
        moved.raise_first()
        with trio.fail_after(WITHIN_S):
            while partition in await admin.list_partition_reassignments():
                await trio.sleep(0.05)
        await peer.until_described(
            topic,
            lambda described: set(described.partitions[0].isr) == {2, 3} and described.partitions[0].replicas == (3, 2),
        )
        nothing = await admin.alter_partition_reassignments({partition: None})
        assert code_of(nothing[partition]) == ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
        outcome = (await admin.elect_leaders([partition]))[partition]
        assert outcome is None or code_of(outcome) == ErrorCode.ELECTION_NOT_NEEDED
        unclean = await admin.elect_leaders([partition], election_type=ElectionType.UNCLEAN)
        assert code_of(unclean[partition]) == ErrorCode.ELECTION_NOT_NEEDED
        await peer.until_described(topic, lambda described: described.partitions[0].leader == 3)
        directories = (await admin.describe_log_dirs([2, 3], partitions=[partition])).raise_first()
        for of_broker in directories.values():
            (replica,) = [each.replicas[partition] for each in of_broker.values() if partition in each.replicas]
            assert replica.size_bytes > 0
            assert not replica.is_future
        (producer,) = (await admin.describe_producers([partition])).value(partition)
        assert (producer.last_sequence, producer.transaction_start_offset) == (9, None)
        deleted = await admin.delete_records({partition: -1, TopicPartition(topic, 7): 1})
        assert deleted.value(partition) == 10
        assert len(deleted.failed) == 1


async def test_access_control_quotas_and_credentials_are_described(peer: ClientPeer, topic: str) -> None:
    binding = AclBinding(ResourceType.TOPIC, topic, "User:ada", AclOperation.READ)
    of_topic = AclFilter(ResourceType.TOPIC, topic)
    async with Admin(peer.bootstrap) as admin:
        assert await admin.describe_client_quotas() == []
        assert dict(await admin.describe_user_scram_credentials()) == {}
        absent = await admin.describe_user_scram_credentials(["ada"])
        assert code_of(absent["ada"]) == ErrorCode.RESOURCE_NOT_FOUND
        if not peer.is_apache_kafka:
            with pytest.raises(KafkaError) as caught:
                await admin.describe_acls()
            assert caught.value.code == ErrorCode.SECURITY_DISABLED
            return
        (await admin.create_acls([binding])).raise_first()
        with trio.fail_after(WITHIN_S):
            while await admin.describe_acls(of_topic) != [binding]:
                await trio.sleep(0.05)
        assert (await admin.delete_acls([of_topic])).value(of_topic) == [binding]

        credential = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 8192)
        alteration = UserScramCredentialUpsertion("ada", credential, b"secret")
        theirs = AdminClient({"bootstrap.servers": peer.bootstrap})
        altered = theirs.alter_user_scram_credentials([alteration])["ada"]
        await trio.to_thread.run_sync(altered.result)
        quota = ["--alter", "--add-config", "producer_byte_rate=1000", "--entity-type", "users", "--entity-name", "ada"]
        tool = apache_kafka.java("org.apache.kafka.tools.ConfigCommand", "--bootstrap-server", peer.bootstrap, *quota)
        await trio.run_process(tool, capture_stdout=True)
        with trio.fail_after(WITHIN_S):
            while await admin.describe_client_quotas() != [
                ClientQuota({"user": "ada"}, {"producer_byte_rate": 1000.0})
            ]:
                await trio.sleep(0.05)
            while not (credentials := (await admin.describe_user_scram_credentials()).succeeded):
                await trio.sleep(0.05)
        assert [
            (user, [(each.mechanism.name, each.iterations) for each in of_user])
            for user, of_user in credentials.items()
        ] == [("ada", [("SCRAM_SHA_512", 8192)])]
