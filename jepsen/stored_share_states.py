"""Decodes what share coordinators have written to `__share_group_state`, for the histories of both kinds of runs."""

from collections.abc import Iterator, Mapping

from broker.coordinator.share.record_formats import ShareSnapshot, decode_key, decode_snapshot, decode_update
from broker.wire.records import iter_headers, iter_records
from jepsen.share_values import StoredWrite


def stored_writes(content: bytes | memoryview, offset: int, topics: Mapping[bytes, str]) -> Iterator[StoredWrite]:
    """The writes in record batches from `offset` on. `topics` maps the ids of topics to their names.

    Deletions, and writes about other topics, are left out. Raises WireError.
    """
    for at, header in iter_headers(content):
        for record in iter_records(content, at, header):
            decoded = None if record.offset < offset or record.key is None else decode_key(record.key)
            if decoded is None or record.value is None:
                continue
            kind, key = decoded
            if key.topic_id in topics:
                write = decode_snapshot(record.value) if kind is ShareSnapshot else decode_update(record.value)
                batches = tuple(
                    (batch.first_offset, batch.last_offset, batch.delivery_state, batch.delivery_count)
                    for batch in write.batches
                )
                yield key.group_id, topics[key.topic_id], key.partition, write.start_offset, batches
