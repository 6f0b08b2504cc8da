"""DeleteGroups (key 42): delete groups without members, and their offsets (KIP-229). Flexible from 2."""

from broker.wire.schema import field, request, response, struct


@request(key=42, versions="0-2", flexible="2+")
class DeleteGroupsRequest:
    groups_names: list[str] = field(["string"], "0+", factory=list)


@struct
class DeletableGroupResult:
    group_id: str = field("string", "0+", default="")
    error_code: int = field("int16", "0+", default=0)


@response(key=42, versions="0-2", flexible="2+")
class DeleteGroupsResponse:
    throttle_time_ms: int = field("int32", "0+", default=0)
    results: list[DeletableGroupResult] = field([DeletableGroupResult], "0+", factory=list)
