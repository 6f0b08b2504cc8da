"""An Admin describes the cluster, its features and its quorum, with one node and with three."""

from pathlib import Path

import pytest

from broker.client import (
    Admin,
    FeatureUpdate,
    KafkaError,
    MismatchedEndpointType,
    NewTopic,
    RaftEndpoint,
    TopicPartition,
    UnsupportedByBroker,
    UpgradeType,
)
from broker.client.admin import AclOperation, ConfigChange, ConfigResource, ConfigResourceType, OffsetSpec
from broker.wire.errors import ErrorCode
from tests.support.running_admin import admin_of_a_node, bootstrap_controllers, bootstrap_servers
from tests.support.running_cluster import running_cluster


async def test_describe_cluster_names_brokers_controller_and_operations(tmp_path: Path) -> None:
    async with admin_of_a_node(tmp_path, broker_rack="east") as admin:
        cluster = await admin.describe_cluster(include_fenced_brokers=True)
        assert [(node.id, node.host, node.rack) for node in cluster.nodes] == [(1, "127.0.0.1", "east")]
        assert cluster.controller_id == 1
        assert cluster.fenced == frozenset()
        assert cluster.authorized_operations is None
        cluster = await admin.describe_cluster(include_authorized_operations=True)
        assert cluster.authorized_operations is not None
        assert AclOperation.ALTER_CONFIGS in cluster.authorized_operations


async def test_api_versions_and_features_are_described(tmp_path: Path) -> None:
    async with admin_of_a_node(tmp_path) as admin:
        versions = await admin.describe_api_versions()
        assert versions.value(1).apis[18] == (0, 5)
        assert versions.value(1).features["group.version"] == (0, 1)
        features = await admin.describe_features()
        assert features.finalized["group.version"] == (1, 1)
        assert features.finalized_epoch is not None
        assert features.supported["transaction.version"] == (0, 2)


async def test_features_are_updated_and_a_refused_update_says_why(tmp_path: Path) -> None:
    async with admin_of_a_node(tmp_path) as admin:
        down = {"transaction.version": FeatureUpdate(1, UpgradeType.SAFE_DOWNGRADE)}
        (await admin.update_features(down, validate_only=True)).raise_first()
        assert (await admin.describe_features()).finalized["transaction.version"] == (2, 2)
        (await admin.update_features(down)).raise_first()
        assert (await admin.describe_features()).finalized["transaction.version"] == (1, 1)
        (await admin.update_features({"transaction.version": FeatureUpdate(2)})).raise_first()
        assert (await admin.describe_features()).finalized["transaction.version"] == (2, 2)
        down = {"transaction.version": FeatureUpdate(0, UpgradeType.SAFE_DOWNGRADE), "nonsense": FeatureUpdate(1)}
        results = await admin.update_features(down)
        assert list(results.failed) == list(down), "all or none"
        assert "nonsense" in str(results["nonsense"])


async def test_a_broker_that_is_not_registered_cannot_be_unregistered(tmp_path: Path) -> None:
    async with admin_of_a_node(tmp_path) as admin:
        with pytest.raises(KafkaError, match="7") as raised:
            await admin.unregister_broker(7)
        assert raised.value.code == ErrorCode.BROKER_ID_NOT_REGISTERED


async def test_the_quorum_is_described_and_refuses_voters_that_are_none(tmp_path: Path) -> None:
    async with admin_of_a_node(tmp_path) as admin:
        quorum = await admin.describe_metadata_quorum()
        (voter,) = quorum.voters
        assert (quorum.leader_id, voter.id, voter.log_end_offset >= quorum.high_watermark) == (1, 1, True)
        assert quorum.endpoints[1][0].listener == "CONTROLLER"
        with pytest.raises(KafkaError) as raised:
            await admin.remove_raft_voter(7, b"\x07" * 16)
        assert raised.value.code == ErrorCode.VOTER_NOT_FOUND
        with pytest.raises(KafkaError) as raised:
            await admin.add_raft_voter(1, voter.directory_id, [RaftEndpoint("CONTROLLER", "localhost", 1)])
        assert raised.value.code == ErrorCode.DUPLICATE_VOTER


async def test_a_broker_that_stops_leaves_the_answers_of_the_others(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster, Admin(bootstrap_servers(cluster)) as admin:
        (await admin.create_topics([NewTopic("orders", assignments={0: [1, 2], 1: [2, 3], 2: [3, 1]})])).raise_first()
        await cluster.until_images_match()
        log_dirs = (await admin.describe_log_dirs()).raise_first()
        replicas = {
            node: sorted(partition.partition for log_dir in dirs.values() for partition in log_dir.replicas)
            for node, dirs in log_dirs.items()
        }
        assert replicas == {1: [0, 2], 2: [0, 1], 3: [1, 2]}
        ends = {TopicPartition("orders", index): OffsetSpec.LATEST for index in range(3)}
        assert len((await admin.list_offsets(ends)).raise_first()) == 3
        await cluster.nodes[3].stop()
        await cluster.until_images_match()
        log_dirs = await admin.describe_log_dirs([1, 2, 3])
        assert list(log_dirs.succeeded) == [1, 2]
        absent = log_dirs[3]
        assert isinstance(absent, KafkaError)
        assert absent.code == ErrorCode.BROKER_NOT_AVAILABLE
        assert len((await admin.list_offsets(ends)).raise_first()) == 3, "partition 2 has a leader again"
        described = await admin.describe_cluster(include_fenced_brokers=True)
        assert described.fenced == {3}


async def test_controllers_are_asked_directly_and_the_next_active_one_is_found_kip_919(tmp_path: Path) -> None:
    async with (
        running_cluster(tmp_path) as cluster,
        Admin(bootstrap_controllers=bootstrap_controllers(cluster)) as admin,
    ):
        before = await admin.describe_cluster()
        assert [node.port for node in before.nodes] == [node.controller_port for node in cluster.nodes.values()]
        assert before.controller_id is not None
        retention = [ConfigChange("log.retention.ms", "70000")]
        broker = ConfigResource(ConfigResourceType.BROKER, "2")
        (await admin.incremental_alter_configs({broker: retention})).raise_first()
        await cluster.nodes[before.controller_id].crash()
        (await admin.create_topics([NewTopic("orders", 1, 1)])).raise_first()
        after = await admin.describe_metadata_quorum()
        assert after.leader_id not in (None, before.controller_id)
        assert (await admin.elect_leaders()).failed == {}


async def test_controllers_do_not_serve_calls_for_brokers(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, 1) as cluster:
        controllers = bootstrap_controllers(cluster)
        async with Admin(bootstrap_controllers=controllers) as admin:
            with pytest.raises(UnsupportedByBroker, match="bootstrap servers"):
                await admin.list_offsets({TopicPartition("orders", 0): OffsetSpec.LATEST})
            with pytest.raises(UnsupportedByBroker, match="FindCoordinator"):
                await admin.describe_groups(["group"])
            with pytest.raises(UnsupportedByBroker, match="Metadata"):
                await admin.list_topics()
        async with Admin(controllers) as admin:
            with pytest.raises(MismatchedEndpointType):
                await admin.list_topics(timeout_ms=1_500)
        async with Admin(bootstrap_controllers=bootstrap_servers(cluster)) as admin:
            with pytest.raises(KafkaError) as raised:
                await admin.describe_cluster(timeout_ms=1_500)
            assert raised.value.code == ErrorCode.MISMATCHED_ENDPOINT_TYPE
