"""What a node brings to the quorum: who it is there, where others reach it, and whom it takes for voters at first."""

from collections.abc import Sequence

from broker.config import KafkaConfig
from broker.node.listeners import BoundListener, reachable
from kraft.core import QuorumConfig, ReplicaKey, Voter, VoterSet
from kraft.driver import DriverConfig

# What the names of this machine's loopback interface begin with.
_LOOPBACK = ("localhost", "127.", "::1")
# The leader holds a Fetch without news for this part of the fetch timeout, which leaves room for losses.
_FETCH_WAITS_PER_TIMEOUT = 4


def is_sole_voter(config: KafkaConfig) -> bool:
    """Whether the configuration knows of no other controller than this node: a node for development.

    It may then found a cluster by itself, since there is nobody whose cluster it could miss.
    """
    if not config.is_controller:
        return False
    if config.quorum_voters:
        return tuple(config.quorum_voters) == (config.node_id,)
    own = (*config.endpoints.controller_listeners, *config.endpoints.advertised_controller_listeners)
    return all(
        any(listener.port in (0, port) and (host == listener.host or host.startswith(_LOOPBACK)) for listener in own)
        for host, port in config.quorum_bootstrap_servers
    )


def driver_config(
    config: KafkaConfig, bound: Sequence[BoundListener], cluster_id: str, directory_id: str
) -> DriverConfig:
    """The quorum's settings. `directory_id` is that of the directory with the metadata log, as text."""
    me = ReplicaKey(config.node_id, directory_id)
    my_address = ""
    if config.is_controller:
        host, port = reachable(config.endpoints.advertised_controller_listeners[0], bound)
        my_address = f"{host}:{port}"
    voters = VoterSet(
        tuple(Voter(ReplicaKey(node_id), f"{host}:{port}") for node_id, (host, port) in config.quorum_voters.items())
    )
    bootstrap = tuple(f"{host}:{port}" for host, port in config.quorum_bootstrap_servers)
    if is_sole_voter(config):
        voters, bootstrap = VoterSet((Voter(me, my_address),)), ()
    fetch_timeout_ms = config.get_int("controller.quorum.fetch.timeout.ms")
    return DriverConfig(
        QuorumConfig(
            me=me,
            my_address=my_address,
            bootstrap_servers=bootstrap,
            election_timeout_ms=config.get_int("controller.quorum.election.timeout.ms"),
            fetch_timeout_ms=fetch_timeout_ms,
            election_backoff_max_ms=config.get_int("controller.quorum.election.backoff.max.ms"),
            retry_backoff_ms=config.get_int("controller.quorum.retry.backoff.ms"),
            fetch_max_wait_ms=fetch_timeout_ms // _FETCH_WAITS_PER_TIMEOUT,
        ),
        cluster_id,
        voters,
        config.get_int("controller.quorum.request.timeout.ms"),
    )
