"""Histories of applications for tests of their checkers: each call is an operation that takes a second."""

from itertools import count
from typing import Any

from jepsen import recorded_values, values
from jepsen.history import History, Operation, Outcome

GROUP = "billing"


class ApplicationHistory:
    """Writes a history, operation by operation. `suffix` ends the names of its topics, its group and its clients.

    With `whole`, the operations are a part of another history.
    """

    def __init__(self, suffix: str = "", whole: "ApplicationHistory | None" = None) -> None:
        seconds = count()
        self._suffix = suffix
        self.group = GROUP + suffix
        self.history = History(lambda: float(next(seconds))) if whole is None else whole.history

    def send(
        self,
        name: str,
        at: int | None,
        *,
        topic: str = "orders",
        key: str = "",
        client: str = "producer@1",
        outcome: Outcome = Outcome.OK,
        transaction: str = "",
        partition: int = 0,
    ) -> Operation:
        """Send a record. Without an acknowledgement the partition is not known."""
        where = partition if outcome is Outcome.OK else -1
        value = values.Sending(topic + self._suffix, where, key and f"1/{key}", 0, (name,), transaction=transaction)
        return self._done("send", client, value, at if outcome is Outcome.OK else "reason", outcome)

    def send_together(self, *records: tuple[str, int, str]) -> None:
        """Send records, each with its offset and its key, before the first of them is acknowledged."""
        sends = []
        for name, at, key in records:
            value = values.Sending("orders" + self._suffix, 0, f"1/{key}", 0, (name,))
            sends.append((self.history.invoke("producer@1" + self._suffix, "send", value), at))
        for operation, at in sends:
            self.history.ok(operation, at)

    def poll(self, *records: tuple[int, str], client: str = "consumer@2", topic: str = "orders") -> Operation:
        """A member of the group receives records."""
        return self._done(
            "poll-group", client, values.GroupPoll(self.group, client + self._suffix, topic + self._suffix, 0), records
        )

    def read(self, *records: tuple[int, str], client: str = "reader@3", topic: str = "orders") -> Operation:
        """A consumer without a group receives records."""
        return self._done("poll", client, values.Polling(topic + self._suffix, 0, records[0][0]), records)

    def assign(self, client: str = "consumer@2", topic: str = "orders") -> Operation:
        return self._done(
            "assign",
            client,
            values.Ownership(self.group, client + self._suffix, -1, ((topic + self._suffix, 0),)),
            None,
        )

    def revoke(self, client: str = "consumer@2", topic: str = "orders") -> Operation:
        return self._done(
            "revoke",
            client,
            values.Ownership(self.group, client + self._suffix, -1, ((topic + self._suffix, 0),)),
            None,
        )

    def commit(
        self, offset: int, outcome: Outcome = Outcome.OK, client: str = "consumer@2", topic: str = "orders"
    ) -> Operation:
        value = values.Commit(self.group, client, -1, ((topic + self._suffix, 0, offset),))
        return self._done("commit", client, value, None, outcome)

    def process(self, offset: int, outcome: Outcome = Outcome.OK) -> Operation:
        return self._done(
            "process",
            "application@2",
            recorded_values.Processing(self.group, "orders" + self._suffix, 0, offset),
            None,
            outcome,
        )

    def scan(
        self, *records: tuple[int, str], topic: str = "orders", end: int | None = None, stop: int | None = None
    ) -> Operation:
        """Read a partition to its end, or to `stop`."""
        end = len(records) if end is None else end
        value = recorded_values.Scan(topic + self._suffix, 0, 0, end if stop is None else stop, end)
        return self._done("scan", "application@1", value, records)

    def unrecorded(self) -> Operation:
        return self._done("unrecorded", "producer@1", recorded_values.Unrecorded("produce_batch"), None)

    def _done(self, function: str, client: str, value: Any, result: Any, outcome: Outcome = Outcome.OK) -> Operation:
        operation = self.history.invoke(client + self._suffix, function, value)
        if outcome is Outcome.OK:
            self.history.ok(operation, result)
        elif outcome is Outcome.FAIL:
            self.history.fail(operation, "reason")
        return operation
