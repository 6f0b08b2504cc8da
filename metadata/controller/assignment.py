"""Who has replicas of a partition while that changes (KIP-455). Pure.

A reassignment widens the replicas by those that are to come. Once all that are to remain are in sync, those that are
to go leave, in one step. Until then nobody who holds records loses them, so it can be taken back at any time.
"""

from collections.abc import Callable, Collection, Iterable, Sequence

import attrs

from metadata.image import PartitionImage


@attrs.frozen
class Assignment:
    """`replicas` are all there are, those that are to remain first, in order of preference; `directories` (UUIDs) in
    the same order.

    `adding` were not there before the reassignment that is going on, `removing` will not be there after it. One that
    was to come by a reassignment that another one has replaced is in both.
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
        """The replicas once the reassignment is done."""
        return tuple(replica for replica in self.replicas if replica not in self.removing)

    def towards(self, target: Sequence[int], new_directory: Callable[[int], bytes]) -> "Assignment":
        """On the way to `target`, whatever it was on the way to before. `new_directory` is that of a new replica."""
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
        """As before the reassignment; its order of preference is that of the target still, as in Kafka."""
        return self._without(self.adding)

    def completed(self, isr: Collection[int]) -> "Assignment":
        """The target, once all of it is in sync; until then this."""
        if not self.is_changing or not all(replica in isr for replica in self.target):
            return self
        return self._without(self.removing)

    def _without(self, gone: Iterable[int]) -> "Assignment":
        directories = zip(self.replicas, self.directories, strict=False)
        return Assignment(
            tuple(replica for replica in self.replicas if replica not in gone),
            tuple(directory for replica, directory in directories if replica not in gone),
        )
