"""Topics for a load: created, filled, checked and removed with requests that every node serves."""

import contextlib
import itertools
import struct
import time
from collections.abc import Iterator

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from benchmarks import protocol
from benchmarks.loadgen import LoadFailed
from benchmarks.peers import Peer, Subject

_READY_TIMEOUT_S = 20
_numbers = itertools.count(1)

# UNKNOWN_TOPIC_OR_PARTITION, LEADER_NOT_AVAILABLE, NOT_LEADER_OR_FOLLOWER: the node does not know the new topic yet.
_NOT_YET = {3, 5, 6}


@contextlib.contextmanager
def topic(peer: Subject, partitions: int, *, log_level: int = 3) -> Iterator[str]:
    """A new topic that exists within the block; then it and its files are deleted at once.

    With a `log_level` of 2, lost connections are not reported: the block restarts the node.

    In a cluster it has three replicas and min.insync.replicas=2.
    """
    name = f"bench-{next(_numbers):04}"  # of constant length, so that requests have the same size
    admin = AdminClient({"bootstrap.servers": peer.bootstrap, "log_level": log_level, **peer.client_configs})
    replicas = peer.replication_factor
    config = {"file.delete.delay.ms": "0", "min.insync.replicas": str(replicas // 2 + 1)}
    for created in admin.create_topics([NewTopic(name, partitions, replicas, config=config)]).values():
        created.result(30)
    try:
        _await_leaders(admin, name, partitions)
        yield name
    finally:
        for deleted in admin.delete_topics([name]).values():
            deleted.result(30)


def _await_leaders(admin: AdminClient, name: str, partitions: int) -> None:
    deadline = time.monotonic() + _READY_TIMEOUT_S
    while time.monotonic() < deadline:
        found = admin.list_topics(name, timeout=10).topics[name].partitions
        if len(found) == partitions and all(p.leader >= 0 and len(p.isrs) == len(p.replicas) for p in found.values()):
            return
        time.sleep(0.02)
    raise LoadFailed(f"topic {name} found no leader")


def leader(peer: Subject, name: str) -> int:
    """The id of the leader of partition 0."""
    admin = AdminClient({"bootstrap.servers": peer.bootstrap, "log_level": 3, **peer.client_configs})
    return int(admin.list_topics(name, timeout=10).topics[name].partitions[0].leader)


def fill(peer: Peer, name: str, batch: bytes, count: int) -> None:
    """Append a batch `count` times to partition 0."""
    at = protocol.produce_error_offset(name)
    request = protocol.produce(name, 0, batch, acks=1)
    deadline = time.monotonic() + _READY_TIMEOUT_S
    with protocol.Connection(peer.port) as connection:
        appended = 0
        while appended < count:
            code = protocol.error_code(connection.ask(request), at)
            if code and (code not in _NOT_YET or time.monotonic() > deadline):
                raise LoadFailed(f"{peer.name} refused a Produce with error code {code}")
            appended += not code
            if code:
                time.sleep(0.02)


def ask_until_served(peer: Peer, request: bytes, error_at: int) -> bytes:
    """Repeat a request until it is served, and return the response, so that no load starts on a server that
    refuses it.
    """
    deadline = time.monotonic() + _READY_TIMEOUT_S
    with protocol.Connection(peer.port) as connection:
        while code := protocol.error_code(reply := connection.ask(request), error_at):
            if code not in _NOT_YET or time.monotonic() > deadline:
                raise LoadFailed(f"{peer.name} answered a request with error code {code}")
            time.sleep(0.02)
    return struct.pack(">i", len(reply)) + reply
