"""Members' subscriptions, by name and by regular expression, and whether the subscribed topics have changed."""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from broker.coordinator.group.consumer.member import ConsumerMember, ResolvedRegex
from broker.coordinator.group.consumer.topic_matching import TopicMatcher
from broker.coordinator.group.topics_hash import topics_hash
from broker.wire.errors import ErrorCode, KafkaError
from metadata.image import MetadataImage
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
    """The hash of the topics that the members are subscribed to; see `topics_hash`."""
    distinct = {(member.topic_names, member.topic_regex): member for member in members}
    return topics_hash((name for member in distinct.values() for name in names_of(member, regexes)), image)


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
