"""What is promised about topics."""

from collections.abc import Iterator

from jepsen.checkers.checker import Anomaly, Checker
from jepsen.history import History, Operation, Outcome


class AcknowledgedTopicsStay:
    """A topic whose creation was acknowledged is there, with its id and all its partitions, unless it was deleted."""

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
    """A topic whose deletion was acknowledged never comes back."""

    def check(self, history: History) -> Iterator[Anomaly]:
        final = final_topics(history)
        for operation in history.of("delete-topic", outcome=Outcome.OK):
            if operation.value in final.result:
                yield Anomaly(type(self).__name__, f"{operation.value} is back", (operation,))


class SeenTopicsAreReal:
    """A topic that anybody has seen is there for good, unless it was deleted; it has the partitions asked for."""

    def check(self, history: History) -> Iterator[Anomaly]:
        final = final_topics(history)
        wanted = {operation.value.name: operation for operation in history.of("create-topic")}
        deleted = {operation.value for operation in history.of("delete-topic")}
        for listing in history.of("list-topics", outcome=Outcome.OK):
            for name, seen in listing.result.items():
                creation = wanted.get(name)
                if creation is None:
                    yield Anomaly(type(self).__name__, f"nobody created {name}")
                elif seen.partitions != creation.value.partitions:
                    yield Anomaly(type(self).__name__, f"{name} has {seen.partitions} partitions", (creation,))
                elif name not in deleted and final.result.get(name) != seen:
                    yield Anomaly(type(self).__name__, f"{name} was seen and is gone", (creation,))


def final_topics(history: History) -> Operation:
    """The last listing, of after the end of all troubles."""
    return list(history.of("list-topics", outcome=Outcome.OK))[-1]


TOPIC_CHECKERS: tuple[Checker, ...] = (AcknowledgedTopicsStay(), DeletedTopicsStayAway(), SeenTopicsAreReal())
