"""The topics that a consumer subscribes to, by their names or by a pattern."""

import re
from collections.abc import Iterable
from typing import Final, TypeAlias

import attrs

from broker.client.errors import ConfigError
from broker.client.metadata_cache import MetadataCache

# The coordinator's regular expressions are RE2's; Python's have more.
Pattern: TypeAlias = str | re.Pattern[str]
_NO_TOPICS: Final[frozenset[str]] = frozenset()


@attrs.frozen
class SubscribedTopics:
    """`names` are empty with a pattern. A pattern given as text may be evaluated by the coordinator (KIP-848)."""

    names: frozenset[str] = _NO_TOPICS
    pattern: Pattern | None = None

    @property
    def regex(self) -> str | None:
        """The pattern, if the coordinator may evaluate it."""
        return self.pattern if isinstance(self.pattern, str) else None

    def resolve(self, metadata: MetadataCache, *, exclude_internal: bool) -> frozenset[str]:
        """The names of the topics: a pattern has to match a whole name. Raises ConfigError for what is no pattern."""
        if self.pattern is None:
            return self.names
        try:
            compiled = re.compile(self.pattern)
        except re.error as error:
            raise ConfigError(f"the pattern {self.pattern!r} is not a regular expression: {error}") from error
        existing = [topic for topic in metadata.topics.values() if topic.partitions]
        visible = [topic.name for topic in existing if not (topic.is_internal and exclude_internal)]
        return frozenset(name for name in visible if compiled.fullmatch(name))


def subscribed_topics(topics: Iterable[str], pattern: Pattern | None) -> SubscribedTopics:
    """Builds a subscription from topic names or a pattern. Raises ConfigError."""
    names = frozenset([topics] if isinstance(topics, str) else topics)
    if (pattern is None) == (not names):
        raise ConfigError("subscribe to topics, or to a pattern; unsubscribe() subscribes to nothing")
    return SubscribedTopics(names, pattern)
