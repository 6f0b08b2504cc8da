"""Partitions on disk, in Kafka's formats: logs and indexes, producer states, leader epochs, log directories.

`LogManager` holds all logs of a node, `Log` is one partition's log, `Housekeeping` does the periodic work on them.
"""
