"""The share coordinator keeps the delivery state of share-partitions, in `__share_group_state` (KIP-932)."""
