"""The events of `metadata`: decisions of the active controller, each with its cause, once they are committed."""

from typing import Final

from kraft.events import LINES_MAX, EventCatalogue, EventKind, Level

_DECISION: Final = {
    "node": "id of the controller",
    "cause": "the request with its client, or the happening, that led to the decision",
}
_TOPIC: Final = {**_DECISION, "topic": "topic", "topic_id": "id of the topic, in hexadecimal digits"}
_PARTITION: Final = {**_DECISION, "topic": "topic", "partition": "number of the partition"}
_BROKER: Final = {**_DECISION, "broker": "id of the broker"}
_INCARNATION: Final = {**_BROKER, "broker_epoch": "broker epoch"}
_TOKEN: Final = {**_DECISION, "token_id": "id of the token", "owner": "principal that the token stands for"}
_TOKEN_EXPIRATION: Final = {**_TOKEN, "expires_ms": "when it expires unless it is renewed, in ms since 1970"}
_REASSIGNMENT: Final = {
    **_PARTITION,
    "replicas": "ids of all replicas now",
    "adding": "ids of the replicas that are being added",
    "removing": "ids of the replicas that are being removed",
}

_ACL: Final = {**_DECISION, "entry": "the entry: what it allows or denies to whom, and on which resources"}

CONTROLLER_EVENTS: Final = EventCatalogue(
    "metadata",
    {
        "acl_created": EventKind(Level.INFO, "An access control entry was added.", _ACL),
        "acl_deleted": EventKind(Level.INFO, "An access control entry was removed.", _ACL),
        "broker_fenced": EventKind(
            Level.WARNING,
            "A broker is fenced without having asked for it: it leads nothing and is in no ISR of several replicas.",
            _INCARNATION,
        ),
        "broker_log_dirs_changed": EventKind(
            Level.INFO,
            "Log directories of a broker have failed.",
            {**_INCARNATION, "online": "how many of its log directories are left"},
        ),
        "broker_log_dirs_cordoned": EventKind(
            Level.INFO,
            "Other log directories of a broker are cordoned than before, and get no new replicas (KIP-1066).",
            {**_INCARNATION, "cordoned": "how many of its log directories are cordoned"},
        ),
        "broker_registered": EventKind(
            Level.INFO,
            "A broker process is registered.",
            {**_INCARNATION, "fenced": "whether it has to catch up before it may lead", "rack": "its rack, or null"},
        ),
        "broker_shut_down": EventKind(
            Level.INFO, "A broker has ended its controlled shutdown, and is fenced.", _INCARNATION
        ),
        "broker_shutdown_started": EventKind(
            Level.INFO, "A broker has begun its controlled shutdown: its leaderships go to other brokers.", _INCARNATION
        ),
        "broker_unfenced": EventKind(Level.INFO, "A broker may lead and join ISRs.", _INCARNATION),
        "broker_unregistered": EventKind(Level.INFO, "A broker is removed from the cluster.", _INCARNATION),
        "client_quota_changed": EventKind(
            Level.INFO,
            "A client quota was set or removed.",
            {
                **_DECISION,
                "entity": "pairs of an entity type and a name, null for the default entity",
                "key": "key of the quota",
                "value": "the quota, null if it was removed",
            },
            lines_max=LINES_MAX,
        ),
        "config_changed": EventKind(
            Level.INFO,
            "A dynamic config was set or removed. Its value is not logged, as it may be a secret.",
            {
                **_DECISION,
                "resource_type": "number of the resource type, as in Kafka",
                "resource": "name of the resource",
                "name": "name of the config",
                "removed": "whether it goes back to its default",
            },
            lines_max=LINES_MAX,
        ),
        "controller_registered": EventKind(
            Level.DEBUG, "A controller process is registered (KIP-919).", {**_DECISION, "controller": "its id"}
        ),
        "controller_unregistered": EventKind(
            Level.INFO, "A controller's registration is removed (KIP-1312).", {**_DECISION, "controller": "its id"}
        ),
        "delegation_token_changed": EventKind(
            Level.INFO, "A delegation token expires at another time.", _TOKEN_EXPIRATION, lines_max=LINES_MAX
        ),
        "delegation_token_created": EventKind(
            Level.INFO, "A delegation token was created (KIP-48).", _TOKEN_EXPIRATION, lines_max=LINES_MAX
        ),
        "delegation_token_removed": EventKind(
            Level.INFO, "A delegation token was removed, or has expired.", _TOKEN, lines_max=LINES_MAX
        ),
        "features_changed": EventKind(
            Level.INFO, "Finalized feature levels changed (KIP-584).", {**_DECISION, "features": "new level by feature"}
        ),
        "partition_changed": EventKind(
            Level.DEBUG,
            "One partition has another leader, ISR or set of replicas. A field is null where nothing changes.",
            {
                **_PARTITION,
                "leader": "id of the leader, -1 for none",
                "isr": "ids of the replicas in sync",
                "eligible": "ids of the eligible leader replicas (KIP-966)",
                "replicas": "ids of all replicas",
            },
        ),
        "partitions_changed": EventKind(
            Level.INFO,
            "One decision changed leaders, ISRs or replicas. `partition_changed` has each partition.",
            {
                **_DECISION,
                "partitions": "how many partitions changed",
                "leaders": "how many have a new leader or leader epoch",
                "isrs": "how many have another ISR",
                "first": "the first of them, as topic-partition",
            },
            lines_max=LINES_MAX,
        ),
        "partitions_created": EventKind(
            Level.INFO,
            "Partitions were added to a topic.",
            {**_TOPIC, "partitions": "how many were added"},
            lines_max=LINES_MAX,
        ),
        "partitions_without_leader": EventKind(
            Level.WARNING,
            "No replica may lead these partitions: none that has all acknowledged records is alive.",
            {**_DECISION, "partitions": "how many", "first": "the first of them, as topic-partition"},
            "partitions without a leader: {partitions}, the first is {first}. No replica that has all acknowledged "
            "records is alive ({cause}). Start a broker that was in their ISR, or allow an unclean election",
            LINES_MAX,
        ),
        "producer_ids_allocated": EventKind(
            Level.DEBUG,
            "A broker got a block of producer ids.",
            {**_BROKER, "next_producer_id": "first id after the block"},
        ),
        "reassignment_cancelled": EventKind(
            Level.INFO, "A partition keeps the replicas it had.", _REASSIGNMENT, lines_max=LINES_MAX
        ),
        "reassignment_completed": EventKind(
            Level.INFO, "The new replicas are in sync and the old ones removed.", _REASSIGNMENT, lines_max=LINES_MAX
        ),
        "reassignment_started": EventKind(
            Level.INFO, "Replicas of a partition move to other brokers (KIP-455).", _REASSIGNMENT, lines_max=LINES_MAX
        ),
        "scram_credential_changed": EventKind(
            Level.INFO,
            "A SCRAM credential of a user was set or removed.",
            {
                **_DECISION,
                "user": "name of the user",
                "mechanism": "its mechanism",
                "removed": "whether it was removed",
            },
            lines_max=LINES_MAX,
        ),
        "topic_created": EventKind(
            Level.INFO,
            "A topic exists.",
            {**_TOPIC, "partitions": "how many it has", "replication_factor": "replicas of its first partition"},
            lines_max=LINES_MAX,
        ),
        "topic_deleted": EventKind(
            Level.INFO, "A topic is deleted, with its partitions and configs.", _TOPIC, lines_max=LINES_MAX
        ),
        "unclean_leader_elected": EventKind(
            Level.WARNING,
            "A replica that may lack acknowledged records leads a partition.",
            {**_PARTITION, "leader": "id of the leader"},
            "broker {leader} was elected uncleanly as leader of {topic}-{partition}: records that were acknowledged "
            "may be lost ({cause})",
            LINES_MAX,
        ),
    },
)
