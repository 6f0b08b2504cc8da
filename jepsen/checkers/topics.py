"""Promises about topics."""

from collections.abc import Hashable, Iterator

from jepsen.checkers.checker import Anomaly, Checker
from jepsen.checkers.linearizability import find_contradiction
from jepsen.history import History, Operation, Outcome
from jepsen.values import SHARED_NAMES


class AcknowledgedTopicsStay:
    """A topic whose creation was acknowledged exists, with its id and all its partitions, unless it was deleted."""

    def check(self, history: History) -> Iterator[Anomaly]:
        final = final_topics(history)
        deleted = {operation.value for operation in history.of("delete-topic")}
        for operation in history.of("create-topic", outcome=Outcome.OK):
            wanted = operation.value
            seen = final.result.get(wanted.name)
            if seen is None:
                if wanted.name not in deleted:
                    yield Anomaly(type(self).__name__, f"{wanted.name} is gone", (operation,))
            elif seen.topic_id != operation.result or seen.partitions != wanted.partitions:
                yield Anomaly(type(self).__name__, f"{wanted.name} is now {seen}", (operation,))


class DeletedTopicsStayAway:
    """A topic whose deletion was acknowledged does not exist again."""

    def check(self, history: History) -> Iterator[Anomaly]:
        final = final_topics(history)
        for operation in history.of("delete-topic", outcome=Outcome.OK):
            if operation.value in final.result:
                yield Anomaly(type(self).__name__, f"{operation.value} is back", (operation,))


class SeenTopicsAreReal:
    """A topic that any client has seen continues to exist unless it was deleted; it has the requested partitions."""

    def check(self, history: History) -> Iterator[Anomaly]:
        final = final_topics(history)
        wanted = {operation.value.name: operation for operation in history.of("create-topic")}
        deleted = {operation.value for operation in history.of("delete-topic")}
        for listing in history.of("list-topics", outcome=Outcome.OK):
            for name, seen in listing.result.items():
                creation = wanted.get(name)
                if name.startswith(SHARED_NAMES):
                    continue  # several clients create and delete these
                if creation is None:
                    yield Anomaly(type(self).__name__, f"no client created {name}")
                elif seen.partitions != creation.value.partitions:
                    yield Anomaly(type(self).__name__, f"{name} has {seen.partitions} partitions", (creation,))
                elif name not in deleted and final.result.get(name) != seen:
                    yield Anomaly(type(self).__name__, f"{name} was seen and is gone", (creation,))


class SharedTopic:
    """Model of one topic that is created, grown and deleted: its number of partitions, or None while it
    does not exist.
    """

    initial: Hashable = None

    def step(self, state: Hashable, operation: Operation) -> tuple[bool, Hashable]:
        answer, after = self._do(state, operation.function, operation.value.partitions)
        return operation.outcome is not Outcome.OK or answer == operation.result, after

    def _do(self, state: Hashable, function: str, partitions: int) -> tuple[str, Hashable]:
        if function == "share-topic":
            return ("NONE", partitions) if state is None else ("TOPIC_ALREADY_EXISTS", state)
        if state is None:
            return "UNKNOWN_TOPIC_OR_PARTITION", None
        assert isinstance(state, int), "the state is a number of partitions"
        if function == "drop-topic":
            return "NONE", None
        return ("NONE", partitions) if partitions > state else ("INVALID_PARTITIONS", state)


class MetadataIsLinearizable:
    """Changes of a topic, and their refusals, take effect one after the other, each between its request and its
    response.
    """

    def check(self, history: History) -> Iterator[Anomaly]:
        by_name: dict[str, list[Operation]] = {}
        for operation in history.of("share-topic", "grow-topic", "drop-topic"):
            by_name.setdefault(operation.value.name, []).append(operation)
        for name, operations in by_name.items():
            culprit = find_contradiction(operations, SharedTopic())
            if culprit is not None:
                yield Anomaly(type(self).__name__, f"no order of the operations on {name} explains it", (culprit,))


def final_topics(history: History) -> Operation:
    """The last list of topics, read after recovery."""
    return list(history.of("list-topics", outcome=Outcome.OK))[-1]


TOPIC_CHECKERS: tuple[Checker, ...] = (
    AcknowledgedTopicsStay(),
    DeletedTopicsStayAway(),
    SeenTopicsAreReal(),
    MetadataIsLinearizable(),
)
