"""The clients of each `SpecialLoad`."""

from collections.abc import Callable, Sequence

import attrs

from jepsen.history import History
from jepsen.simulation.simulation import Simulation
from jepsen.simulation.subjects.load import SpecialLoad
from jepsen.simulation.subjects.node_plan import KAFKA_PORT
from jepsen.simulation.subjects.node_security import SASL_PORT
from jepsen.simulation.subjects.quotas import QuotaClients, quota_topics
from jepsen.simulation.subjects.security import SecurityClients, security_topics
from jepsen.simulation.subjects.shares import ShareClients, share_topics
from jepsen.simulation.subjects.subject import SpecialClients
from jepsen.simulation.subjects.transactions import TransactionalClients, transactional_topics
from jepsen.workloads.client import Client


def special_clients(
    special: SpecialLoad,
    simulation: Simulation,
    brokers: Sequence[str],
    client_at: Callable[..., Client],
    address_of: Callable[[Client], str],
) -> SpecialClients:
    """The clients, with histories of their own, for brokers of these names.

    `client_at` returns a client by its name and the `port` of the servers. `address_of` is that of a client's machine.
    """
    history, other = (History(simulation.clock.current_time, simulation.trace.operation) for _ in range(2))
    rng = simulation.rng(special.value)

    def client_for(name: str, *, is_secured: bool = False) -> Client:
        return attrs.evolve(client_at(name, port=SASL_PORT if is_secured else KAFKA_PORT), history=history)

    match special:
        case SpecialLoad.QUOTAS:
            return QuotaClients(quota_topics(len(brokers)), history, other, client_for, rng)
        case SpecialLoad.SECURITY:
            topics = security_topics(len(brokers))
            return SecurityClients(topics, history, client_for, brokers, address_of, rng)
        case SpecialLoad.SHARES:
            clients = ShareClients(share_topics(len(brokers)), history, client_for, simulation.hosts, rng)
            simulation.trace.listeners.append(clients.observe)
            return clients
    return TransactionalClients(transactional_topics(len(brokers)), history, client_for, rng)
