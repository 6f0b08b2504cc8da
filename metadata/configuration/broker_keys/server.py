"""Roles, directories and general limits of a node (ServerConfigs and KRaftConfigs in Kafka)."""

from metadata.configuration.definition import REQUIRED, ConfigValues, key
from metadata.configuration.validators import (
    at_least,
    between,
    between_or,
    each_of,
    no_empty_elements,
    non_null,
    one_of,
)
from metadata.configuration.vocabulary import (
    BOOLEAN,
    CLUSTER_WIDE,
    HIGH,
    INT,
    INT_MAX,
    KIB,
    LIST,
    LONG,
    LONG_MAX,
    LOW,
    MEDIUM,
    MIB,
    MINUTE_MS,
    STRING,
)
from metadata.protocol import ConfigType

# More than the cores of most hosts. A larger number is a typing error, and would fill the memory with processes.
HOST_BROKERS_MAX = 64


# Each key: type, default, validator, importance; then its documentation, and where it may change in a running broker.
# fmt: off
class ServerConfigs(ConfigValues):
    """Roles, directories and general limits of a node."""

    process_roles = key(LIST, REQUIRED, each_of("broker", "controller"), HIGH,
        "The roles of this node: broker, controller, or both.", may_repeat=True)
    node_id = key(INT, REQUIRED, at_least(0), HIGH,
        "This node's number, unique in the cluster whatever its roles.")
    broker_id = key(INT, -1, None, HIGH,
        "The older name of node.id; where both are set they have to agree.")
    broker_rack = key(STRING, None, None, MEDIUM,
        "The rack or zone of this broker; replicas of a partition are spread over racks.")
    kraft_brokers = key(INT, 1, between(1, HOST_BROKERS_MAX), MEDIUM,
        "Not Kafka's: how many brokers `kraft start` runs on this host, each in a process of its own.")
    initial_broker_registration_timeout_ms = key(INT, MINUTE_MS, None, MEDIUM,
        "A starting broker that cannot register within this many ms gives up.")
    broker_heartbeat_interval_ms = key(INT, 2000, None, MEDIUM,
        "How often in ms a broker tells the controller that it is alive.")
    broker_session_timeout_ms = key(INT, 9000, None, MEDIUM,
        "A broker that was silent for this many ms is fenced.")
    server_max_startup_time_ms = key(LONG, LONG_MAX, at_least(0), MEDIUM,
        "A node that has not started within this many ms gives up.", internal=True, takes_effect=False)
    message_max_bytes = key(INT, MIB + 12, at_least(0), HIGH,
        "Largest record batch that is accepted; max.message.bytes is its name on a topic.", CLUSTER_WIDE)
    max_decompressed_message_bytes = key(INT, INT_MAX - 8, between(1, INT_MAX - 8), MEDIUM,
        "Largest record that is accepted in a compressed batch, after its decompression.", CLUSTER_WIDE)
    num_io_threads = key(INT, 8, at_least(1), HIGH,
        "Threads that handle requests in Apache Kafka.", CLUSTER_WIDE, takes_effect=False)
    num_replica_alter_log_dirs_threads = key(INT, None, None, HIGH,
        "Replicas that are moved between log directories at the same time; not set is one per directory.")
    background_threads = key(INT, 10, at_least(1), HIGH,
        "Threads for background work in Apache Kafka.", CLUSTER_WIDE, takes_effect=False)
    request_timeout_ms = key(INT, 30_000, None, HIGH,
        "How long in ms a request of this node to another may take.")
    socket_connection_setup_timeout_ms = key(LONG, 10_000, None, MEDIUM,
        "How long in ms this node waits for a connection at first; it doubles with each failure.", takes_effect=False)
    socket_connection_setup_timeout_max_ms = key(LONG, 30_000, None, MEDIUM,
        "Longest time in ms that this node waits for a connection.", takes_effect=False)
    config_providers = key(LIST, (), no_empty_elements, LOW,
        "Names of the providers that resolve variables in configs.", CLUSTER_WIDE, takes_effect=False)
    authorizer_class_name = key(STRING, "", non_null, LOW,
        "The authorizer: org.apache.kafka.metadata.authorizer.StandardAuthorizer decides by ACLs, and module:Class is "
        "one of your own in Python; empty allows everything to everyone.")
    super_users = key(STRING, "", None, MEDIUM,
        "Principals that may do everything where there is an authorizer, such as User:admin;User:broker.")
    allow_everyone_if_no_acl_found = key(BOOLEAN, False, None, MEDIUM,
        "Whether everyone may use a resource for which there are no ACLs.")
    early_start_listeners = key(STRING, None, None, HIGH,
        "Listeners that open before the ACLs are loaded: here always those of controllers, and no others.",
        takes_effect=False, described_as=ConfigType.LIST)
    controlled_shutdown_enable = key(BOOLEAN, True, None, MEDIUM,
        "Whether a stopping broker hands its leaderships over first.", takes_effect=False)
    delete_topic_enable = key(BOOLEAN, True, None, HIGH,
        "Whether topics can be deleted.")
    compression_type = key(STRING, "producer",
        one_of("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"), HIGH,
        "The compression in which records are stored; producer keeps each batch as it came.", CLUSTER_WIDE)
    compression_gzip_level = key(INT, -1, between_or(1, 9, -1), MEDIUM,
        "Level for gzip, where compression.type asks for it; -1 is the codec's own default.", CLUSTER_WIDE)
    compression_lz4_level = key(INT, 9, between(1, 17), MEDIUM,
        "Level for lz4, where compression.type asks for it.", CLUSTER_WIDE)
    compression_zstd_level = key(INT, 3, between(-131_072, 22), MEDIUM,
        "Level for zstd, where compression.type asks for it.", CLUSTER_WIDE)
    max_incremental_fetch_session_cache_slots = key(INT, 1000, at_least(0), MEDIUM,
        "How many fetch sessions (KIP-227) the broker keeps in all.")
    fetch_max_bytes = key(INT, 55 * MIB, at_least(KIB), MEDIUM,
        "Most bytes that one fetch is answered with; a first batch that is larger is still sent.")
    max_request_partition_size_limit = key(INT, 2000, at_least(1), MEDIUM,
        "Most partitions that one request may ask to be described.")
    dynamic_configs_ignored = key(LIST, (), no_empty_elements, LOW,
        "Not Kafka's: dynamic configs of brokers, and quotas, that this node ignores, or * for all. For a start with a "
        "config that keeps everyone out.")
    unstable_api_versions_enable = key(BOOLEAN, False, None, HIGH,
        "Offer versions of requests that are still in development.", internal=True)
    unstable_feature_versions_enable = key(BOOLEAN, False, None, HIGH,
        "Offer versions of features that are still in development.", internal=True, takes_effect=False)
    controller_performance_sample_period_ms = key(LONG, MINUTE_MS, at_least(100), MEDIUM,
        "Period in ms over which the controller's slow events are summed up.", internal=True, takes_effect=False)
    controller_performance_always_log_threshold_ms = key(LONG, 2000, at_least(0), MEDIUM,
        "Controller events that take longer than this many ms are logged.", internal=True, takes_effect=False)
# fmt: on
