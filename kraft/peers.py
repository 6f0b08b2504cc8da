"""The peers of a replica: which of them are known, and which voters seem to be gone."""

from kraft.core import Core, ReplicaKey


class Peers:
    """Tracks connections to peers: those that were made and those that broke."""

    def __init__(self, core: Core) -> None:
        self._core = core
        # The nodes to which this replica has connected, at the addresses of voters and bootstrap servers.
        self._reached: dict[int, ReplicaKey] = {}
        # Voters with a connection that was reset or refused, as when a process dies, and without a message since. This
        # is only a hint: a voter may be back at once, and a host that lost its power resets no connections.
        self._absent: set[int] = set()

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
            self._absent.add(node_id)

    def heard(self, node_id: int) -> None:
        self._absent.discard(node_id)

    def is_majority_absent(self) -> bool:
        """True if the remaining voters, this replica included, are too few to elect a leader or to commit."""
        ids = self._core.voters.ids
        left = [node_id for node_id in ids if node_id not in self._absent]
        return 2 * len(left) <= len(ids)
