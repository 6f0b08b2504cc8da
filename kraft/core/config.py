"""The configuration of a core, with Kafka's names and defaults."""

from kraft import lazy_attrs
from kraft.core.voters import ReplicaKey


@lazy_attrs.frozen
class QuorumConfig:
    """`me` is this replica, `my_address` is its own "host:port". The `bootstrap_servers` are asked for the leader."""

    me: ReplicaKey
    my_address: str = ""
    bootstrap_servers: tuple[str, ...] = ()
    # controller.quorum.election.timeout.ms: the time before a replica starts another election. Each timeout is random,
    # up to twice as long, so that replicas do not start elections at the same time.
    election_timeout_ms: int = 1_000
    # controller.quorum.fetch.timeout.ms: a follower without a response of its leader for so long starts a pre-vote.
    fetch_timeout_ms: int = 2_000
    # controller.quorum.election.backoff.max.ms: the upper bound of the backoff after a lost election.
    election_backoff_max_ms: int = 1_000
    # controller.quorum.retry.backoff.ms: the backoff before a failed request is repeated.
    retry_backoff_ms: int = 20
    # How long a Fetch without new entries waits at the leader: a quarter of the fetch timeout, so that a lost response
    # does not exceed that timeout.
    fetch_max_wait_ms: int = 500
    # controller.quorum.auto.join.enable: a replica that is not a voter adds itself (KIP-1186).
    auto_join: bool = False

    @property
    def names_other_servers(self) -> bool:
        """True if another controller than this replica is among the bootstrap servers."""
        return any(address != self.my_address for address in self.bootstrap_servers)

    @property
    def check_quorum_timeout_ms(self) -> float:
        """How long a leader keeps leading without Fetches from a majority: longer than a follower's fetch timeout."""
        return 1.5 * self.fetch_timeout_ms

    @property
    def update_voter_timeout_ms(self) -> int:
        """The timeout of the voter changes that a replica requests for itself; shorter than the request timeout."""
        return int(self.fetch_timeout_ms / 4)

    @property
    def begin_epoch_interval_ms(self) -> float:
        return self.fetch_timeout_ms / 2
