"""The node that responses name as the controller."""

from typing import Final

from broker.server.context import BrokerContext

NO_CONTROLLER: Final = -1


def active_controller(context: BrokerContext) -> int:
    """The active controller if clients can reach it, otherwise any broker, which forwards requests to the controller.

    Kafka names a random broker, since its controllers are mostly nodes of their own (KIP-590).
    """
    services = context.services
    brokers = services.loader.image.cluster.brokers
    for node_id in (services.quorum.leadership.leader_id, services.config.node_id, *brokers):
        broker = None if node_id is None else brokers.get(node_id)
        if broker is not None and not broker.fenced and context.listener in broker.end_points:
            return broker.broker_id
    return NO_CONTROLLER
