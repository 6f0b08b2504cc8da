"""The leader of share-partitions: the delivery of a partition's records to share groups (KIP-932)."""
