"""Reads the committed records of a topic, once no transaction is open there."""

import time

from broker.client import OffsetSpec, SyncAdmin, SyncConsumer, TopicPartition

_WAIT_S = 60.0


def committed_values(bootstrap: str, topic: str) -> list[bytes]:
    """The values of all partitions, sorted. Fails unless all transactions end within a minute."""
    deadline = time.monotonic() + _WAIT_S
    with (
        SyncAdmin(bootstrap) as admin,
        SyncConsumer(bootstrap, isolation_level="read_committed", auto_offset_reset="earliest") as consumer,
    ):
        partitions = [TopicPartition(topic, each.partition) for each in consumer.partitions_for(topic)]
        consumer.assign(partitions)
        latest = admin.list_offsets(dict.fromkeys(partitions, OffsetSpec.LATEST)).raise_first()
        ends = {partition: found.offset for partition, found in latest.items() if found is not None}
        values = []
        while any(consumer.position(each) < ends[each] for each in partitions):
            assert time.monotonic() < deadline, f"a transaction in {topic} is still open"
            values += [record.value or b"" for record in consumer.fetch(max_records=10_000, timeout_s=0.2)]
    return sorted(values)
