"""ApiVersions (key 18): the APIs and versions that this node serves, and the cluster's features (KIP-35, KIP-584).

It is the first request of every client. A version that this node does not know is answered with UNSUPPORTED_VERSION in
a response of version 0. That lists the supported versions of ApiVersions, so that the client can retry with one of them
(KIP-511); see `Dispatcher`. Responses up to version 3 leave out features whose lowest version is 0, because clients of
these versions fail on them (KAFKA-17011).

A client that knows the cluster and names a broker of it is told by REBOOTSTRAP_REQUIRED that it has reached another
one, because addresses were given to other nodes since (KIP-1242). As in Kafka, controllers do not check this, and
brokers check it only for authenticated clients.
"""

import re
from typing import Final

from broker.server.context import BrokerContext, Context
from broker.server.handler import SMALL_REQUEST_BYTES_MAX, Handler
from broker.server.services import NodeServices
from broker.wire.api.api_versions import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from broker.wire.errors import ErrorCode
from metadata.controller import SUPPORTED_FEATURES

_SOFTWARE_FROM: Final = 3
_ZERO_FEATURES_FROM: Final = 4
_NO_NODE: Final = -1
_SOFTWARE: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


def broker_api_versions(context: BrokerContext, request: ApiVersionsRequest) -> ApiVersionsResponse:
    if _is_valid(context, request) and context.session.is_authenticated and _is_misrouted(context, request):
        return ApiVersionsResponse(error_code=ErrorCode.REBOOTSTRAP_REQUIRED)
    return api_versions(context, request)


def _is_valid(context: Context[NodeServices], request: ApiVersionsRequest) -> bool:
    """False for a client that names only one of cluster and node, or for a name that is none of a client's software."""
    if (request.cluster_id is None) != (request.node_id == _NO_NODE):
        return False
    software = (request.client_software_name, request.client_software_version)
    return context.api_version < _SOFTWARE_FROM or all(map(_SOFTWARE.fullmatch, software))


def _is_misrouted(context: BrokerContext, request: ApiVersionsRequest) -> bool:
    """True if the client means another node than this one (KIP-1242)."""
    services = context.services
    own = (services.cluster_id, services.config.node_id)
    return request.cluster_id is not None and (request.cluster_id, request.node_id) != own


def api_versions(context: Context[NodeServices], request: ApiVersionsRequest) -> ApiVersionsResponse:
    if not _is_valid(context, request):
        return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
    if context.api_version >= _SOFTWARE_FROM:
        context.session.client_software = (request.client_software_name, request.client_software_version)
    image = context.services.loader.image
    return ApiVersionsResponse(
        api_keys=context.server.advertised,
        supported_features=[
            SupportedFeatureKey(name=name, min_version=lowest, max_version=highest)
            for name, (lowest, highest) in SUPPORTED_FEATURES.items()
            if lowest > 0 or context.api_version >= _ZERO_FEATURES_FROM
        ],
        finalized_features_epoch=image.offset,
        finalized_features=[
            FinalizedFeatureKey(name=name, min_version_level=level, max_version_level=level)
            for name, level in image.features.items()
            if name in SUPPORTED_FEATURES
        ],
    )


HANDLER = Handler(ApiVersionsRequest, broker_api_versions, request_bytes_max=SMALL_REQUEST_BYTES_MAX)
CONTROLLER_HANDLER = Handler(ApiVersionsRequest, api_versions, request_bytes_max=SMALL_REQUEST_BYTES_MAX)
