"""Users whose rights and passwords change all the time, on nodes with SASL and access control lists."""

from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Final, TypeAlias

import attrs
import trio

from broker.coordinator.internal_topics import CONSUMER_OFFSETS
from jepsen.checkers import SECURITY_CHECKERS, Anomaly
from jepsen.history import History
from jepsen.simulation.invariants import Committed
from jepsen.simulation.subjects.node_security import REAUTH_MS
from jepsen.simulation.subjects.subject import Run, Start
from jepsen.values import WantedTopic
from jepsen.workloads.client import Client
from jepsen.workloads.consumer import read_all
from jepsen.workloads.security.administration import Marks, administer, audit, audit_once, set_mark, set_marks
from jepsen.workloads.security.requests import CREATED, GROUPS, TOPICS, Requester, favourite_requests, send_requests
from jepsen.workloads.security.secured_client import SecuredClient
from jepsen.workloads.security.users import Users
from jepsen.workloads.topics import seen_topics
from metadata.image import AccessControlEntry
from metadata.protocol import CLUSTER_NAME, AclOperation, AclPermission, PatternType, ResourceType

_USERS: Final = ("alice", "bob", "carol")
# About the number of requests over one connection of each kind of clients, and whether they are careless.
_KINDS: Final = (("long", 100, False), ("short", 3, False), ("careless", 100, True))
_CHANGES_PER_SECOND: Final = (1.0, 3.0)
_REQUESTS_PER_SECOND: Final = (1.0, 3.0)
# Reads and marks narrow the times for which the checkers do not know a broker's state.
_READS_PER_SECOND: Final = 2.0
_FINAL_REQUESTS: Final = 8
# The longest wait until all brokers know all changes. The checkers judge the state that each one knows then.
_KNOWN_SECONDS: Final = 5.0

_POOL_SIZE: Final = 70
_DENYING_SHARE: Final = 0.2
_LITERAL: Final = PatternType.LITERAL
_PREFIXED: Final = PatternType.PREFIXED
_TOPIC: Final = ResourceType.TOPIC
_GROUP: Final = ResourceType.GROUP
# Patterns of resources with the operations of their entries. None of them allows a client to create the topic `CLOSED`.
_PATTERNS: Final = (
    *((_TOPIC, _PREFIXED, name) for name in ("sec", "sec-", "sec-", "sec-a", "other", CREATED[0], CREATED[0])),
    *((_TOPIC, _LITERAL, name) for name in (*TOPICS, *CREATED)),
    *((_GROUP, _PREFIXED, name) for name in ("group", "group-a")),
    *((_GROUP, _LITERAL, name) for name in (*GROUPS, "*")),
    (ResourceType.CLUSTER, _LITERAL, CLUSTER_NAME),
)
_OPERATIONS: Final = {
    _TOPIC: (
        *(AclOperation.READ, AclOperation.WRITE, AclOperation.CREATE, AclOperation.DELETE),
        *(AclOperation.READ, AclOperation.WRITE, AclOperation.ALL, AclOperation.ALL),
    ),
    _GROUP: (AclOperation.READ, AclOperation.DELETE, AclOperation.ALL),
    ResourceType.CLUSTER: (AclOperation.ALTER, AclOperation.DELETE),
}

# Returns a client by its name, of the listener with SASL or of the one whose clients may do everything.
ClientFor: TypeAlias = Callable[..., Client]


def security_topics(brokers: int) -> Sequence[WantedTopic]:
    return tuple(WantedTopic(name, 1, replication_factor=min(2, brokers)) for name in (*TOPICS, CONSUMER_OFFSETS))


def random_entries(addresses: Sequence[str], rng: Random) -> Sequence[AccessControlEntry]:
    """Entries of the users, for all hosts or for some of these addresses."""
    return tuple(dict.fromkeys(_random_entry(addresses, rng) for _ in range(_POOL_SIZE)))


def _random_entry(addresses: Sequence[str], rng: Random) -> AccessControlEntry:
    kind, pattern_type, name = rng.choice(_PATTERNS)
    principal = rng.choice((*_USERS, "*"))
    address = rng.choice(addresses)
    host = rng.choice(("*", "*", "*", "*", "*", address, f"{address}/32", "10.0.0.0/24", "192.0.2.1"))
    permission = AclPermission.DENY if rng.random() < _DENYING_SHARE else AclPermission.ALLOW
    operation = rng.choice(_OPERATIONS[kind])
    return AccessControlEntry(kind, name, pattern_type, f"User:{principal}", host, operation, permission)


class SecurityClients:
    """See the module's docstring. `brokers` are the names of the brokers."""

    def __init__(
        self,
        topics: Sequence[WantedTopic],
        history: History,
        client_for: ClientFor,
        brokers: Sequence[str],
        address_of: Callable[[Client], str],
        rng: Random,
    ) -> None:
        self.topics = topics
        self.history = history
        self._client_for, self._brokers, self._rng = client_for, brokers, rng
        self._users, self._marks = Users(_USERS, REAUTH_MS), Marks()
        self._requesters = [
            Requester(
                SecuredClient(
                    client := client_for(f"{user}-{kind}", is_secured=True),
                    address_of(client),
                    user,
                    self._users,
                    is_careless,
                ),
                requests_per_connection,
                favourite_requests(rng),
            )
            for user in _USERS
            for kind, requests_per_connection, is_careless in _KINDS
        ]
        self._entries = random_entries([each.secured.address for each in self._requesters], rng)

    async def prepare(self, run: Run, committed: Committed) -> None:
        """Do nothing: these clients prepare what they need themselves."""

    def start(self, start: Start, nursery: trio.Nursery) -> None:
        """Start the users' clients, the administrator, and the readers of what each broker knows."""
        per_second = self._rng.choice(_CHANGES_PER_SECOND)
        start(nursery, self._client_for("acl-admin"), administer, self._entries, self._users, per_second)
        start(nursery, self._client_for("marks"), set_marks, self._marks, _READS_PER_SECOND)
        for broker in self._brokers:
            start(nursery, self._auditor(broker), audit, broker, self._users, _READS_PER_SECOND)
        per_second = self._rng.choice(_REQUESTS_PER_SECOND)
        for requester in self._requesters:
            start(nursery, requester, send_requests, per_second)

    def _auditor(self, broker: str, when: str = "") -> Client:
        """A client that connects to one broker."""
        client = self._client_for(f"audit-{broker}{when}")
        return attrs.evolve(client, servers=[server for server in client.servers if server[0] == broker])

    async def verify(self, start: Start, run: Run, committed: Committed) -> None:
        """Have all clients send some requests once every broker knows all changes; then read all effects."""
        client = self._client_for("security-final")
        with trio.move_on_after(_KNOWN_SECONDS):
            for broker in self._brokers:
                await self._wait_known(run, client, self._auditor(broker, ".last"), broker)
        async with trio.open_nursery() as nursery:
            for requester in self._requesters:
                nursery.start_soon(run, requester, _send_some_requests, requester)
        for topic in TOPICS:
            await run(client, read_all, client, topic, 0)
        await run(client, seen_topics, client)

    async def _wait_known(self, run: Run, client: Client, auditor: Client, broker: str) -> None:
        while not await run(client, set_mark, client, self._marks):
            await client.back_off()
        while await run(auditor, audit_once, auditor, broker, self._users) < self._marks.last:
            await auditor.back_off()

    def anomalies(self, committed: Committed) -> Iterator[Anomaly]:
        for checker in SECURITY_CHECKERS:
            yield from checker.check(self.history)


async def _send_some_requests(requester: Requester) -> None:
    for _ in range(_FINAL_REQUESTS):
        await requester.send_request()
