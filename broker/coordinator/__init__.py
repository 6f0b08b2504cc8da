"""Coordinators: state machines over the partitions of an internal topic, each run by the broker that leads the
partition.
"""
