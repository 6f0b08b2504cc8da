"""The peers of a replica: which of them are known, and which voters seem to be gone."""

from math import inf
from typing import Final

import trio

from kraft.core import Core, ReplicaKey

# How long a lost connection is a sign that a voter has died. Followers do not hear from each other, so a voter that was
# lost earlier may have been back for long.
_RECENT_S: Final = 1.0


class Peers:
    """Tracks connections to peers: those that were made and those that broke."""

    def __init__(self, core: Core) -> None:
        self._core = core
        # The nodes to which this replica has connected, at the addresses of voters and bootstrap servers.
        self._reached: dict[int, ReplicaKey] = {}
        # Voters with a connection that was reset or refused, as when a process dies, and without a message since, with
        # the time of the last loss. This is only a hint: a voter may be back at once, and a host that lost its power
        # resets no connections.
        self._absent: dict[int, float] = {}

    def connected(self, destination: int, server: ReplicaKey) -> None:
        """`server` answered at the address of node `destination`. Negative destinations are bootstrap servers."""
        if destination < 0 or destination in self._core.voters.ids:
            self._reached[destination] = server

    def is_unknown_peer(self, peer: ReplicaKey) -> bool:
        """True if no voter set in the log names `peer`, and this replica has not connected to it."""
        return not self._core.names_voter(peer) and peer not in self._reached.values()

    def check_sender(self, peer: ReplicaKey) -> bool:
        """Return True if `peer`, which has sent a request, is unknown. A known peer counts as present from now on."""
        is_unknown_peer = self.is_unknown_peer(peer)
        if not is_unknown_peer:
            self.heard(peer.node_id)
        return is_unknown_peer

    def lost(self, node_id: int) -> None:
        if node_id in self._core.voters.ids:
            self._absent[node_id] = trio.current_time()

    def heard(self, node_id: int) -> None:
        self._absent.pop(node_id, None)

    def recently_lost(self) -> list[int]:
        """The voters whose connections broke within the last second, and that have sent no message since."""
        now = trio.current_time()
        return [node_id for node_id in self._core.voters.ids if now - self._absent.get(node_id, -inf) <= _RECENT_S]

    def is_majority_absent(self) -> bool:
        """True if the remaining voters, this replica included, are too few to elect a leader or to commit."""
        ids = self._core.voters.ids
        left = [node_id for node_id in ids if node_id not in self._absent]
        return 2 * len(left) <= len(ids)
