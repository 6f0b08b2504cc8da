"""The replicas of a partition during a reassignment (KIP-455). Pure.

A reassignment first adds the new replicas. Once all target replicas are in sync, the other ones are removed in one
step. No replica is removed before, so the reassignment can be cancelled at any time.
"""

from collections.abc import Callable, Collection, Iterable, Sequence

from kraft import lazy_attrs
from metadata.image import PartitionImage


@lazy_attrs.frozen
class Assignment:
    """`replicas` are all current replicas: first the target replicas in order of preference, then the removed ones.

    `directories` (UUIDs) are in the same order. `adding` are the replicas that the reassignment adds, and `removing`
    those that it removes. A replica that was added by a reassignment which was then replaced is in both.
    """

    replicas: tuple[int, ...]
    directories: tuple[bytes, ...] = ()
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()

    @classmethod
    def of(cls, partition: PartitionImage) -> "Assignment":
        return cls(partition.replicas, partition.directories, partition.adding_replicas, partition.removing_replicas)

    @property
    def is_changing(self) -> bool:
        return bool(self.adding or self.removing)

    @property
    def target(self) -> tuple[int, ...]:
        """The replicas after the reassignment."""
        return tuple(replica for replica in self.replicas if replica not in self.removing)

    def towards(self, target: Sequence[int], new_directory: Callable[[int], bytes]) -> "Assignment":
        """Start a reassignment to `target`, replacing the current one. `new_directory` returns a broker's directory."""
        removing = sorted(replica for replica in self.replicas if replica not in target)
        replicas = (*target, *removing)
        original = [replica for replica in self.replicas if replica not in self.adding]
        known = dict(zip(self.replicas, self.directories, strict=False))
        return Assignment(
            replicas,
            tuple(known[replica] if replica in known else new_directory(replica) for replica in replicas),
            tuple(sorted(replica for replica in replicas if replica not in original)),
            tuple(removing),
        )

    def reverted(self) -> "Assignment":
        """Cancel the reassignment. The order of preference stays that of the target, as in Kafka."""
        return self._without(self.adding)

    def completed(self, isr: Collection[int]) -> "Assignment":
        """The assignment without the removed replicas if the whole target is in sync; else unchanged."""
        if not self.is_changing or not all(replica in isr for replica in self.target):
            return self
        return self._without(self.removing)

    def _without(self, gone: Iterable[int]) -> "Assignment":
        directories = zip(self.replicas, self.directories, strict=False)
        return Assignment(
            tuple(replica for replica in self.replicas if replica not in gone),
            tuple(directory for replica, directory in directories if replica not in gone),
        )
