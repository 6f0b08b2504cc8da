"""Runs coordinators: decide, append to a partition, replay, answer when committed; load and unload with leadership.

The runtime knows no kind of coordinator. `shard.py` defines the interface between a coordinator's state and the
runtime.
"""
