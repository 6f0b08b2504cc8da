"""The settings of a node's part in the quorum: its id and address, and the initial voters."""

from collections.abc import Sequence

from broker.config import KafkaConfig
from broker.node.listeners import BoundListener, reachable
from kraft.core import QuorumConfig, ReplicaKey, Voter, VoterSet
from kraft.raft_node import RaftNodeConfig

# The leader waits for news before it answers a Fetch, for the fetch timeout divided by this. A lost response then does
# not exceed the timeout.
_FETCH_WAITS_PER_TIMEOUT = 4


def driver_config(
    config: KafkaConfig, bound: Sequence[BoundListener], cluster_id: str, directory_id: str
) -> RaftNodeConfig:
    """The settings of the quorum. `directory_id` is the id of the metadata log's directory, as text."""
    me = ReplicaKey(config.node_id, directory_id)
    my_address = ""
    if config.is_controller:
        host, port = reachable(config.endpoints.advertised_controller_listeners[0], bound)
        my_address = f"{host}:{port}"
    voters = VoterSet(
        tuple(Voter(ReplicaKey(node_id), f"{host}:{port}") for node_id, (host, port) in config.quorum_voters.items())
    )
    bootstrap = tuple(f"{host}:{port}" for host, port in config.quorum_bootstrap_servers)
    if config.is_sole_voter:
        voters, bootstrap = VoterSet((Voter(me, my_address),)), ()
    fetch_timeout_ms = config.controller_quorum_fetch_timeout_ms
    return RaftNodeConfig(
        QuorumConfig(
            me=me,
            my_address=my_address,
            bootstrap_servers=bootstrap,
            election_timeout_ms=config.controller_quorum_election_timeout_ms,
            fetch_timeout_ms=fetch_timeout_ms,
            election_backoff_max_ms=config.controller_quorum_election_backoff_max_ms,
            retry_backoff_ms=config.controller_quorum_retry_backoff_ms,
            fetch_max_wait_ms=fetch_timeout_ms // _FETCH_WAITS_PER_TIMEOUT,
        ),
        cluster_id,
        voters,
        config.controller_quorum_request_timeout_ms,
    )
