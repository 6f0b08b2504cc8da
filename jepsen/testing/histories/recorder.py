"""The recorder: wraps the clients of an application, so that a history has what they do and are told."""

import json
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, TypeVar, cast

from jepsen.history import Outcome
from jepsen.testing.histories.loading import names_in
from jepsen.testing.histories.recording.history_file import ClientLog, HistoryFile
from jepsen.testing.histories.recording.identities import Identity
from jepsen.testing.histories.recording.reads import ReadLog
from jepsen.testing.histories.recording.sends import SendLog

C = TypeVar("C")

_PACKAGE: Final = "jepsen.testing.histories.recording"
# The module and the class that record a client, by the client's package and class, and whether it is a producer.
_KINDS: Final[Mapping[tuple[str, str], tuple[str, str, bool]]] = {
    ("cimpl", "Producer"): ("confluent", "RecordedProducer", True),
    ("cimpl", "Consumer"): ("confluent", "RecordedConsumer", False),
    ("aiokafka", "AIOKafkaProducer"): ("aiokafka_clients", "RecordedProducer", True),
    ("aiokafka", "AIOKafkaConsumer"): ("aiokafka_clients", "RecordedConsumer", False),
    ("kafka", "KafkaProducer"): ("kafka_python", "RecordedProducer", True),
    ("kafka", "KafkaConsumer"): ("kafka_python", "RecordedConsumer", False),
    ("broker", "Producer"): ("kraft_producers", "RecordedProducer", True),
    ("broker", "SyncProducer"): ("kraft_producers", "RecordedSyncProducer", True),
    ("broker", "Consumer"): ("kraft_consumers", "RecordedConsumer", False),
    ("broker", "SyncConsumer"): ("kraft_consumers", "RecordedSyncConsumer", False),
    ("broker", "AsyncioProducer"): ("kraft_asyncio", "RecordedProducer", True),
    ("broker", "AsyncioConsumer"): ("kraft_asyncio", "RecordedConsumer", False),
}


class Recorder:
    """Records what the clients of this process do into a file of `directory`. Several processes share a directory.

        recorder = Recorder("history")
        producer = recorder.wrap(Producer(config))

    By default a record is known by its key and value. `identity` names it otherwise, from a record as the application
    sends it, before its serializers, and as it receives it, after its deserializers: the number of an order, for
    example. All processes need the same one. Raises OSError.
    """

    def __init__(self, directory: str | PathLike[str], *, identity: Identity | None = None) -> None:
        self.directory = Path(directory)
        self._identity = identity
        self._file = HistoryFile(self.directory)
        self._groups: dict[str, None] = {}
        self._own = threading.local()

    def wrap(
        self,
        client: C,
        *,
        name: str | None = None,
        group: str | None = None,
        on_delivery: Callable[[Any, Any], object] | None = None,
    ) -> C:
        """Return an object with the methods of `client`, whose calls are recorded and go to it.

        Wrap a client before it is started and used. `name` is its name in the history, by default producer or consumer.
        `group` is the group of a consumer whose group id cannot be read from it. `on_delivery` is the callback of a
        confluent-kafka producer that its configuration has. Raises TypeError for a client of another kind.
        """
        module_name, class_name, is_producer = _kind_of(client)
        module = import_module(f"{_PACKAGE}.{module_name}")
        log = ClientLog(self._file, name or ("producer" if is_producer else "consumer"))
        wrapper: Any = getattr(module, class_name)
        if not is_producer:
            group = module.group_of(client) if group is None else group
            if group:
                self._groups[group] = None
            return cast(C, wrapper(client, ReadLog(log, group, self._identity)))
        task = threading.get_ident if "Sync" in class_name else getattr(module, "current_task", threading.get_ident)
        abortable = getattr(module, "is_abortable", lambda error: False)
        sends = SendLog(log, self._identity, task, abortable)
        arguments = (on_delivery,) if module_name == "confluent" else ()
        return cast(C, wrapper(client, sends, *arguments))

    @contextmanager
    def processing(self, record: Any, *, group: str | None = None) -> Iterator[None]:
        """A block that works on a record which a consumer of `group` has received.

        With such blocks, "nothing lost" means that each record is processed, and "nothing twice" that none is
        processed twice. A record whose block raises counts as one that may have been processed. `group` may be left out
        if this process has one consumer group. Raises ValueError.
        """
        topic, partition, offset = _place_of(record)
        value = {"group": self._group(group), "topic": topic, "partition": partition, "offset": offset}
        log = self._log()
        serial = log.invoke("process", json.dumps(value))
        try:
            yield
        except BaseException as error:
            log.complete(serial, Outcome.INFO, "process", json.dumps(str(error)[:500]))
            raise
        log.complete(serial, Outcome.OK, "process", "null")

    def processed(self, record: Any, *, group: str | None = None) -> None:
        """Record that a record was processed; see `processing`."""
        with self.processing(record, group=group):
            pass

    def read_to_end(
        self,
        config: str | Mapping[str, Any],
        topics: Iterable[str] | None = None,
        groups: Iterable[str] | None = None,
        *,
        timeout_s: float = 60.0,
    ) -> None:
        """Record all committed records of topics, and the committed offsets of groups, when the application is done.

        Most promises can only be decided with such a read. `config` is an address, or the configuration of this
        package's clients (`docs/client.md`). By default, the topics and groups are those that the files of the
        directory name. Raises TimeoutError, and the errors of the client library.
        """
        from jepsen.testing.histories.recording.final_reads import read_groups, read_topics

        given = {"bootstrap.servers": config} if isinstance(config, str) else dict(config)
        named = names_in(self.directory) if topics is None or groups is None else None
        wanted = sorted(named.topics if topics is None and named is not None else topics or ())
        # Commits that come after the reads of the output would be no evidence that an output is missing.
        read_groups(self._log(), given, sorted(named.groups if groups is None and named is not None else groups or ()))
        read_topics(self._log(), given, wanted, self._identity, timeout_s)

    def close(self) -> None:
        """Close the file of this process. Later calls of its clients are not recorded."""
        self._file.close()

    def now(self) -> float:
        """The time of the history, in seconds since the first process began to record into the directory."""
        return self._file.now_ns() / 1_000_000_000

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _log(self) -> ClientLog:
        """The operations of this thread, which belong to no client."""
        if not hasattr(self._own, "log"):
            self._own.log = ClientLog(self._file, "application")
        log: ClientLog = self._own.log
        return log

    def _group(self, group: str | None) -> str:
        if group is not None:
            return group
        if len(self._groups) != 1:
            raise ValueError(f"group= is needed: this process has consumers of {len(self._groups)} groups")
        return next(iter(self._groups))


def _kind_of(client: object) -> tuple[str, str, bool]:
    for cls in type(client).__mro__:
        kind = _KINDS.get((cls.__module__.partition(".")[0], cls.__name__))
        if kind is not None:
            return kind
    libraries = "confluent-kafka, aiokafka, kafka-python or broker.client"
    name = type(client).__name__
    if "ShareConsumer" in name:
        raise TypeError(f"{name} is not recorded: histories have no share groups (KIP-932)")
    raise TypeError(f"{name} is no producer or consumer of {libraries}")


def _place_of(record: Any) -> tuple[str, int, int]:
    """Topic, partition and offset, which confluent-kafka's messages have as methods. Raises ValueError."""
    parts = [getattr(record, name, None) for name in ("topic", "partition", "offset")]
    topic, partition, offset = (part() if callable(part) else part for part in parts)
    if not isinstance(topic, str) or type(partition) is not int or type(offset) is not int:
        raise ValueError(f"{record!r} is no record that a consumer has received")
    return topic, partition, offset
