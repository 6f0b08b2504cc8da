"""Members' subscriptions, by name and by regular expression, and whether the subscribed topics have changed."""

from collections.abc import Callable, Iterable, Mapping
from hashlib import blake2b
from typing import Final

from broker.coordinator.group.consumer.member import ConsumerMember, ResolvedRegex
from broker.coordinator.group.consumer.topic_matching import TopicMatcher
from broker.wire.errors import ErrorCode, KafkaError
from metadata.image import MetadataImage, TopicImage
from metadata.regex.matching import RegexError

# Regular expressions are not resolved again before this time, even if topics change.
REGEX_REFRESH_MIN_MS: Final = 10_000
# How many characters of an invalid expression the error message shows.
_REGEX_SHOWN_MAX: Final = 200

Regexes = Mapping[str, ResolvedRegex]


def names_of(member: ConsumerMember, regexes: Regexes) -> frozenset[str]:
    """The topics that the member is subscribed to, whether they exist or not."""
    names = frozenset(member.topic_names)
    resolved = regexes.get(member.topic_regex or "")
    return names if resolved is None else names | frozenset(resolved.topic_names)


def topic_ids(
    members: Iterable[ConsumerMember], regexes: Regexes, image: MetadataImage
) -> dict[str, tuple[bytes, ...]]:
    """The existing topics that each member is subscribed to, by member id, in ascending order."""
    by_name = image.topics.by_name
    known: dict[tuple[tuple[str, ...], str | None], tuple[bytes, ...]] = {}
    ids: dict[str, tuple[bytes, ...]] = {}
    for member in members:
        subscription = member.topic_names, member.topic_regex
        if subscription not in known:
            topics = (by_name.get(name) for name in names_of(member, regexes))
            known[subscription] = tuple(sorted(topic.topic_id for topic in topics if topic is not None))
        ids[member.member_id] = known[subscription]
    return ids


def metadata_hash(members: Iterable[ConsumerMember], regexes: Regexes, image: MetadataImage) -> int:
    """A hash that changes if a topic is created or deleted, gets partitions, or has replicas in other racks.

    It has 64 bits, and is 0 without topics, as Kafka's. The values differ from Kafka's. If a coordinator finds a hash
    that it would not have written, it increases the group's epoch, which does no harm.
    """
    distinct = {(member.topic_names, member.topic_regex): member for member in members}
    names = frozenset(name for member in distinct.values() for name in names_of(member, regexes))
    topics = [topic for name in sorted(names) if (topic := image.topics.by_name.get(name)) is not None]
    if not topics:
        return 0
    digest = blake2b(digest_size=8)
    for topic in topics:
        digest.update(topic.topic_id + b"%d:%d;" % (len(topic.partitions), len(topic.name)))
        digest.update(topic.name.encode())
        digest.update(_racks(topic, image).encode())
    return int.from_bytes(digest.digest(), signed=True)


def _racks(topic: TopicImage, image: MetadataImage) -> str:
    """The racks of each partition's replicas; empty if no broker has a rack."""
    racks = {broker_id: broker.rack for broker_id, broker in image.cluster.brokers.items() if broker.rack is not None}
    if not racks:
        return ""
    return ";".join(
        ",".join(sorted(racks[replica] for replica in partition.replicas if replica in racks))
        for partition in topic.partitions.values()
    )


# Regular expressions


def check_regex(regex: str, matcher: TopicMatcher) -> None:
    """Raises KafkaError if the regular expression is invalid or too large."""
    try:
        matcher.check(regex)
    except RegexError as error:
        shown = regex if len(regex) <= _REGEX_SHOWN_MAX else f"{regex[:_REGEX_SHOWN_MAX]}..."
        raise KafkaError(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"SubscribedTopicRegex `{shown}` is not a valid regular expression: {error}.",
        ) from error


def resolve(
    regexes: Iterable[str],
    known: Regexes,
    image: MetadataImage,
    now_ms: int,
    matcher: TopicMatcher,
    topic_filter: Callable[[str], bool] | None = None,
) -> dict[str, ResolvedRegex]:
    """The topics whose whole names match, and for which `topic_filter` is true.

    If matching takes too long, the result is the one known before, if any.
    """
    wanted = list(regexes)
    matching = matcher.find(wanted, image)
    if topic_filter is not None:
        matching = {regex: tuple(filter(topic_filter, topics)) for regex, topics in matching.items()}
    found = {regex: ResolvedRegex(topics, image.offset, now_ms) for regex, topics in matching.items()}
    return {regex: found.get(regex) or known[regex] for regex in wanted if regex in found or regex in known}


def need_refresh(
    wanted: Iterable[str], regexes: Regexes, topics_version: int, refresh_interval_ms: int, now_ms: int
) -> bool:
    """True if regular expressions have to be resolved: topics were created since, or the last time was long ago."""
    if any(regex not in regexes for regex in wanted):
        return True
    known = [regexes[regex] for regex in wanted]
    if not known:
        return False
    last_ms = max(each.timestamp_ms for each in known)
    if now_ms <= last_ms + REGEX_REFRESH_MIN_MS:
        return False
    return min(each.version for each in known) < topics_version or now_ms > last_ms + refresh_interval_ms
