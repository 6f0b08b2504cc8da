"""ListGroups (key 16): the groups that this broker coordinates.

Flexible from 3. Notable versions:
    4  only those in certain states (KIP-518)
    5  only those of certain types (KIP-848)
"""

from broker.wire.schema import field, request, response, struct


@request(key=16, versions="0-5", flexible="3+")
class ListGroupsRequest:
    """Empty filters match all groups."""

    states_filter: list[str] = field(["string"], "4+", factory=list)
    types_filter: list[str] = field(["string"], "5+", factory=list)


@struct
class ListedGroup:
    group_id: str = field("string", "0+", default="")
    protocol_type: str = field("string", "0+", default="")
    group_state: str = field("string", "4+", default="")
    group_type: str = field("string", "5+", default="")


@response(key=16, versions="0-5", flexible="3+")
class ListGroupsResponse:
    throttle_time_ms: int = field("int32", "1+", default=0)
    error_code: int = field("int16", "0+", default=0)
    groups: list[ListedGroup] = field([ListedGroup], "0+", factory=list)
