"""ApiVersions (key 18): which APIs, versions and features a node has; a client's first request.

Flexible from 3, but its response header never is, and a request of an unknown version is answered in version 0
(KIP-511): a client must understand the answer before it knows what the node speaks. Notable versions:
    3  the client's software name and version; supported and finalized features (KIP-584)
    4  features whose lowest version is 0 are listed too (KAFKA-17011)
    5  the cluster and the node that the client means to reach (KIP-1242)
"""

from broker.wire.errors import ErrorCode
from broker.wire.schema import field, request, response, struct


@request(key=18, versions="0-5", flexible="3+")
class ApiVersionsRequest:
    """`cluster_id` and `node_id` are those that the client expects, and are given together; None and -1 if unknown."""

    client_software_name: str = field("string", "3+", default="")
    client_software_version: str = field("string", "3+", default="")
    cluster_id: str | None = field("string", "5+", default=None, nullable="5+")
    node_id: int = field("int32", "5+", default=-1)


@struct
class ApiVersion:
    """One API and the versions served, both ends included."""

    api_key: int = field("int16", "0+", default=0)
    min_version: int = field("int16", "0+", default=0)
    max_version: int = field("int16", "0+", default=0)


@struct
class SupportedFeatureKey:
    name: str = field("string", "3+", default="")
    min_version: int = field("int16", "3+", default=0)
    max_version: int = field("int16", "3+", default=0)


@struct
class FinalizedFeatureKey:
    name: str = field("string", "3+", default="")
    max_version_level: int = field("int16", "3+", default=0)
    min_version_level: int = field("int16", "3+", default=0)


@response(key=18, versions="0-5", flexible="3+")
class ApiVersionsResponse:
    error_code: int = field("int16", "0+", default=0)
    api_keys: list[ApiVersion] = field([ApiVersion], "0+", factory=list)
    throttle_time_ms: int = field("int32", "1+", default=0)
    supported_features: list[SupportedFeatureKey] = field([SupportedFeatureKey], "3+", factory=list, tag=0, tagged="3+")
    finalized_features_epoch: int = field("int64", "3+", default=-1, tag=1, tagged="3+")
    finalized_features: list[FinalizedFeatureKey] = field([FinalizedFeatureKey], "3+", factory=list, tag=2, tagged="3+")
    zk_migration_ready: bool = field("bool", "3+", default=False, tag=3, tagged="3+")


def unsupported_version_response(min_version: int, max_version: int) -> ApiVersionsResponse:
    """The answer to a request in a version the node does not know; it is to be encoded in version 0 (KIP-511).

    `min_version` and `max_version` are those of ApiVersions itself, so that the client can ask again.
    """
    return ApiVersionsResponse(
        error_code=ErrorCode.UNSUPPORTED_VERSION,
        api_keys=[ApiVersion(api_key=18, min_version=min_version, max_version=max_version)],
    )
