"""The names and ids that exist on the target node, from which hostile input is made, and how to avoid harm.

All names come from small pools. Otherwise hostile input could make a node hold ever more state by legal means, and the
growth of its memory would show nothing.
"""

from typing import Final

import attrs

NODE_ID: Final = 1
# The broker that stories register with the controller. Nothing listens at its address.
FAKE_BROKER_ID: Final = 7
# The voter that stories speak for, where the quorum has one besides those that run.
PEER_VOTER_ID: Final = 3
TOPICS: Final = tuple(f"hostile-{index}" for index in range(6))
PARTITIONS: Final = 3
# Stories create and delete these.
PASSING_TOPICS: Final = tuple(f"hostile-passing-{index}" for index in range(8))
CLASSIC_GROUPS: Final = tuple(f"hostile-classic-{index}" for index in range(6))
CONSUMER_GROUPS: Final = tuple(f"hostile-consumer-{index}" for index in range(6))
GROUPS: Final = CLASSIC_GROUPS + CONSUMER_GROUPS
MEMBERS: Final = tuple(f"member-{index}" for index in range(5))
INSTANCES: Final = tuple(f"instance-{index}" for index in range(3))
FAKE_INCARNATION: Final = b"\x07" * 15 + b"\x01"
FAKE_DIRECTORY: Final = b"\x07" * 15 + b"\x02"
UNKNOWN_ID: Final = b"\x7f" * 16


@attrs.frozen
class Target:
    """`topic_ids` are those of TOPICS, in order; `directory_id` is that of the node's metadata log.

    `peer_id` is the node for which stories speak in the quorum's protocol: a voter, or the fake broker. `epoch` and
    `log_end_offset` are those of the quorum before the first story.
    """

    cluster_id: str
    peer_id: int
    epoch: int
    log_end_offset: int
    directory_id: bytes
    topic_ids: tuple[bytes, ...]
    # Versions per API key, as each listener advertises them.
    broker_apis: tuple[tuple[int, int, int], ...]
    controller_apis: tuple[tuple[int, int, int], ...]
