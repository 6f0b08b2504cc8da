"""Partitions on this broker: leaders and followers, in-sync replicas, the high watermark, and waiting requests."""
