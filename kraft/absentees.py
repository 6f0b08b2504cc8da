"""Voters that seem to be gone."""

from kraft.core import VoterSet


class Absentees:
    """Voters whose connections broke as the end of their processes looks, and that were not heard of since.

    Only a hint, as each of them may be back in a moment; and a host that lost its power breaks no connections.
    """

    def __init__(self) -> None:
        self._node_ids: set[int] = set()

    def lost(self, node_id: int, voters: VoterSet) -> None:
        if node_id in voters.ids:
            self._node_ids.add(node_id)

    def heard(self, node_id: int) -> None:
        self._node_ids.discard(node_id)

    def prevent_majority(self, voters: VoterSet) -> bool:
        """Whether those that are left, among them this replica, can elect nobody and commit nothing."""
        left = [node_id for node_id in voters.ids if node_id not in self._node_ids]
        return 2 * len(left) <= len(voters.ids)
