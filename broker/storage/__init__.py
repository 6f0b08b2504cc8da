"""Partitions on disk, in Kafka's own formats: logs and their indexes, producer state, leader epochs, log directories.

`LogDirs` holds all logs of a node, `Log` is one partition's, `Housekeeping` does the periodic work on them.
"""
