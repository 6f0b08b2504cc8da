"""The identity under which offsets are committed: a member with its generation or epoch, or a consumer outside the
group.
"""

from typing import Final, NamedTuple

from broker.client.types import Int32

NO_EPOCH: Final = -1


class GroupMetadata(NamedTuple):
    """A consumer's place in its group, as transactions need it to commit offsets (ConsumerGroupMetadata.java).

    `generation_id` is the member epoch in a group of the consumer protocol; -1 and "" for a consumer that is no member.
    """

    group_id: str
    generation_id: Int32 = NO_EPOCH
    member_id: str = ""
    group_instance_id: str | None = None
