"""Reads topics to their ends for the checkers, and the offsets that groups have committed."""

import json
import time
from collections.abc import Iterable, Mapping
from typing import Any, Final

from broker.client import ConsumerRecord, OffsetSpec, SyncAdmin, SyncConsumer, TopicPartition
from jepsen.testing.histories.recording.history_file import ClientLog
from jepsen.testing.histories.recording.identities import Identity, RecordView, name_of_record

# The records of one operation: a checker with little memory reads the history of a large topic.
_RECORDS_MAX: Final = 2_000
_FETCH_S: Final = 0.2


def read_topics(
    log: ClientLog, config: Mapping[str, Any], topics: Iterable[str], identity: Identity | None, timeout_s: float
) -> None:
    """Record all committed records of the topics. Raises TimeoutError, and the errors of the client library."""
    settings = {"isolation.level": "read_committed", "enable.auto.commit": "false"}
    with SyncAdmin(config=config) as admin, SyncConsumer(config={**config, **settings}) as consumer:
        partitions = [
            TopicPartition(topic, each.partition) for topic in topics for each in consumer.partitions_for(topic)
        ]
        if not partitions:
            return
        found = admin.list_offsets(dict.fromkeys(partitions, OffsetSpec.LATEST)).raise_first()
        log_ends = {each: place.offset for each, place in found.items() if place is not None}
        starts, stops = consumer.beginning_offsets(partitions), consumer.end_offsets(partitions)
        consumer.assign(partitions)
        consumer.seek_to_beginning()
        scans = {each: _Scan(log, each, starts[each], stops[each], log_ends[each], identity) for each in partitions}
        _read(consumer, scans, time.monotonic() + timeout_s)


def read_groups(log: ClientLog, config: Mapping[str, Any], groups: Iterable[str]) -> None:
    """Record the offsets that groups have committed. Raises the errors of the client library."""
    with SyncAdmin(config=config) as admin:
        for group in groups:
            began_ns = log.file.now_ns()
            found = admin.list_group_offsets({group: None}).value(group).succeeded
            offsets = sorted((*each, place.offset) for each, place in found.items() if place is not None)
            asked = {"group": group, "member": "", "partitions": [each[:2] for each in offsets]}
            log.record(began_ns, "fetch-committed", json.dumps(asked), json.dumps(offsets))


class _Scan:
    """The read of one partition, which is recorded in parts."""

    def __init__(
        self,
        log: ClientLog,
        partition: TopicPartition,
        start: int,
        stop: int,
        log_end: int,
        identity: Identity | None,
    ) -> None:
        self._log, self._partition, self._identity = log, partition, identity
        self._start, self._stop, self._log_end = start, stop, log_end
        self._records: list[tuple[int, str]] = []
        self._began_ns = log.file.now_ns()
        self.is_done = False
        self.reach(start)

    def add(self, record: ConsumerRecord[Any, Any]) -> None:
        if record.offset < self._stop and not self.is_done:
            view = RecordView(record.topic, record.key, record.value, record.headers)
            self._records.append((record.offset, name_of_record(view, self._identity)))
            if len(self._records) == _RECORDS_MAX:
                self._record(record.offset + 1)
        self.reach(record.offset + 1)

    def reach(self, position: int) -> None:
        """Record the last part if the position is at the end."""
        if position >= self._stop and not self.is_done:
            self.is_done = True
            self._record(self._stop)

    def _record(self, stop: int) -> None:
        topic, partition = self._partition
        value = {"topic": topic, "partition": partition, "start": self._start, "stop": stop, "log_end": self._log_end}
        self._log.record(self._began_ns, "scan", json.dumps(value), json.dumps(self._records))
        self._records, self._start = [], stop


def _read(consumer: "SyncConsumer[Any, Any]", scans: Mapping[TopicPartition, _Scan], deadline: float) -> None:
    while pending := [each for each, scan in scans.items() if not scan.is_done]:
        if time.monotonic() > deadline:
            raise TimeoutError(f"{pending[0]} was not read to its end in time")
        records = consumer.fetch(timeout_s=_FETCH_S)
        for record in records:
            scans[TopicPartition(record.topic, record.partition)].add(record)
        if not records:
            for partition in pending:
                scans[partition].reach(consumer.position(partition))
