"""What a replica knows of the nodes that it is connected to, beyond what they say."""

from kraft.core import Core, ReplicaKey


class Peers:
    """Who is known here, and which voters seem to be gone."""

    def __init__(self, core: Core) -> None:
        self._core = core
        # Those that this replica has itself connected to, at the addresses of voters and bootstrap servers.
        self._reached: dict[int, ReplicaKey] = {}
        # Voters whose connections broke as the end of their processes looks, and that were not heard of since. Only a
        # hint: each may be back in a moment, and a host that lost its power breaks no connections.
        self._absent: set[int] = set()

    def connected(self, destination: int, server: ReplicaKey) -> None:
        """`server` answers where node `destination` is; negative ones are bootstrap servers."""
        if destination < 0 or destination in self._core.voters.ids:
            self._reached[destination] = server

    def is_stranger(self, peer: ReplicaKey) -> bool:
        """Whether neither the log names `peer` as a voter, nor this replica has itself connected to it."""
        return not self._core.names_voter(peer) and peer not in self._reached.values()

    def check(self, peer: ReplicaKey) -> bool:
        """Whether `peer`, which has sent a request, is a stranger; any other is there."""
        is_stranger = self.is_stranger(peer)
        if not is_stranger:
            self.heard(peer.node_id)
        return is_stranger

    def lost(self, node_id: int) -> None:
        if node_id in self._core.voters.ids:
            self._absent.add(node_id)

    def heard(self, node_id: int) -> None:
        self._absent.discard(node_id)

    def prevent_majority(self) -> bool:
        """Whether the voters that are left, among them this replica, can elect nobody and commit nothing."""
        ids = self._core.voters.ids
        left = [node_id for node_id in ids if node_id not in self._absent]
        return 2 * len(left) <= len(ids)
