"""Partitions on this broker: leaders and followers, in-sync replicas, the high watermark, and waiting requests.

`transitions` has the roles of a replica. `partition_role` has the operations of each role.
"""
