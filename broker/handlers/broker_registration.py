"""BrokerRegistration (key 62): register a broker, which is fenced at first (KIP-631). Served by controllers only."""

from broker.controller_client.registrations import from_wire
from broker.handlers.response_errors import error_response
from broker.server.context import ControllerContext
from broker.server.handler import SMALL_REQUEST_BYTES_MAX, Handler
from broker.server.scheduler import Work, in_task
from broker.wire.api.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse
from broker.wire.errors import ErrorCode, KafkaError
from metadata.controller import BrokerRegistration
from metadata.protocol import AclOperation


def register_broker(context: ControllerContext, request: BrokerRegistrationRequest) -> Work[BrokerRegistrationResponse]:
    if request.is_migrating_zk_broker:
        raise KafkaError(ErrorCode.BROKER_ID_NOT_REGISTERED, "Brokers that migrate from ZooKeeper are not supported.")
    end_points, features = from_wire(request.listeners, request.features)
    epoch = yield from in_task(
        context.services.controller.register_broker(
            BrokerRegistration(
                cluster_id=request.cluster_id,
                broker_id=request.broker_id,
                incarnation_id=request.incarnation_id,
                end_points=end_points,
                features=features,
                log_dirs=request.log_dirs,
                rack=request.rack,
                previous_broker_epoch=request.previous_broker_epoch,
            )
        )
    )
    return BrokerRegistrationResponse(broker_epoch=epoch)


HANDLER = Handler(
    BrokerRegistrationRequest,
    register_broker,
    request_bytes_max=SMALL_REQUEST_BYTES_MAX,
    refused=error_response(BrokerRegistrationResponse),
    operation=AclOperation.CLUSTER_ACTION,
)
