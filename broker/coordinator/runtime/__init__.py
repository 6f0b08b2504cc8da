"""Runs coordinators: decide, append to a partition, replay, answer when committed; load and unload with leadership.

Knows no kind of coordinator: `shard.py` has the interface between a coordinator's state and the runtime.
"""
