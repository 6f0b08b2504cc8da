"""The sends of a recorded producer."""

import json
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, Final

from jepsen.history import Outcome
from jepsen.testing.histories.recording.history_file import ClientLog
from jepsen.testing.histories.recording.identities import Identity, RecordView, name_of_content, name_of_record
from jepsen.testing.histories.recording.transactions import OpenTransaction, TransactionLog

# Kafka's errors after which a record is certainly not written, by any attempt: CORRUPT_MESSAGE is not among them,
# as a later attempt may get it although an earlier one was written. MESSAGE_TOO_LARGE, RECORD_LIST_TOO_LARGE,
# INVALID_RECORD; of librdkafka, an unknown partition.
_REFUSED: Final = frozenset({10, 18, 87, -190})

_PARTITION_MAX: Final = 2**31 - 1

_text = json.encoder.encode_basestring_ascii


class RecordedSend:
    """A record that was handed to a producer. Its outcome is unknown until one of the methods is called."""

    __slots__ = ("_sends", "_serial", "_transaction")

    def __init__(self, sends: "SendLog", serial: int, transaction: OpenTransaction | None) -> None:
        self._sends, self._serial, self._transaction = sends, serial, transaction

    def written(self, partition: int, offset: int | None) -> None:
        """The brokers have acknowledged it. Without an offset, as with acks=0, nothing is known."""
        if offset is None or offset < 0:
            self.unknown("acknowledged without an offset")
        elif self._transaction is not None:
            result = f"[{partition},{offset}]"
            self._sends.transactions.ended(self._transaction, self._serial, "send", result)
        else:
            self._sends.log.complete(self._serial, Outcome.OK, "send", f"[{partition},{offset}]")

    def failed(self, error: object, code: object) -> None:
        """The producer has given it up. An earlier attempt may have written it, unless the error excludes that."""
        if code in _REFUSED:
            self._sends.log.complete(self._serial, Outcome.FAIL, "send", _reason(error))
        elif self._transaction is not None:
            self._sends.transactions.ended(self._transaction, self._serial, "send", None)
        else:
            self.unknown(error)

    def refused(self, error: BaseException) -> None:
        """The producer did not take it. An interrupt may have come after it was taken."""
        if isinstance(error, KeyboardInterrupt | SystemExit):
            return
        self._sends.log.complete(self._serial, Outcome.FAIL, "send", _reason(error))

    def unknown(self, reason: object) -> None:
        self._sends.log.complete(self._serial, Outcome.INFO, "send", _reason(reason))


class SendLog:
    """Records the sends of one producer.

    Records of a key are in the order of their sends within a thread or a task: `task` returns a number for the task
    that sends.
    """

    def __init__(
        self,
        log: ClientLog,
        identity: Identity | None,
        task: Callable[[], int],
        is_abortable: Callable[[BaseException], bool] = lambda error: False,
    ) -> None:
        self.log = log
        self.transactions = TransactionLog(log, is_abortable)
        self._identity = identity
        self._task = task

    def begin(
        self, topic: str, value: Any, key: Any, partition: int | None = None, headers: Any = None
    ) -> RecordedSend:
        """Record that a record is handed to the producer."""
        name = name_of_record(RecordView(topic, key, value, headers), self._identity)
        session = "" if key is None else f"{self._task()}/{name_of_content(key)}"
        transaction = self.transactions.open
        # The client refuses any other, or chooses one.
        place = partition if type(partition) is int and 0 <= partition <= _PARTITION_MAX else -1
        content = (
            f'{{"topic":{_text(str(topic))},"partition":{place},"session":{_text(session)},"sequence":0,'
            f'"values":[{_text(name)}]'
        )
        content += "}" if transaction is None else f',"transaction":{_text(transaction.name)}}}'
        return RecordedSend(self, self.log.invoke("send", content), transaction)

    def begin_offsets(self, group: str, offsets: Iterable[tuple[str, int, int]]) -> "RecordedOffsets":
        """Record that offsets of a group are handed to the transaction."""
        return RecordedOffsets(self, group, list(offsets))

    def unrecorded(self, method: str) -> None:
        """Record that a method sends records which are not in the history."""
        self.log.record(self.log.file.now_ns(), "unrecorded", json.dumps({"method": method}))


class RecordedOffsets:
    """Offsets that are committed with a transaction. As a block, it records the call that hands them over."""

    def __init__(self, sends: SendLog, group: str, offsets: list[tuple[str, int, int]]) -> None:
        self._sends = sends
        self._transaction = sends.transactions.open
        value = {"group": group, "member": sends.log.name, "generation": -1, "offsets": offsets}
        self._serial = sends.log.invoke("commit", json.dumps(value))

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if error is not None:
            self._sends.log.complete(self._serial, Outcome.INFO, "commit", _reason(error))
        elif self._transaction is not None:
            self._sends.transactions.ended(self._transaction, self._serial, "commit", "null")


def _reason(error: object) -> str:
    text = str(error) or type(error).__name__
    return json.dumps(text[:500])


def code_of(error: object) -> object:
    """The code of Kafka's error in an exception of any client; None if it has none."""
    for name in ("errno", "code"):
        found = getattr(error, name, None)
        with suppress(Exception):
            return int(found() if callable(found) else found)  # type: ignore[arg-type]
    return None
