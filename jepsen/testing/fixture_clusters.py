"""The objects of the pytest fixtures: a node that all tests share, and clusters by the arguments of their markers."""

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Final

from jepsen.testing.cluster import WAIT_S, ClientName, Cluster
from jepsen.testing.fault_handle import FaultHandle
from jepsen.testing.record import Record
from jepsen.testing.server_lease import ServerLease

if TYPE_CHECKING:
    from broker.client import SyncAdmin

# The words by which a fault concerns the test alone that has it.
_OWN_WORDS: Final = frozenset({"topic", "group", "transactional_id", "client_id"})
_CLIENT_WORDS: Final = ("client_id", "address")


class Kafka:
    """The fixture `kafka`: a node that all tests share, in which each test has topics and groups of its own."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._topics: list[str] = []
        self._groups: list[str] = []
        self._faults: list[FaultHandle] = []
        self._admin: SyncAdmin | None = None

    if not TYPE_CHECKING:  # type checkers know all methods

        def __getattr__(self, name: str) -> Any:
            """Called for methods that only clusters have. Raises AttributeError."""
            if hasattr(Cluster, name):
                raise AttributeError(
                    f"the fixture `kafka` has no {name}: it is one node, which all tests share. Use the fixture "
                    "`kafka_cluster`, a cluster for this test"
                )
            raise AttributeError(f"the fixture `kafka` has no attribute {name!r}")

    @property
    def bootstrap_servers(self) -> str:
        return self._cluster.bootstrap_servers

    @property
    def admin(self) -> "SyncAdmin":
        """A client of this package that administers the node; `docs/client.md` describes it."""
        if self._admin is None:
            from broker.client import SyncAdmin

            self._admin = SyncAdmin(self.bootstrap_servers)
        return self._admin

    def config(self, client: ClientName = "confluent-kafka") -> dict[str, Any]:
        """See `Cluster.config`."""
        return self._cluster.config(client)

    def topic(self, name: str = "topic", partitions: int = 1, config: dict[str, object] | None = None) -> str:
        """Create a topic that this test alone has, and return its name. It is deleted after the test."""
        self._topics.append(self._cluster.topic(name, partitions, config=config))
        return self._topics[-1]

    def group(self, name: str = "group") -> str:
        """A group id that this test alone has. The group is deleted after the test."""
        self._groups.append(self._cluster.group(name))
        return self._groups[-1]

    def produce(self, topic: str, values: list[Any]) -> None:
        """See `Cluster.produce`."""
        self._cluster.produce(topic, values)

    def records(self, topic: str) -> list[Record]:
        """See `Cluster.records`."""
        return self._cluster.records(topic)

    def fault(self, **words: Any) -> FaultHandle:
        """See `Cluster.fault`. It has to name a topic, group, transactional id or client id, as others use the node."""
        if not _OWN_WORDS & words.keys():
            raise ValueError(f"a fault of the shared node has to name one of {', '.join(sorted(_OWN_WORDS))}")
        self._faults.append(self._cluster.fault(**words))
        return self._faults[-1]

    def link(self, **words: Any) -> FaultHandle:
        """See `Cluster.link`. It has to name the clients of the test, by a client id or an address."""
        if words.keys().isdisjoint(_CLIENT_WORDS) or words.get("client_id") == "*":
            raise ValueError(
                f"a link of the shared node has to name clients of the test by {' or '.join(_CLIENT_WORDS)}"
            )
        self._faults.append(self._cluster.link(**words))
        return self._faults[-1]

    def requests(self, **words: Any) -> list[dict[str, Any]]:
        """See `Cluster.requests`."""
        return self._cluster.requests(**words)

    def age(self) -> float:
        """See `Cluster.age`."""
        return self._cluster.age()

    def events(self) -> list[dict[str, Any]]:
        """See `Cluster.events`. They are those of all tests that use the node."""
        return self._cluster.events()

    def wait_for(
        self,
        *,
        group_stable: str | None = None,
        records: tuple[str, int] | None = None,
        committed: tuple[str, str, int, int] | None = None,
        timeout: float = WAIT_S,
    ) -> None:
        """See `Cluster.wait_for`. A single node has neither leaders nor replicas to wait for."""
        self._cluster.wait_for(group_stable=group_stable, records=records, committed=committed, timeout=timeout)

    def start_rebalance(self, group: str, timeout: float = WAIT_S) -> None:
        """See `Cluster.start_rebalance`. The group is one of the test."""
        self._cluster.start_rebalance(self._own_group(group), timeout)

    def fence_producer(self, transactional_id: str) -> int:
        """See `Cluster.fence_producer`. A transactional id is the test's own if only this test uses it."""
        return self._cluster.fence_producer(transactional_id)

    def expire_offsets(self, group: str, topic: str | None = None) -> list[tuple[str, int]]:
        """See `Cluster.expire_offsets`. The group is one of the test."""
        return self._cluster.expire_offsets(self._own_group(group), topic)

    def recreate_topic(self, topic: str) -> None:
        """See `Cluster.recreate_topic`. The topic is one of the test."""
        self._cluster.recreate_topic(self._own_topic(topic))

    def advance_log_start(self, topic: str, partition: int = 0, offset: int = -1) -> int:
        """See `Cluster.advance_log_start`. The topic is one of the test."""
        return self._cluster.advance_log_start(self._own_topic(topic), partition, offset)

    def _own_topic(self, topic: str) -> str:
        return _own(topic, self._topics, "topic")

    def _own_group(self, group: str) -> str:
        return _own(group, self._groups, "group")

    def close(self) -> None:
        """End the faults of the test, and delete its topics and groups. All is tried; the last error is raised."""
        with ExitStack() as steps:
            if self._topics or self._groups:
                steps.callback(self._cluster.delete, self._topics, self._groups)
            if self._admin is not None:
                steps.callback(self._admin.close)
            for fault in self._faults:
                steps.callback(fault.end)


def _own(name: str, names: list[str], kind: str) -> str:
    """Raises ValueError for a name that the test has not got from its fixture: other tests use the node, too."""
    if name not in names:
        raise ValueError(f"{name!r} is no {kind} of this test; `kafka.{kind}()` makes one")
    return name


class FixtureClusters:
    """The clusters of a test, a module or a session, by the arguments of their marker."""

    def __init__(self) -> None:
        self._clusters: dict[str, Cluster] = {}

    def get(self, server: ServerLease, log_level: str, options: dict[str, Any]) -> Cluster:
        key = repr(sorted(options.items()))
        if key not in self._clusters:
            self._clusters[key] = Cluster(server=server, log_level=log_level, **options)
        return self._clusters[key]

    def close(self) -> None:
        """End all clusters. All is tried; the last error is raised."""
        with ExitStack() as steps:
            for cluster in self._clusters.values():
                steps.callback(cluster.close)
