"""The settings of a core, with Kafka's names and defaults."""

import attrs

from kraft.core.voters import ReplicaKey


@attrs.frozen
class QuorumConfig:
    """`me` is this replica and `my_address` where others reach it; `bootstrap_servers` know the way to the leader."""

    me: ReplicaKey
    my_address: str = ""
    bootstrap_servers: tuple[str, ...] = ()
    # controller.quorum.election.timeout.ms: how long an election, or waiting for one, takes before the next; up to
    # twice that by chance, so that not all begin at once.
    election_timeout_ms: int = 1_000
    # controller.quorum.fetch.timeout.ms: how long a follower goes without an answer from its leader.
    fetch_timeout_ms: int = 2_000
    # controller.quorum.election.backoff.max.ms: bounds the wait after a lost election.
    election_backoff_max_ms: int = 1_000
    # controller.quorum.retry.backoff.ms: the wait before a failed request is repeated.
    retry_backoff_ms: int = 20
    # How long the leader holds a Fetch to which there is no news: a quarter of the fetch timeout leaves room for loss.
    fetch_max_wait_ms: int = 500

    @property
    def check_quorum_timeout_ms(self) -> float:
        """How long a leader goes without Fetches from a majority: longer than any of them would wait for it."""
        return 1.5 * self.fetch_timeout_ms

    @property
    def update_voter_timeout_ms(self) -> int:
        """How long a voter waits to be named anew, and before it asks again; less than a request may take."""
        return int(self.fetch_timeout_ms / 4)

    @property
    def begin_epoch_interval_ms(self) -> float:
        return self.fetch_timeout_ms / 2
