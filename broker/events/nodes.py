"""The events of a node as a whole, its requests, its configuration, and its exchange with the active controller."""

from typing import Final

from kraft.events import LINES_MAX, EventCatalogue, EventKind, Level

# Lines about slow requests in an interval: enough to see which clients and APIs are affected.
SLOW_REQUESTS_MAX: Final = 100
# A node that is refused connects twice in a second, and all lines say the same.
_REPLICA_LINES_MAX: Final = 2

_NODE: Final = {"node": "id of the node"}
_CONNECTION: Final = {"peer": "address of the client", "listener": "name of the listener", "reason": "why, as text"}

NODE_EVENTS: Final = EventCatalogue(
    "broker.node",
    {
        "connection_closed": EventKind(
            Level.INFO,
            "The node closed a client's connection because of what the client sent, or because a request failed.",
            _CONNECTION,
            lines_max=LINES_MAX,
        ),
        "connection_refused": EventKind(
            Level.WARNING,
            "A listener closed a connection at once, for example because there are too many.",
            _CONNECTION,
            "{listener} did not serve {peer}: {reason}",
            LINES_MAX,
        ),
        "connection_not_secured": EventKind(
            Level.WARNING,
            "A TLS handshake failed, so that the listener closed the connection.",
            _CONNECTION,
            "{listener} closed a connection of {peer}: {reason}",
            LINES_MAX,
        ),
        "certificates_reloaded": EventKind(
            Level.INFO,
            "The files of a listener's certificates have changed. New connections use the new ones.",
            {**_NODE, "listener": "name of the listener"},
        ),
        "certificates_refused": EventKind(
            Level.ERROR,
            "The files of a listener's certificates have changed, and cannot be used. The old ones stay.",
            {**_NODE, "listener": "name of the listener", "reason": "why, as text"},
            "The new certificates of {listener} are not used: {reason}. New connections get the old ones. Correct the "
            "files; the node looks at them again when they change",
        ),
        "metadata_file_ignored": EventKind(
            Level.WARNING,
            "A file in the metadata log's directory does not belong there.",
            {"path": "the file", "reason": "why, as text"},
            "{path} is ignored: {reason}",
        ),
        "scrape_failed": EventKind(
            Level.ERROR,
            "A metric could not be read, so that the scrape ended early.",
            {"error": "the traceback"},
            "A scrape of /metrics failed, which is a bug: {error}",
            LINES_MAX,
            "error",
        ),
        "metadata_file_damaged": EventKind(
            Level.ERROR,
            "The scrubber found a damaged file of the metadata log, which a new snapshot has not replaced.",
            {"path": "the file", "error": "what is wrong with it"},
            "{path} is damaged ({error}), and a new snapshot of the metadata has not replaced it. If other controllers "
            "are intact, restart this node: it cuts off what is damaged, and fetches it again",
        ),
        "metadata_file_rebuilt": EventKind(
            Level.WARNING,
            "The scrubber found a damaged file of the metadata log, and replaced it by what the node has in memory.",
            {"path": "the file", "error": "what was wrong with it"},
            "{path} was damaged ({error}), and has been replaced: nothing is lost. Look at the disk",
        ),
        "token_keys_not_read": EventKind(
            Level.WARNING,
            "The keys that validate tokens of OAUTHBEARER could not be read. Keys that were read before stay in use.",
            {"endpoint": "URL of the identity provider, or of the file", "reason": "why, as text"},
            "the keys for OAUTHBEARER could not be read from {endpoint}: {reason}. Without keys no client can "
            "authenticate; they are read again",
            LINES_MAX,
        ),
        "token_keys_read": EventKind(
            Level.DEBUG,
            "The keys that validate tokens of OAUTHBEARER were read.",
            {
                "endpoint": "URL of the identity provider, or of the file",
                "keys": "how many can be used",
                "skipped": "which others cannot be used, and why",
            },
        ),
        "node_started": EventKind(
            Level.INFO,
            "The node serves on all its listeners.",
            {**_NODE, "listeners": "name and address of each listener"},
        ),
        "node_stopped": EventKind(Level.INFO, "The node has shut down and closed its files.", _NODE),
        "quorum_replica_refused": EventKind(
            Level.WARNING,
            "Another node may not take part in the quorum of the controllers. Without a majority of them, there is no "
            "leader.",
            {
                "principal": "principal of the other node",
                "host": "its address",
                "reason": "why, as text",
            },
            "the node at {host} may not take part in the quorum: {reason}. Name its principal in super.users on every "
            "controller; an ACL for CLUSTER_ACTION is enough only for controllers that have loaded the metadata",
            _REPLICA_LINES_MAX,
        ),
    },
)
CONFIG_EVENTS: Final = EventCatalogue(
    "broker.config",
    {
        "dynamic_configs_ignored": EventKind(
            Level.WARNING,
            "Dynamic configs are set that this node ignores because of dynamic.configs.ignored.",
            {"resource": "the broker", "configs": "names of the configs"},
            "{configs} of {resource} is ignored, as dynamic.configs.ignored says. Remove it with kraft configs delete "
            "{resource}, then start this node without dynamic.configs.ignored",
        ),
        "dynamic_config_refused": EventKind(
            Level.ERROR,
            "A dynamic config cannot be applied: its value is invalid, or contradicts others or this node's own file. "
            "The old value stays, at the start the default.",
            {
                "resource": "the topic, group or broker",
                "config": "the config",
                "value": "the value that is not applied",
                "error": "why, as text",
            },
            "{config}={value} of {resource} is not applied: {error}. Set another value, or remove it: "
            "kraft configs delete {resource} {config}",
        ),
    },
)
QUOTA_EVENTS: Final = EventCatalogue(
    "broker.quota",
    {
        "quota_refused": EventKind(
            Level.ERROR,
            "A client quota in the metadata log is invalid. The quota stays as it was, at the start unset.",
            {
                "entity": "the user, client id or address",
                "key": "key of the quota",
                "value": "the value that is not applied",
                "error": "why, as text",
            },
            "The quota {key}={value} of {entity} is not applied: {error}. Set another value, or remove the quota "
            "(kraft quotas)",
        ),
        "client_throttled": EventKind(
            Level.WARNING,
            "A quota makes clients pause for a second or more after a request. Clients that share a quota are reported "
            "once in ten minutes.",
            {
                "quota": "key of the quota",
                "of": "the clients that share it",
                "limit": "the quota: bytes per second, or percent of the event loop's time",
                "pause_ms": "how long the client has to pause now",
            },
            "The quota {quota} of {limit:,g} makes {of} pause for {pause_ms:,} ms. If that is not wanted: kraft quotas "
            "set {of} {quota}=LARGER (kraft quotas list)",
            LINES_MAX,
        ),
    },
)
CONTROLLER_CLIENT_EVENTS: Final = EventCatalogue(
    "broker.controller_client",
    {
        "broker_request_refused": EventKind(
            Level.DEBUG,
            "The active controller answered a broker's registration or heartbeat with an error. It is sent again.",
            {**_NODE, "request": '"registration" or "heartbeat"', "error": "name of the error code"},
        ),
        "broker_state_changed": EventKind(
            Level.DEBUG,
            "The broker has another state in its lifecycle (KIP-631), or another broker epoch.",
            {**_NODE, "state": "name of the state", "epoch": "broker epoch, -1 before the registration"},
        ),
        "controller_connection_lost": EventKind(
            Level.INFO,
            "The connection to the active controller is lost. It is opened again after a pause.",
            {"controller": "id of the controller", "reason": "why, as text"},
            lines_max=LINES_MAX,
        ),
        "join_refused": EventKind(
            Level.WARNING,
            "This controller asked to become a voter, or to remove its former directory from the voters (KIP-1186). It "
            "asks again. Reported again if the reason changes.",
            {**_NODE, "reason": "name of the error code, with the message of the active controller"},
            "controller {node} is not a voter of the quorum yet, and asks again (controller.quorum.auto.join.enable): "
            "{reason}",
            LINES_MAX,
        ),
        "controller_registration_refused": EventKind(
            Level.DEBUG,
            "The active controller answered this controller's registration with an error. It is sent again.",
            {**_NODE, "error": "name or number of the error code"},
        ),
    },
)
SERVER_EVENTS: Final = EventCatalogue(
    "broker.server",
    {
        "authentication_failed": EventKind(
            Level.WARNING,
            "A client could not authenticate, for example because of a wrong password. Its connection is closed.",
            {
                "peer": "address of the client",
                "listener": "name of the listener",
                "mechanism": "the SASL mechanism that it named",
                "reason": "why, as text",
            },
            "{peer} has not authenticated to {listener} by {mechanism}: {reason}",
            LINES_MAX,
        ),
        "authorization_refused": EventKind(
            Level.INFO,
            "A client tried what it is not allowed to do. Operations and resources are those of access control lists.",
            {
                "principal": "principal of the client",
                "host": "address of the client",
                "listener": "name of the listener, empty for a request that another node has forwarded",
                "operation": "the operation",
                "resource_type": "type of the resource",
                "resource": "name of the resource",
                "request": "name of the API",
            },
            "{principal} at {host} is not allowed to {operation} {resource_type} {resource} (request {request}, "
            "listener {listener})",
            LINES_MAX,
        ),
        "handler_failed": EventKind(
            Level.ERROR,
            "An API's code raised an unexpected error. The connection is closed.",
            {
                "peer": "address of the client",
                "listener": "name of the listener",
                "error": "the error with its traceback",
            },
            lines_max=LINES_MAX,
            traceback="error",
        ),
        "request_logged": EventKind(
            Level.INFO,
            "A request of a client or about a topic whose requests are logged (logging.md).",
            {
                "api": "name of the API",
                "version": "version of the request",
                "correlation_id": "correlation id",
                "client": "client id",
                "software": "name and version of the client's library",
                "principal": "principal of the client",
                "peer": "address of the client",
                "listener": "name of the listener",
                "bytes": "size of the request",
                "topics": "those topics that are logged, the first ten",
            },
        ),
        "slow_request": EventKind(
            Level.WARNING,
            "A request took as long as `request.log.slow.ms` or longer (logging.md).",
            {
                "api": "name of the API",
                "client": "client id",
                "peer": "address of the client",
                "listener": "name of the listener",
                "total_ms": "from the begin of its turn until the response was sent",
                "queue_ms": "wait for other requests of the turn",
                "local_ms": "work on this node, with the append to the log",
                "remote_ms": "wait for other nodes, records or members of a group",
                "throttle_ms": "for how long the client's connection is muted from now on",
                "response_queue_ms": "wait for other responses",
                "response_send_ms": "time to send the response",
            },
            lines_max=SLOW_REQUESTS_MAX,
        ),
    },
)
TELEMETRY_EVENTS: Final = EventCatalogue(
    "broker.telemetry",
    {
        "client_metrics_ignored": EventKind(
            Level.WARNING,
            "A client metrics subscription in the metadata log has a config that this node does not understand. "
            "It stays as it was.",
            {"subscription": "name of the resource", "error": "the config, as text"},
            "The client metrics subscription {subscription} is not applied: {error}. Set another value, or remove it: "
            "kraft configs delete client-metrics {subscription} KEYS",
        ),
    },
)
HANDLER_EVENTS: Final = EventCatalogue(
    "broker.handlers",
    {
        "coordinator_topic_not_created": EventKind(
            Level.WARNING,
            "A client needs an internal topic that the controller refuses to create.",
            {"topic": "internal topic", "reason": "the refusal, and what to do about it"},
            "{topic} cannot be created, so nothing that needs it works: {reason}",
            1,
        ),
        "log_level_changed": EventKind(
            Level.WARNING,
            "A client changed the level of a logger of this node, until it restarts.",
            {"logger": "name of the logger", "level": "the level; null for that of the logger above it"},
        ),
    },
)
PROCESS_EVENTS: Final = EventCatalogue(
    "broker.cli",
    {
        "loop_held": EventKind(
            Level.WARNING,
            "One task held the event loop for so long that clients noticed.",
            {
                "milliseconds": "how long",
                "cpu_milliseconds": "how much of it was spent on the processor",
                "cause": "the request and the functions that held it",
            },
            "nothing else was served for {milliseconds} ms, {cpu_milliseconds} ms of them on the processor, because of "
            "{cause}",
            LINES_MAX,
        ),
        "host_scrape_failed": EventKind(
            Level.ERROR,
            "The metrics of the brokers of this host could not be put on one page.",
            {"error": "the traceback"},
            "A scrape of the metrics of all brokers failed, which is a bug: {error}",
            LINES_MAX,
            "error",
        ),
        "broker_process_ended": EventKind(
            Level.WARNING,
            "The process of a broker of this host has ended. The supervisor starts it again.",
            {
                "broker": "id of the broker",
                "end": "exit code, or the signal that ended it",
                "delay_s": "the seconds after which it is started again",
            },
            "broker {broker} has ended with {end}, and is started again in {delay_s} s",
        ),
        "config_warning": EventKind(
            Level.WARNING,
            "A key in the configuration of this node does not have the effect that its author may expect.",
            {"warning": "the problem, and what to do about it"},
            "{warning}",
        ),
        "events_suppressed": EventKind(
            Level.INFO,
            "More events of one kind came in an interval than the log prints. Logged at the level of that kind.",
            {"kind": "the kind", "count": "how many were not printed", "seconds": "length of the interval"},
            "{count:,} more {kind} in the last {seconds} s",
        ),
    },
)
