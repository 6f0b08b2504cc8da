"""Short notation for histories of transactions that checkers judge."""

from jepsen.history import Operation
from jepsen.values import Decision, Polling, Sending, Transaction, TransactionPoll
from tests.support.sample_history import SampleHistory


class SampleTransactionHistory(SampleHistory):
    """Transactions write one value to each of the partitions 0 and 1 of the topic "q"."""

    def begins(self, name: str, indexes: tuple[int, ...] = (0, 1), transactional_id: str = "") -> Operation:
        """A transaction that writes the values "<name>/<index>". By default, each one has its own transactional id."""
        return self.writes(name, *((index, f"{name}/{index}") for index in indexes), transactional_id=transactional_id)

    def writes(self, name: str, *records: tuple[int, str], transactional_id: str = "") -> Operation:
        """A transaction that writes these values to partitions."""
        for index, value in records:
            self.invoke("p", "send", Sending("q", index, "", 0, (value,)))
        written = tuple(("q", index, (value,)) for index, value in records)
        return self.did("transact", Transaction(transactional_id or name, name, written), None)

    def decides(self, name: str, *, commit: bool) -> Operation:
        """A decision with an unknown outcome."""
        self.time += 1
        return self.invoke("p", "end-transaction", Decision(name, commit))

    def commits(self, name: str) -> None:
        decision = self.decides(name, commit=True)
        self.time += 1
        self.ok(decision, None)

    def aborts(self, name: str) -> None:
        self.ok(self.decides(name, commit=False), None)

    def polls(self, index: int, offset: int, *records: tuple[int, str], client: str = "r") -> None:
        self.time += 1
        self.ok(self.invoke(client, "poll", Polling("q", index, offset)), records)

    def polls_in(
        self, name: str, index: int, *records: tuple[int, str], position: int = -1, group: str = "", client: str = "m"
    ) -> None:
        """A poll within the transaction of this name."""
        self.time += 1
        value = TransactionPoll(name, group, "q", index, position)
        self.ok(self.invoke(client, "poll-transaction", value), records)
        self.time += 1

    def ends_with(self, index: int, *values: str) -> None:
        """A marker follows each record."""
        self.did("final-read", ("q", index), tuple((2 * at, value) for at, value in enumerate(values)))
