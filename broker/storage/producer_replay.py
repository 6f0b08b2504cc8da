"""Telling a partition's producer state of what is in its log: batch by batch, or from an offset on."""

from collections.abc import Sequence

from broker.storage.batch_scan import scan_headers
from broker.storage.producer_state import ProducerStates
from broker.storage.segment import Segment
from broker.wire.records import BatchHeader, iter_records, read_end_transaction_marker
from broker.wire.records.batch import Buffer


def replay(producers: ProducerStates, segments: Sequence[Segment], offset: int) -> None:
    """Tell `producers` of every batch from `offset` on. Raises WireError for a marker that is none, OSError."""
    for segment in segments:
        found = segment.find(offset)
        if found is not None:
            for position, header in scan_headers(segment.file, found.position, segment.written):
                if header.producer_id >= 0:
                    batch = segment.file.read(position, header.size) if header.is_control else b""
                    observe(producers, header, batch)


def observe(producers: ProducerStates, header: BatchHeader, batch: Buffer) -> None:
    """Tell `producers` of a batch with a producer id that is in the log; only of a control batch the bytes matter.

    Raises WireError for a marker that is none.
    """
    if not header.is_control:
        producers.update(header)
        return
    for record in iter_records(batch, 0, header):
        marker = read_end_transaction_marker(record)
        if marker is not None:
            completed = producers.end_transaction(
                header,
                coordinator_epoch=marker.coordinator_epoch,
                aborted=not marker.is_commit,
                timestamp=record.timestamp,
            )
            if completed is not None:
                producers.complete(completed)
