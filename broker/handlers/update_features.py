"""UpdateFeatures (key 57): raise or lower the cluster's feature levels, all of the request or none (KIP-584)."""

from typing import Final

from broker.handlers.response_errors import code_of, message_of
from broker.server.context import ControllerContext
from broker.server.handler import SMALL_REQUEST_BYTES_MAX, Handler
from broker.server.scheduler import Work, in_task
from broker.wire.api.update_features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from broker.wire.errors import ErrorCode, KafkaError
from metadata.controller import FeatureUpdate
from metadata.protocol import AclOperation, UpgradeType

_UPGRADE_TYPE_FROM: Final = 1
_RESULTS_UNTIL: Final = 1
_NONE_UPDATED: Final = "The update failed for all features since the following feature had an error: "


def update_features(context: ControllerContext, request: UpdateFeaturesRequest) -> Work[UpdateFeaturesResponse]:
    updates = {update.feature: _update(context, update) for update in request.feature_updates}  # the last one counts
    services = context.services
    voters = [voter.node_id for voter in services.quorum.describe().voters.voters]
    yield from in_task(
        services.controller.update_features(
            list(updates.values()), voters, validate_only=request.validate_only, context=context
        )
    )
    results = [UpdatableFeatureResult(feature=name, error_message=None) for name in updates]
    return UpdateFeaturesResponse(error_message=None, results=results if context.api_version <= _RESULTS_UNTIL else [])


def refused(context: ControllerContext, request: UpdateFeaturesRequest, error: KafkaError) -> UpdateFeaturesResponse:
    message = message_of(error)
    if error.code is ErrorCode.INVALID_UPDATE_VERSION:
        message = _NONE_UPDATED + error.message
    return UpdateFeaturesResponse(error_code=code_of(error), error_message=message)


def _update(context: ControllerContext, update: FeatureUpdateKey) -> FeatureUpdate:
    upgrade_type = update.upgrade_type
    if context.api_version < _UPGRADE_TYPE_FROM:
        upgrade_type = UpgradeType.SAFE_DOWNGRADE if update.allow_downgrade else UpgradeType.UPGRADE
    return FeatureUpdate(update.feature, update.max_version_level, upgrade_type)


HANDLER = Handler(
    UpdateFeaturesRequest,
    update_features,
    request_bytes_max=SMALL_REQUEST_BYTES_MAX,
    refused=refused,
    operation=AclOperation.ALTER,
    forwarded=True,
)
