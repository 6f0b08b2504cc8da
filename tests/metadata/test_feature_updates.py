"""UpdateFeatures (KIP-584), and the configs that eligible leader replicas require (KIP-966)."""

from collections.abc import Mapping, Sequence

import pytest

from metadata.controller import (
    SUPPORTED_FEATURES,
    ConfigChange,
    ControllerConfig,
    ControllerRegistration,
    FeatureUpdate,
    NewTopic,
    initial_levels,
)
from metadata.controller.controller_registration import register_controller, unregister_controller
from metadata.controller.features import bootstrap, update_features
from metadata.image import ConfigResource, PartitionImage
from metadata.protocol import ConfigOperation, ConfigResourceType, ErrorCode, KafkaError, UpgradeType
from metadata.records import NO_LEADER, BrokerEndpoint, ConfigRecord, FeatureLevelRecord, VersionRange
from tests.support.metadata import CLUSTER_ID, Cluster, refusal, schema

ELR = "eligible.leader.replicas.version"
MIN_ISR = "min.insync.replicas"
SAFE, UNSAFE = UpgradeType.SAFE_DOWNGRADE, UpgradeType.UNSAFE_DOWNGRADE
LEVELS: Mapping[str, int] = {"metadata.version": 25, "kraft.version": 1}
ALL_BROKERS, BROKER, TOPIC = (
    ConfigResource(ConfigResourceType.BROKER, ""),
    ConfigResource(ConfigResourceType.BROKER, "1"),
    ConfigResource(ConfigResourceType.TOPIC, "t"),
)


def without_elr(brokers: int = 1) -> Cluster:
    return Cluster(brokers, ControllerConfig(cluster_id=CLUSTER_ID, features=LEVELS))


def update(cluster: Cluster, *updates: FeatureUpdate, voters: Sequence[int] = ()) -> None:
    cluster.decide(update_features(cluster.image, schema(), updates, node_id=7, voters=voters))


def register_a_controller(
    cluster: Cluster, controller_id: int, features: Mapping[str, VersionRange]
) -> ControllerRegistration:
    """Register a new incarnation of a controller."""
    registration = ControllerRegistration(
        controller_id=controller_id,
        incarnation_id=bytes([cluster.image.offset % 251]) * 16,
        end_points=[BrokerEndpoint("CONTROLLER", "host", 9093, 0)],
        features=features,
    )
    cluster.decide(register_controller(cluster.image, registration))
    return registration


def change(cluster: Cluster, resource: ConfigResource, name: str, value: str | None) -> tuple[str, str] | None:
    op = ConfigOperation.DELETE if value is None else ConfigOperation.SET
    changes = [(resource, [ConfigChange(name, op, value)])]
    (outcome,) = cluster.decide(cluster.configs.incremental_alter(cluster.image, changes))
    return refusal(outcome.error)


def partition(cluster: Cluster) -> PartitionImage:
    return cluster.image.topics.by_name["t"].partitions[0]


def with_topic(brokers: int, min_insync_replicas: int) -> Cluster:
    cluster = Cluster(brokers)
    configs = {MIN_ISR: str(min_insync_replicas)}
    replicas = tuple(range(1, brokers + 1))
    cluster.decide(cluster.topics.create(cluster.image, [NewTopic("t", assignments=[(0, replicas)], configs=configs)]))
    return cluster


def test_a_level_goes_up_and_down() -> None:
    cluster = without_elr()
    update(cluster, FeatureUpdate(ELR, 1))
    assert cluster.image.features == {**LEVELS, ELR: 1}
    update(cluster, FeatureUpdate(ELR, 0, UpgradeType.SAFE_DOWNGRADE))
    assert cluster.image.features == LEVELS


def test_current_level_is_accepted_with_any_upgrade_type() -> None:
    for upgrade_type in UpgradeType:
        update(Cluster(1), FeatureUpdate("metadata.version", 33, upgrade_type))
        update(Cluster(1), FeatureUpdate("kraft.version", 1, upgrade_type))


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        (
            FeatureUpdate(ELR, 0),
            "Can't downgrade the version of this feature without setting the upgrade type to either safe or unsafe "
            "downgrade.",
        ),
        (FeatureUpdate(ELR, 1, 0), "The controller does not support the given upgrade type."),
        (FeatureUpdate(ELR, -1), "A feature version cannot be less than 0."),
        (FeatureUpdate(ELR, 2), "Local controller 7 only supports versions 0-1"),
        (FeatureUpdate("metadata.version", 34), "Local controller 7 only supports versions 7-33"),
        (
            FeatureUpdate("metadata.version", 6, UpgradeType.SAFE_DOWNGRADE),
            "Local controller 7 only supports versions 7-33",
        ),
        (
            FeatureUpdate("kraft.version", 0, UpgradeType.UNSAFE_DOWNGRADE),
            "Can't downgrade the version of this feature.",
        ),
        (FeatureUpdate("transaction.version", 3), "Local controller 7 only supports versions 0-2"),
        (FeatureUpdate("no.such.feature", 1), "Local controller 7 does not support this feature."),
    ],
)
def test_invalid_updates_are_refused(asked: FeatureUpdate, reason: str) -> None:
    cluster = Cluster(1)
    with pytest.raises(KafkaError, match="INVALID_UPDATE_VERSION") as refused:
        update(cluster, FeatureUpdate("metadata.version", 33), asked)
    assert refused.value.message == f"Invalid update version {asked.level} for feature {asked.name}. {reason}"


def test_kafkas_upgrade_to_its_release_raises_every_feature() -> None:
    """`kafka-features upgrade --release-version 4.4` names them all in one request."""
    cluster = without_elr(1)
    levels = {name: supported.max_version for name, supported in SUPPORTED_FEATURES.items()}
    update(cluster, *(FeatureUpdate(name, level) for name, level in levels.items()))
    assert cluster.image.features == levels


@pytest.mark.parametrize("lower", [32, 30, 25])
def test_metadata_version_does_not_go_down_past_a_change_of_kafkas_records(lower: int) -> None:
    cluster = Cluster(1)
    for upgrade_type, reason in (
        (SAFE, "Refusing to perform the requested downgrade because it might delete metadata information."),
        (UNSAFE, "Unsafe metadata downgrade is not supported in this version."),
    ):
        with pytest.raises(KafkaError, match="INVALID_UPDATE_VERSION") as refused:
            update(cluster, FeatureUpdate("metadata.version", lower, upgrade_type))
        assert refused.value.message == f"Unsupported metadata.version downgrade from 33 to {lower}. {reason}"
    assert cluster.image.features["metadata.version"] == 33


def test_metadata_version_goes_down_and_up_between_changes_of_kafkas_records() -> None:
    cluster = Cluster(1, ControllerConfig(cluster_id=CLUSTER_ID, features=initial_levels(29)))
    update(cluster, FeatureUpdate("metadata.version", 23, SAFE))
    assert cluster.image.features["metadata.version"] == 23
    with pytest.raises(
        KafkaError, match=r"INVALID_UPDATE_VERSION: Unsupported metadata\.version downgrade from 23 to 22"
    ):
        update(cluster, FeatureUpdate("metadata.version", 22, SAFE))
    update(cluster, FeatureUpdate("metadata.version", 33))


def test_a_level_needs_the_levels_that_it_depends_on() -> None:
    features = initial_levels(22)
    assert ELR not in features
    cluster = Cluster(1, ControllerConfig(cluster_id=CLUSTER_ID, features=features))
    with pytest.raises(KafkaError, match="INVALID_UPDATE_VERSION") as refused:
        update(cluster, FeatureUpdate(ELR, 1))
    assert refused.value.message == (
        f"Invalid update version 1 for feature {ELR}. {ELR} could not be set to 1 because it depends on "
        "metadata.version level 23"
    )
    update(cluster, FeatureUpdate(ELR, 1), FeatureUpdate("metadata.version", 23))
    assert cluster.image.features[ELR] == 1


def test_an_upgrade_needs_no_downgrade() -> None:
    cluster = without_elr()
    with pytest.raises(KafkaError, match=r"INVALID_UPDATE_VERSION: .*Can't downgrade to a newer version\."):
        update(cluster, FeatureUpdate(ELR, 1, UpgradeType.UNSAFE_DOWNGRADE))


def test_every_registered_broker_has_to_understand_the_level_even_a_fenced_one() -> None:
    cluster = without_elr(1)
    old = {name: levels for name, levels in SUPPORTED_FEATURES.items() if name != ELR}
    cluster.register(2, features=old)
    with pytest.raises(KafkaError, match=r"INVALID_UPDATE_VERSION: .*Broker 2 does not support this feature\."):
        update(cluster, FeatureUpdate(ELR, 1))
    cluster.decide(cluster.brokers.unregister(cluster.image, 2))
    cluster.register(2, features={**old, ELR: VersionRange(0, 1)})
    update(cluster, FeatureUpdate(ELR, 1))


def test_every_registered_controller_has_to_understand_the_level() -> None:
    cluster = without_elr(1)
    old = {name: levels for name, levels in SUPPORTED_FEATURES.items() if name != ELR}
    register_a_controller(cluster, 7, old)  # the requesting controller itself
    update(cluster, FeatureUpdate(ELR, 1), FeatureUpdate(ELR, 0, UpgradeType.SAFE_DOWNGRADE))
    register_a_controller(cluster, 8, old)
    with pytest.raises(KafkaError, match=r"INVALID_UPDATE_VERSION: .*Controller 8 does not support this feature\."):
        update(cluster, FeatureUpdate(ELR, 1))
    register_a_controller(cluster, 8, {**old, ELR: VersionRange(0, 1)})
    update(cluster, FeatureUpdate(ELR, 1))


def test_update_is_refused_while_a_voter_has_not_registered() -> None:
    cluster = without_elr(1)
    with pytest.raises(
        KafkaError, match=r"INVALID_UPDATE_VERSION: .*controller 9 has not registered, and may not support"
    ):
        update(cluster, FeatureUpdate(ELR, 1), voters=[7, 8, 9][::2])
    register_a_controller(cluster, 9, SUPPORTED_FEATURES)
    update(cluster, FeatureUpdate(ELR, 1), voters=[7, 9])


def test_unregistered_controller_does_not_hold_back_an_upgrade_kip_1312() -> None:
    levels = {**initial_levels(33), "transaction.version": 1}
    cluster = Cluster(1, ControllerConfig(cluster_id=CLUSTER_ID, features=levels))
    register_a_controller(cluster, 9, {})
    with pytest.raises(KafkaError, match="Controller 9 does not support this feature"):
        update(cluster, FeatureUpdate("transaction.version", 2))
    cluster.decide(unregister_controller(cluster.image, 7, 9))
    update(cluster, FeatureUpdate("transaction.version", 2))
    assert cluster.image.cluster.controllers == {}


@pytest.mark.parametrize(
    ("level", "controller_id", "code"),
    [
        (33, 7, ErrorCode.INVALID_REQUEST),
        (33, 8, ErrorCode.CONTROLLER_ID_NOT_REGISTERED),
        (32, 9, ErrorCode.UNSUPPORTED_VERSION),
    ],
)
def test_controller_that_is_active_or_unknown_is_not_unregistered_kip_1312(
    level: int, controller_id: int, code: ErrorCode
) -> None:
    cluster = Cluster(1, ControllerConfig(cluster_id=CLUSTER_ID, features=initial_levels(level)))
    register_a_controller(cluster, 9, SUPPORTED_FEATURES)
    with pytest.raises(KafkaError, match=code.name):
        unregister_controller(cluster.image, 7, controller_id)


def test_last_incarnation_of_a_controller_counts() -> None:
    cluster = without_elr(0)
    first = register_a_controller(cluster, 9, SUPPORTED_FEATURES)
    assert register_controller(cluster.image, first).records == ()
    second = register_a_controller(cluster, 9, {})
    known = cluster.image.cluster.controllers[9]
    assert (known.incarnation_id, known.features) == (second.incarnation_id, {})
    assert known.end_points == {"CONTROLLER": BrokerEndpoint("CONTROLLER", "host", 9093, 0)}
    assert cluster.image.cluster.brokers == {}


def test_new_cluster_sets_min_insync_replicas_for_all_brokers() -> None:
    """KIP-966: leaders and controller must use the same value."""
    assert Cluster(0).image.configs.all_brokers() == {MIN_ISR: "1"}
    assert without_elr(0).image.configs.all_brokers() == {}


def test_formatted_cluster_sets_min_insync_replicas_with_its_first_controller() -> None:
    cluster = without_elr(0)
    cluster.take([FeatureLevelRecord(name=ELR, feature_level=1)])
    config = ControllerConfig(cluster_id=CLUSTER_ID)
    agreed = bootstrap(cluster.image, config, schema())
    assert agreed == [ConfigRecord(resource_type=ConfigResourceType.BROKER, resource_name="", name=MIN_ISR, value="1")]
    cluster.take(agreed)
    assert bootstrap(cluster.image, config, schema()) == []


def test_enabling_elr_removes_min_insync_replicas_of_single_brokers() -> None:
    cluster = without_elr()
    assert change(cluster, BROKER, MIN_ISR, "3") is None
    assert change(cluster, ALL_BROKERS, MIN_ISR, "2") is None
    update(cluster, FeatureUpdate(ELR, 1))
    assert cluster.image.configs.broker(1) == {}
    assert cluster.image.configs.all_brokers() == {MIN_ISR: "2"}


def test_with_elr_min_insync_replicas_is_for_all_brokers_and_stays_set() -> None:
    cluster = Cluster(1)
    assert change(cluster, BROKER, MIN_ISR, "2") == (
        "INVALID_CONFIG",
        "Broker-level min.insync.replicas cannot be altered while ELR is enabled.",
    )
    assert change(cluster, ALL_BROKERS, MIN_ISR, None) == (
        "INVALID_CONFIG",
        "Cluster-level min.insync.replicas cannot be removed while ELR is enabled.",
    )
    (outcome,) = cluster.configs.alter(cluster.image, [(ALL_BROKERS, [])]).response
    assert refusal(outcome.error) == (
        "INVALID_CONFIG",
        "Cluster-level min.insync.replicas cannot be removed while ELR is enabled.",
    )
    assert change(cluster, ALL_BROKERS, MIN_ISR, "2") is None


@pytest.mark.parametrize("resource", [TOPIC, ALL_BROKERS])
def test_lower_min_insync_replicas_clears_the_elr_in_the_same_batch(resource: ConfigResource) -> None:
    """KIP-966: replicas that left the ISR lack the records that are acknowledged from then on."""
    cluster = with_topic(3, min_insync_replicas=2)
    if resource is ALL_BROKERS:
        change(cluster, ALL_BROKERS, MIN_ISR, "2")
        change(cluster, TOPIC, MIN_ISR, None)
    for broker in (2, 3):
        cluster.fence(broker)
    assert (partition(cluster).isr, partition(cluster).eligible_leader_replicas) == ((1,), (3,))
    change(cluster, resource, MIN_ISR, "3")
    assert partition(cluster).eligible_leader_replicas == (3,)
    change(cluster, resource, MIN_ISR, "1")
    assert partition(cluster).eligible_leader_replicas == ()


def test_min_insync_replicas_is_limited_to_the_number_of_replicas() -> None:
    cluster = with_topic(2, min_insync_replicas=5)
    cluster.fence(2)
    assert partition(cluster).eligible_leader_replicas == (2,)
    cluster.heartbeat(2)
    assert partition(cluster).isr == (1,)


@pytest.mark.parametrize("resource", [TOPIC, ALL_BROKERS])
def test_enabling_unclean_elections_elects_leaders_at_once(resource: ConfigResource) -> None:
    cluster = with_topic(2, min_insync_replicas=1)
    cluster.fence(2)
    cluster.fence(1)
    cluster.heartbeat(2)
    assert partition(cluster).leader == NO_LEADER
    change(cluster, resource, "unclean.leader.election.enable", "true")
    assert (partition(cluster).leader, partition(cluster).isr) == (2, (2,))


def test_other_configs_change_no_partition() -> None:
    cluster = with_topic(2, min_insync_replicas=1)
    before = cluster.image.topics
    change(cluster, TOPIC, "segment.ms", "1000")
    assert cluster.image.topics is before
