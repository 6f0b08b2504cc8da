"""Topics named by a regular expression, in which a comma stands for "or"."""

import re
from collections.abc import Iterable

from broker.cli.kafka_tools.options import UsageFailure
from broker.client.admin import TopicListing


def topic_pattern(text: str) -> re.Pattern[str]:
    """The pattern that a topic's whole name has to match. Raises UsageFailure."""
    return compiled_pattern(text.strip().replace(",", "|").replace(" ", "").lstrip("\"'").rstrip("\"'"))


def compiled_pattern(text: str) -> re.Pattern[str]:
    """A regular expression without a comma's other meaning. Raises UsageFailure."""
    try:
        return re.compile(text)
    except re.error as error:
        raise UsageFailure(f"{text} is an invalid regex: {error}") from error


def matching_names(topics: Iterable[TopicListing], text: str | None) -> list[str]:
    """The names of the topics that match, sorted; of all topics without an expression."""
    pattern = None if text is None else topic_pattern(text)
    return sorted(topic.name for topic in topics if pattern is None or pattern.fullmatch(topic.name))
