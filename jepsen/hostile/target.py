"""The names and ids that exist on the target node, used to make hostile input without doing harm.

All names come from small pools. Otherwise hostile input could legitimately make a node store more and more, and its
growing memory would prove nothing.
"""

from typing import Final

import attrs

NODE_ID: Final = 1
# The id of the broker that stories register with the controller. Nothing listens at its address.
FAKE_BROKER_ID: Final = 7
# The id of the voter that stories claim to be, if the quorum has one besides the running ones.
PEER_VOTER_ID: Final = 3
TOPICS: Final = tuple(f"hostile-{index}" for index in range(6))
PARTITIONS: Final = 3
# Topics that stories create and delete.
PASSING_TOPICS: Final = tuple(f"hostile-passing-{index}" for index in range(8))
CLASSIC_GROUPS: Final = tuple(f"hostile-classic-{index}" for index in range(6))
CONSUMER_GROUPS: Final = tuple(f"hostile-consumer-{index}" for index in range(6))
GROUPS: Final = CLASSIC_GROUPS + CONSUMER_GROUPS
MEMBERS: Final = tuple(f"member-{index}" for index in range(5))
INSTANCES: Final = tuple(f"instance-{index}" for index in range(3))
FAKE_INCARNATION: Final = b"\x07" * 15 + b"\x01"
FAKE_DIRECTORY: Final = b"\x07" * 15 + b"\x02"
UNKNOWN_ID: Final = b"\x7f" * 16
# A super user, who has a password of PLAIN; a user without rights, who has credentials of SCRAM; the user of tokens.
SUPER_USER: Final = "hostile-super"
SUPER_PASSWORD: Final = "super-secret"
SCRAM_USER: Final = "hostile-scram"
SCRAM_PASSWORD: Final = "scram-secret"
TOKEN_USER: Final = "hostile-token"
# The healthy client's, with credentials of SCRAM. No story changes them.
HEALTHY_USER: Final = "healthy"
HEALTHY_PASSWORD: Final = "healthy-secret"
# Users whose credentials stories create, change and delete.
PASSING_USERS: Final = tuple(f"hostile-user-{index}" for index in range(6))


@attrs.frozen
class Target:
    """The target node. `topic_ids` are those of TOPICS, in order; `directory_id` is that of the node's metadata log.

    `peer_id` is the node in whose name stories use the quorum's protocol: a voter, or the fake broker. `epoch` and
    `log_end_offset` are those of the quorum before the first story.
    """

    cluster_id: str
    peer_id: int
    epoch: int
    log_end_offset: int
    directory_id: bytes
    topic_ids: tuple[bytes, ...]
    # The key, first and last version of each API that each listener advertises.
    broker_apis: tuple[tuple[int, int, int], ...]
    controller_apis: tuple[tuple[int, int, int], ...]
    sasl_apis: tuple[tuple[int, int, int], ...]
