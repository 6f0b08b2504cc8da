"""The settings of single rooms, from a node's configuration."""

from collections.abc import Callable
from typing import Final

import attrs

from broker.config import KafkaConfig
from broker.config.effective import EffectiveConfig
from broker.controller_client.lifecycle import LifecycleConfig
from broker.net.acceptor import ConnectionLimits
from broker.replication.fetch_plan import FetchSettings
from broker.replication.replica_selector import REPLICA_SELECTORS, ReplicaSelector
from broker.replication.throttles import ReplicationThrottles, Throttle
from broker.storage.cleaner import CleanerConfig
from broker.storage.log_dirs_config import LogDirsConfig
from kraft.env import descriptor_limit
from metadata.configuration import ConfigError
from metadata.controller import ControllerConfig

# Descriptors that connections of clients leave free: the larger part of what a node without many partitions needs, and
# enough for a topic with 4,000 partitions where the limit is high.
_RESERVE_MIN: Final = 64
_RESERVE_MAX: Final = 4_096


def controller_config(config: KafkaConfig, cluster_id: str) -> ControllerConfig:
    return ControllerConfig(
        cluster_id=cluster_id,
        num_partitions=config.num_partitions,
        default_replication_factor=config.default_replication_factor,
        delete_topic_enable=config.delete_topic_enable,
        broker_session_timeout_ms=config.broker_session_timeout_ms,
        auto_leader_rebalance_enable=config.auto_leader_rebalance_enable,
        leader_imbalance_check_interval_seconds=config.leader_imbalance_check_interval_seconds,
    )


def lifecycle_config(config: KafkaConfig) -> LifecycleConfig:
    return LifecycleConfig(
        heartbeat_interval_ms=config.broker_heartbeat_interval_ms,
        registration_timeout_ms=config.initial_broker_registration_timeout_ms,
        log_dir_failure_timeout_ms=config.log_dir_failure_timeout_ms,
    )


def fetch_settings(config: KafkaConfig) -> FetchSettings:
    return FetchSettings(
        replica_id=config.node_id,
        max_wait_ms=config.replica_fetch_wait_max_ms,
        min_bytes=config.replica_fetch_min_bytes,
        max_bytes=config.replica_fetch_response_max_bytes,
        partition_max_bytes=config.replica_fetch_max_bytes,
        backoff_ms=config.replica_fetch_backoff_ms,
    )


def replication_throttles(effective: EffectiveConfig, now_ms: Callable[[], float]) -> ReplicationThrottles:
    """Their quotas are those in force at any time; their windows are the node's for good."""
    windows = effective.config.replication_quota_window_num
    window_ms = effective.config.replication_quota_window_size_seconds * 1000

    def throttle(quota: Callable[[], int]) -> Throttle:
        return Throttle(windows, window_ms, quota=quota, now_ms=now_ms)

    return ReplicationThrottles(
        leader=throttle(lambda: effective.config.leader_replication_throttled_rate),
        follower=throttle(lambda: effective.config.follower_replication_throttled_rate),
    )


def replica_selector(config: KafkaConfig) -> ReplicaSelector | None:
    """None where consumers read from leaders, which is so unless `replica.selector.class` is set.

    Raises ConfigError where it names a class of somebody's own.
    """
    name = config.replica_selector_class
    if name and name not in REPLICA_SELECTORS:
        raise ConfigError(f"replica.selector.class can be {' or '.join(REPLICA_SELECTORS)}, and not {name}")
    return REPLICA_SELECTORS[name] if name else None


def log_dirs_config(config: KafkaConfig) -> LogDirsConfig:
    return LogDirsConfig(
        directories=config.log_dirs,
        node_id=config.node_id,
        metadata_directory=config.metadata_log_dir,
        initial_task_delay_ms=config.log_initial_task_delay_ms,
        retention_check_interval_ms=config.log_retention_check_interval_ms,
        flush_scheduler_interval_ms=config.log_flush_scheduler_interval_ms,
        recovery_point_checkpoint_interval_ms=config.log_flush_offset_checkpoint_interval_ms,
        log_start_offset_checkpoint_interval_ms=config.log_flush_start_offset_checkpoint_interval_ms,
        high_watermark_checkpoint_interval_ms=config.replica_high_watermark_checkpoint_interval_ms,
        producer_expiration_ms=config.producer_id_expiration_ms,
        producer_expiration_check_interval_ms=config.producer_id_expiration_check_interval_ms,
    )


def cleaner_config(config: KafkaConfig) -> CleanerConfig:
    return CleanerConfig(
        enable=config.log_cleaner_enable,
        threads=config.log_cleaner_threads,
        dedupe_buffer_bytes=config.log_cleaner_dedupe_buffer_size,
        dedupe_buffer_load_factor=config.get_float("log.cleaner.io.buffer.load.factor"),
        io_buffer_bytes=config.log_cleaner_io_buffer_size,
        io_max_bytes_per_second=config.get_float("log.cleaner.io.max.bytes.per.second"),
        backoff_ms=config.log_cleaner_backoff_ms,
    )


def client_descriptors_max(descriptors: int) -> int:
    """The descriptor from which on connections of clients are refused, of all that the process may have.

    What is left is for new segments, checkpoints, snapshots, and links to other nodes.
    """
    return descriptors - min(max(descriptors // 8, _RESERVE_MIN), _RESERVE_MAX, descriptors // 2)


def connection_limits(config: KafkaConfig) -> ConnectionLimits:
    descriptors = descriptor_limit()
    clients = client_descriptors_max(descriptors)
    limits = ConnectionLimits(
        request_size_max=config.socket_request_max_bytes,
        connections_max=config.max_connections,
        connections_per_ip_max=config.max_connections_per_ip,
        idle_ms_max=config.connections_max_idle_ms,
        client_descriptors_max=clients,
        peer_descriptors_max=clients + (descriptors - clients) // 2,
    )
    if "socket.send.buffer.bytes" in config.layers.static:
        return attrs.evolve(limits, send_buffer_bytes=config.socket_send_buffer_bytes)
    return limits
