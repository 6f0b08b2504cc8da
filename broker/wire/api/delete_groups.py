"""DeleteGroups (key 42): delete groups without members, and their offsets (KIP-229).

Flexible from 2. Version 3 gives the reason why a group was not deleted (KIP-1331).
"""

from broker.wire.schema import field, request, response, struct


@request(key=42, versions="0-3", flexible="2+")
class DeleteGroupsRequest:
    groups_names: list[str] = field(["string"], "0+", factory=list)


@struct
class DeletableGroupResult:
    group_id: str = field("string", "0+", default="")
    error_code: int = field("int16", "0+", default=0)
    error_message: str | None = field("string", "3+", default=None, nullable="3+")


@response(key=42, versions="0-3", flexible="2+")
class DeleteGroupsResponse:
    throttle_time_ms: int = field("int32", "0+", default=0)
    results: list[DeletableGroupResult] = field([DeletableGroupResult], "0+", factory=list)
