"""Partitions as this broker sees them: leadership, in-sync replicas, the high watermark, and who waits for it."""
