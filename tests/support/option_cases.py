"""Cases that show the effects of options, for batch queries, streaming queries or both; and their topics."""

import json
from collections.abc import Callable
from typing import Generic, TypeVar

import attrs

from broker.client import SyncAdmin, TopicPartition
from tests.support.source_queries import BATCH, STREAMING, SourceQueries
from tests.support.spark_topics import create_topic, fill_topic

W = TypeVar("W")


class OptionCases(Generic[W]):
    """Registers cases. A case is a function of a context of type W and of the kind of query."""

    def __init__(self) -> None:
        self._cases: list[tuple[tuple[str, ...], str, Callable[[W, str], None]]] = []

    def shows(
        self, *options: str, queries: tuple[str, ...] = (BATCH, STREAMING)
    ) -> Callable[[Callable[[W, str], None]], Callable[[W, str], None]]:
        """Decorator that registers a function as the case of these options."""

        def register(case: Callable[[W, str], None]) -> Callable[[W, str], None]:
            self._cases += [(options, query, case) for query in queries]
            return case

        return register

    @property
    def named(self) -> dict[str, tuple[Callable[[W, str], None], str]]:
        """The cases, each with its kind of query, by names for tests."""
        return {f"{case.__name__.replace('_', ' ')}, {query}": (case, query) for _, query, case in self._cases}

    @property
    def shown(self) -> list[tuple[str, str]]:
        """The options and kinds of queries that have a case, sorted."""
        return sorted((option, query) for options, query, _ in self._cases for option in options)


@attrs.frozen
class OptionTopics(SourceQueries):
    """`topic` has two partitions with 10 and 4 records. Timestamps start at 1000, a millisecond apart.

    `cut` has lost the first 4 of 10 records, and `late` has the timestamps 1000, 2000, 3000, 1500.
    """

    cut: str
    late: str

    @classmethod
    def create(cls, bootstrap: str) -> "OptionTopics":
        topic, cut, late = (create_topic(bootstrap, partitions=number) for number in (2, 1, 1))
        fill_topic(bootstrap, topic, 10)
        fill_topic(bootstrap, topic, 4, partition=1)
        fill_topic(bootstrap, cut, 10)
        for timestamp_ms in (1_000, 2_000, 3_000, 1_500):
            fill_topic(bootstrap, late, 1, timestamp_ms=timestamp_ms)
        with SyncAdmin(bootstrap) as admin:
            admin.delete_records({TopicPartition(cut, 0): 4}).raise_first()
        return cls(bootstrap, topic, cut, late)

    def of(self, *values: int, topic: str = "") -> str:
        """JSON with a number for each partition."""
        return json.dumps({topic or self.topic: {str(number): value for number, value in enumerate(values)}})

    def groups(self) -> set[str]:
        with SyncAdmin(self.bootstrap) as admin:
            return {group.group_id for group in admin.list_groups().chained()}
