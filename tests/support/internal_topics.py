"""The sizes of the internal topics of tests' nodes."""

from typing import Final

# A node makes these topics when the first group or transaction uses them. With Kafka's defaults of 50 partitions for
# each that takes longer than the start of the node. Several partitions remain, so that groups have different ones.
FEW_PARTITIONS: Final = {
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
    "share.coordinator.state.topic.num.partitions": "4",
}
