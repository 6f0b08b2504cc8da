"""The topics that the members of a share group are subscribed to, and those of them that exist (KIP-932)."""

from collections.abc import Collection, Iterable, Mapping

from metadata.image import MetadataImage, TopicImage


class SubscribedTopics:
    """Counts the subscribers of each topic, so that a heartbeat looks at the names of its own member only.

    When each heartbeat collected the names of all members, 100 members with 10,000 names each held the event loop for
    3 s at every heartbeat. The names need not be those of topics that exist.
    """

    __slots__ = ("_counts", "_existing", "_seen", "_unresolved")

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        # The existing topics among the names that are not in `_unresolved`, as of the metadata `_seen`.
        self._existing: dict[str, TopicImage] = {}
        self._unresolved: dict[str, None] = {}
        self._seen: object = None

    @property
    def names(self) -> Collection[str]:
        """All names, in no particular order."""
        return self._counts.keys()

    def replace(self, former: Iterable[str], names: Iterable[str]) -> None:
        """Replaces the distinct names of one member. Those of a new member, or of one that leaves, are empty."""
        for name in names:
            self._counts[name] = self._counts.get(name, 0) + 1
            self._unresolved[name] = None
        for name in former:
            self._counts[name] -= 1
            if not self._counts[name]:
                for kept in (self._counts, self._unresolved, self._existing):
                    kept.pop(name, None)

    def existing(self, image: MetadataImage) -> Mapping[str, TopicImage]:
        """The subscribed topics that exist, by their names. Valid until the next change."""
        if self._seen is not image.topics:
            self._seen = image.topics
            self._existing.clear()
            self._unresolved = dict.fromkeys(self._counts)
        if self._unresolved:
            self._existing.update(_existing(self._unresolved, image))
            self._unresolved.clear()
        return self._existing

    def existing_after(
        self, former: Iterable[str], names: Iterable[str], image: MetadataImage
    ) -> Mapping[str, TopicImage]:
        """The subscribed topics that exist after a `replace`, which does not take place yet."""
        gone = {name for name in former if self._counts[name] == 1}
        kept = {name: topic for name, topic in self.existing(image).items() if name not in gone}
        return {**kept, **_existing(names, image)}


def _existing(names: Iterable[str], image: MetadataImage) -> dict[str, TopicImage]:
    topics = ((name, image.topics.by_name.get(name)) for name in names)
    return {name: topic for name, topic in topics if topic is not None}
