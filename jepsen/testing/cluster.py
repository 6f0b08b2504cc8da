"""A test cluster for code that blocks: `Cluster`. It imports the standard library alone, and no client of Kafka."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Literal, Self, TypeAlias

from jepsen.testing.chaos_handle import ChaosHandle
from jepsen.testing.fault_handle import FaultHandle
from jepsen.testing.record import Record, decode_record, encode_record
from jepsen.testing.server_lease import ServerLease, own_server

if TYPE_CHECKING:
    from broker.client import SyncAdmin

ClientName: TypeAlias = Literal["confluent-kafka", "kafka-python", "aiokafka", "kraft", "java"]
WAIT_S: Final = 30.0


class Cluster:
    """A cluster of its own, which serves once it is constructed. `close`, or the end of a `with` block, ends it.

    The actions (`kill`, `pause`, `resume`, `stop`, `start`, `restart`) take one target: the id of a node, as in
    `kill(1)`, `leader_of` a partition as `(topic, number)`, `coordinator_of` a group, or `controller=True`, the active
    one. They return when they have happened, with the ids of the nodes. With a `delay` in seconds they return at once,
    and the target is found when the delay has passed.

    Methods raise ControlError with the reason if the cluster cannot do it.
    """

    def __init__(
        self,
        nodes: int = 3,
        *,
        security: str = "plaintext",
        config: Mapping[str, object] | None = None,
        features: Mapping[str, int] | None = None,
        seed: int | None = None,
        log_level: str = "info",
        server: ServerLease | None = None,
        shared_as: str | None = None,
    ) -> None:
        """`config` has configs of Kafka for all nodes. `features` has the levels that features begin with, where they
        differ from those of new clusters: `{"share.version": 0}` is a cluster without share groups. `security` is that
        of clients: `plaintext`, `ssl`, `mtls`, `sasl_plaintext` or `sasl_ssl`. The random numbers of the nodes follow
        from `seed`, by default a random one. `log_level` is that of the nodes' logs. `server` is the test server, by
        default one of this process. All processes that use a server and give `shared_as` have the same cluster, which
        lasts as long as the server.
        """
        self._server = server or own_server()
        self._is_shared, self._is_closed = shared_as is not None, False
        self._admin: SyncAdmin | None = None
        spec = {"nodes": nodes, "security": security, "config": dict(config or {}), "seed": seed}
        owner = {"shared_as": shared_as} if self._is_shared else {"lease": self._server.lease.name}
        spec["features"] = {name: str(level) for name, level in (features or {}).items()}
        spec |= {"log_level": log_level, **owner}
        self._described = self._server.client.request("POST", "/clusters", spec)
        self._path = f"/clusters/{self._described['name']}"

    @property
    def name(self) -> str:
        """The name of the cluster on its server."""
        return str(self._described["name"])

    @property
    def seed(self) -> int:
        """The seed of the random numbers of the nodes."""
        return int(self._described["seed"])

    def age(self) -> float:
        """The seconds since the cluster was requested, by the clock of its events."""
        return float(self._request("GET", "")["age"])

    @property
    def bootstrap_servers(self) -> str:
        """The addresses of all nodes, as clients take them."""
        return str(self._described["bootstrap_servers"])

    @property
    def nodes(self) -> list[dict[str, Any]]:
        """The nodes as they are now: `id`, `address`, `state`, `pid`, and the path of the `log`."""
        return list(self._request("GET", "")["nodes"])

    def config(self, client: ClientName = "confluent-kafka") -> dict[str, Any]:
        """The addresses and the credentials, in the words of a client: keys for confluent-kafka, kraft and java,
        keyword arguments for kafka-python and aiokafka.
        """
        configs = self._described["clients"]
        if client not in configs:
            raise ValueError(f"no client is named {client!r}; there are {', '.join(configs)}")
        config = dict(configs[client])
        if client == "aiokafka" and "ssl_cafile" in config:
            import ssl  # most sessions do without

            context = ssl.create_default_context(cafile=config.pop("ssl_cafile"))
            if "ssl_certfile" in config:
                context.load_cert_chain(config.pop("ssl_certfile"), config.pop("ssl_keyfile"))
            config["ssl_context"] = context
        return config

    @property
    def admin(self) -> "SyncAdmin":
        """A client of this package that administers the cluster, with its credentials; `docs/client.md` describes it.
        It is closed with the cluster.
        """
        if self._admin is None:
            from broker.client import SyncAdmin  # most tests do without

            self._admin = SyncAdmin(config=self.config("kraft"))
        return self._admin

    def topic(
        self,
        name: str = "topic",
        partitions: int = 1,
        replicas: int | None = None,
        config: Mapping[str, object] | None = None,
        timeout: float = WAIT_S,
    ) -> str:
        """Create a topic and return its name: `name` with a suffix that no other topic has.

        It has `replicas` replicas, by default three, or one on each node of a smaller cluster. All nodes know it and
        its leaders on return. Raises ControlError if no node runs, or after `timeout` seconds.
        """
        wanted = {"name": name, "partitions": partitions, "replicas": replicas, "config": dict(config or {})}
        return str(self._request("POST", "/topics", {**wanted, "timeout": timeout})["name"])

    def group(self, name: str = "group") -> str:
        """A group id that no other test has."""
        return str(self._request("POST", "/groups", {"name": name})["name"])

    def delete(self, topics: list[str], groups: list[str]) -> None:
        """Begin to delete topics, and groups without members."""
        self._request("POST", "/deletions", {"topics": topics, "groups": groups})

    def produce(self, topic: str, values: Sequence[str | bytes | Mapping[str, Any] | None]) -> None:
        """Write records with acks=all: values, or dicts with `value` and maybe `key`, `partition` and `headers`."""
        if isinstance(values, str | bytes | Mapping):
            raise TypeError(f"values are a list of records, not {values!r}")
        records = [encode_record(value) for value in values]
        self._request("POST", f"/topics/{topic}/records", {"records": records})

    def records(self, topic: str) -> list[Record]:
        """All committed records of a topic, in the order of partitions and offsets."""
        return [decode_record(each) for each in self._request("GET", f"/topics/{topic}/records")["records"]]

    def kill(self, node: int | None = None, /, **target: Any) -> list[int]:
        """kill -9: the process of a node ends at once."""
        return self._act("kill", node, target)

    def pause(self, node: int | None = None, /, **target: Any) -> list[int]:
        """Pause the process of a node (SIGSTOP), as a long garbage collection or a virtual machine's stop does."""
        return self._act("pause", node, target)

    def resume(self, node: int | None = None, /, **target: Any) -> list[int]:
        """Let a paused node run on; all paused nodes without a target."""
        return self._act("resume", node, target)

    def stop(self, node: int | None = None, /, **target: Any) -> list[int]:
        """Shut a node down cleanly; all nodes without a target."""
        return self._act("stop", node, target)

    def start(self, node: int | None = None, /, **target: Any) -> list[int]:
        """Start a node that is down, and wait until it serves; all that are down without a target."""
        return self._act("start", node, target)

    def restart(self, node: int | None = None, /, **target: Any) -> list[int]:
        """Shut a node down cleanly, and start it again."""
        return self._act("restart", node, target)

    def wait_for(
        self,
        *,
        leader: tuple[str, int] | None = None,
        in_sync: str | tuple[str, int] | None = None,
        group_stable: str | None = None,
        records: tuple[str, int] | None = None,
        committed: tuple[str, str, int, int] | None = None,
        timeout: float = WAIT_S,
    ) -> None:
        """Wait until a partition has a leader that runs, until all replicas of a partition or topic are in sync, until
        a group has assigned its partitions, until a topic has so many committed records, until a group has committed
        an offset as `(group, topic, partition, offset)` or a higher one. Raises ControlError after `timeout` seconds
        for each.
        """
        wanted = {"leader": leader, "in_sync": in_sync, "group_stable": group_stable, "records": records}
        self._request("POST", "/waits", {**wanted, "committed": committed, "timeout": timeout})

    def fault(self, **words: Any) -> FaultHandle:
        """Put a fault of the protocol in force on all nodes.

        `docs/testing-faults.md` has its words: `fault(api="Produce", topic=t, error="REQUEST_TIMED_OUT", times=1)`.
        """
        return self._begin("/faults", words, holds="hold" in words)

    def link(self, **words: Any) -> FaultHandle:
        """Put a fault in force on links between nodes, or between a client and nodes.

        `docs/testing-network.md` has its words: `link(source=1, target=2, cut=True)`. A node is an id, or a role as in
        `source={"leader_of": (topic, 0)}`.
        """
        return self._begin("/links", words, holds="cut" in words or "black_hole" in words)

    def partition(
        self, *groups: int | Mapping[str, Any] | Sequence[int | Mapping[str, Any]], black_hole: bool = False
    ) -> FaultHandle:
        """Cut all links between nodes of different groups, both ways: `partition([1], [2, 3])`.

        One group alone is cut off from all other nodes; a node alone is a group. With `black_hole`, bytes are lost
        rather than held. Raises TypeError.
        """
        read = [_group_of_nodes(group) for group in groups]
        return self.link(groups=read, **{"black_hole" if black_hole else "cut": True})

    def isolate(self, node: int | None = None, /, *, black_hole: bool = False, **target: Any) -> FaultHandle:
        """Cut all links of a node, with other nodes and with clients: `isolate(leader_of=(topic, 0))`.

        The node is named as for `kill`. With `black_hole`, bytes are lost rather than held.
        """
        isolated = _named_node("isolate", node, target)
        return self.link(isolated=isolated, **{"black_hole" if black_hole else "cut": True})

    def disk(self, **words: Any) -> FaultHandle:
        """Put a fault of a disk in force: `disk(node=1, full=True)`. The node may be a role; without one, all nodes.

        `docs/testing-network.md` has its words.
        """
        return self._begin("/disks", words)

    def flip_bit(
        self, topic: str, partition: int = 0, *, offset: int | None = None, seed: int = 0, **target: Any
    ) -> dict[str, Any]:
        """Flip a bit of the records in a partition's log on one node, which is named as for `kill`.

        It is one of the batch with `offset`, or of a batch that the seed draws. Returns the `node`, the `path`, the
        `position` and the `base_offset` of the batch.
        """
        words = {"topic": topic, "partition": partition, "offset": offset, "seed": seed}
        flipped: dict[str, Any] = self._request("POST", "/flips", {**words, **target})
        return flipped

    def clock(self, **words: Any) -> FaultHandle:
        """Put the wall clock of a node wrong: `clock(controller=True, offset_ms=-60_000)`; without a node, of all."""
        return self._begin("/clocks", words)

    def chaos(
        self,
        *,
        seed: int | None = None,
        seconds: float = 10.0,
        faults: Sequence[str] = (),
        topics: Sequence[str] = (),
    ) -> ChaosHandle:
        """Cause faults for so many seconds, which the seed chooses with their times; a random seed by default.

        `docs/testing-network.md` has their names; all that fit the cluster by default. Leaders of `topics` are moved,
        and preferred as targets. Prints the line that repeats the run. The cluster is healed at the end.
        """
        wanted = {"seed": seed, "seconds": seconds, "faults": list(faults), "topics": list(topics)}
        described = self._request("POST", "/chaos", wanted)
        print(f"chaos: {described['replay']}")
        path = f"/chaos/{described['id']}"
        return ChaosHandle(lambda method, body: self._request(method, path, body), described)

    def end_faults(self) -> list[str]:
        """End all faults and all chaos. Returns the ids of those that were in force."""
        return list(self._request("DELETE", "/faults")["ended"])

    def _begin(self, path: str, words: Mapping[str, Any], *, holds: bool = False) -> FaultHandle:
        described = self._request("POST", path, words)
        fault = f"/faults/{described['id']}"
        return FaultHandle(lambda method, body: self._request(method, fault, body), described, holds=holds)

    def requests(self, **words: Any) -> list[dict[str, Any]]:
        """The latest requests of clients, selected by words as those of a fault: `requests(api="Produce", topic=t)`.

        Each has the time `at`, the `api`, `version`, `client_id`, `address`, `node`, the parts that it is about in
        `subjects`, and, once it is answered, its `outcome`, `latency_ms`, `errors` and the id of the `fault` that has
        fired on it.
        """
        return list(self._request("POST", "/requests", words)["requests"])

    def move_leader(self, topic: str, partition: int = 0, to: int | None = None) -> int:
        """Make an in-sync replica the leader of a partition: the one on node `to`, or the next. Returns the node."""
        return int(self._change("move_leader", topic=topic, partition=partition, to=to)["leader"])

    def move_coordinator(
        self, group: str | None = None, transactional_id: str | None = None, to: int | None = None
    ) -> int:
        """Move the coordinator of a group or of a transactional id to node `to`, or the next. Returns the node."""
        words = {"group": group, "transactional_id": transactional_id, "to": to}
        return int(self._change("move_coordinator", **words)["coordinator"])

    def start_rebalance(self, group: str, timeout: float = WAIT_S) -> None:
        """Rebalance a group that has members: another consumer joins it, and leaves.

        Returns once it has got its partitions, for which the members have to poll meanwhile, in other threads or
        processes. Raises ControlError after `timeout` seconds.
        """
        self._change("start_rebalance", group=group, timeout=timeout)

    def fence_producer(self, transactional_id: str) -> int:
        """Fence the producer of a transactional id; its open transaction is aborted. Returns the new epoch."""
        return int(self._change("fence_producer", transactional_id=transactional_id)["epoch"])

    def expire_transaction(self, transactional_id: str) -> None:
        """Have the coordinator abort an open transaction because of its timeout: its node's clock is put forward.

        Other open transactions of the same coordinator may time out, too.
        """
        self._change("expire_transaction", transactional_id=transactional_id)

    def expire_offsets(self, group: str, topic: str | None = None) -> list[tuple[str, int]]:
        """Remove a group's committed offsets, of a topic or of all, as at their expiration. Returns the partitions."""
        partitions = self._change("expire_offsets", group=group, topic=topic)["partitions"]
        return [(name, number) for name, number in partitions]

    def shrink_isr(self, topic: str, partition: int = 0, *, node: int) -> FaultHandle:
        """Keep the follower on `node` from fetching a partition, until the fault is ended.

        It leaves the ISR once it has lacked a record for `replica.lag.time.max.ms`, and comes back after the end.
        """
        follower = f"broker-{node}-fetcher"
        return self.fault(
            api="Fetch", client_id=follower, topic=topic, partition=partition, error="UNKNOWN_SERVER_ERROR"
        )

    def recreate_topic(self, topic: str) -> None:
        """Delete a topic, and create it again with the same partitions and configs, without its records."""
        self._change("recreate_topic", topic=topic)

    def advance_log_start(self, topic: str, partition: int = 0, offset: int = -1) -> int:
        """Delete the records before an offset, or all committed ones, as retention does. Returns the first offset."""
        words = {"topic": topic, "partition": partition, "offset": offset}
        return int(self._change("advance_log_start", **words)["log_start_offset"])

    def events(self) -> list[dict[str, Any]]:
        """The events of the nodes, and the actions on them, in the order of their times."""
        events: list[dict[str, Any]] = self._request("GET", "/events")["events"]
        return sorted(events, key=lambda event: event["seconds"])

    def close(self) -> None:
        """End all processes and remove the directory. A cluster that is shared goes on. Later calls have no effect."""
        with ExitStack() as steps:
            if not (self._is_shared or self._is_closed):
                self._is_closed = True
                steps.callback(self._request, "DELETE", "")
            if self._admin is not None:
                steps.callback(self._admin.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _change(self, change: str, **words: object) -> dict[str, Any]:
        answer: dict[str, Any] = self._request("POST", "/changes", {"change": change, **words})
        return answer

    def _act(self, verb: str, node: object, target: dict[str, Any]) -> list[int]:
        return list(self._request("POST", "/actions", {"action": verb, **_named_node(verb, node, target)})["nodes"])

    def _request(self, method: str, path: str, body: object = None) -> Any:
        return self._server.client.request(method, self._path + path, body)


def _named_node(call: str, node: object, target: Mapping[str, Any]) -> dict[str, Any]:
    """The words of a target, whose node may have been given alone: `kill(1)`. Raises TypeError."""
    if node is None:
        return dict(target)
    if type(node) is not int or "node" in target:
        raise TypeError(f"{call} takes the id of a node, or a role such as leader_of=(topic, 0), not {node!r}")
    return {"node": node, **target}


def _group_of_nodes(group: object) -> list[Any]:
    """The nodes of one side of a partition. Raises TypeError."""
    if isinstance(group, int | Mapping):
        return [group]
    if isinstance(group, str) or not isinstance(group, Iterable):
        raise TypeError(f"partition takes groups of nodes, as in partition([1], [2, 3]), not {group!r}")
    return list(group)
