"""The promise that records of a key are in order."""

from collections import defaultdict
from collections.abc import Iterator

from jepsen.checkers.applications.views import sends_with_offset
from jepsen.checkers.checker import Anomaly
from jepsen.checkers.records import TopicPartition, name_of
from jepsen.history import History, Operation


class KeysAreInOrder:
    """Acknowledged records of a key are in the partition in the order in which a thread or a task sent them."""

    def check(self, history: History) -> Iterator[Anomaly]:
        sessions: dict[tuple[TopicPartition, str, str], list[tuple[int, int, Operation]]] = defaultdict(list)
        for partition, offset, operation in sends_with_offset(history):
            if operation.value.session:
                session = sessions[partition, operation.client, operation.value.session]
                session.append((operation.serial, offset, operation))
        for (partition, _, _), sends in sessions.items():
            highest = -1
            earlier: Operation | None = None
            for _, offset, operation in sorted(sends, key=lambda each: each[0]):
                if offset < highest and earlier is not None:
                    what = (
                        f"{operation.value.values[0]} is at {offset} of {name_of(partition)}, and "
                        f"{earlier.value.values[0]}, which was sent before it, at {highest}"
                    )
                    yield Anomaly(type(self).__name__, what, (earlier, operation))
                else:
                    highest, earlier = offset, operation
