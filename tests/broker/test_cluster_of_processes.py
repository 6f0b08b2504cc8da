"""Three nodes as processes: start, crash of a controller, and end, as operators and clients see them."""

import re
import shlex
import shutil
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from broker.cli.grammar import Exit
from tests.support.cluster_process import ClusterProcess, new_cluster, run_command

# So long that a failover which waits for the end of a session is detected, even on a busy machine.
LONG_SESSIONS = {"broker.session.timeout.ms": "60000"}
FAILOVER_SECONDS_MAX = 30.0
# Far longer than necessary. Every node stops cleanly, even the last ones, which have no majority.
STOP_SECONDS_MAX = 15.0


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ClusterProcess]:
    with new_cluster(tmp_path, overrides=LONG_SESSIONS) as cluster:
        cluster.start()
        yield cluster


def admin(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})


def create(client: AdminClient, topic: str) -> None:
    """Create a topic, and wait until that is acknowledged. Raises KafkaException."""
    client.create_topics([NewTopic(topic, num_partitions=3)], request_timeout=20)[topic].result()


def topics(bootstrap: str) -> dict[str, int]:
    """The partition counts of the topics that one node knows."""
    found = admin(bootstrap).list_topics(timeout=10).topics
    return {name: len(topic.partitions) for name, topic in found.items()}


def is_open(port: int) -> bool:
    with socket.socket() as sock:
        return sock.connect_ex(("127.0.0.1", port)) == 0


def wait_for(condition: Callable[[], bool], timeout: float = 60) -> None:
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def wait_for_topics(bootstrap: str, *names: str) -> None:
    """Wait until a broker knows these topics: it learns of them a moment after the broker that created them."""
    wait_for(lambda: topics(bootstrap) == dict.fromkeys(names, 3))


def test_cluster_continues_without_its_controller_which_rejoins(cluster: ClusterProcess) -> None:
    client = admin(cluster.bootstrap)
    create(client, "before")
    dead = cluster.controller_id()
    epoch = int(cluster.status()["LeaderEpoch"])
    cluster.nodes[dead].kill()
    began = time.monotonic()
    survivors = [node for node in cluster.nodes.values() if node.is_running]
    create(admin(",".join(node.bootstrap for node in survivors)), "after")
    assert time.monotonic() - began < FAILOVER_SECONDS_MAX
    status = cluster.status()
    assert int(status["LeaderId"]) != dead
    assert int(status["LeaderEpoch"]) > epoch

    cluster.nodes[dead].start()
    for node in cluster.nodes.values():
        wait_for_topics(node.bootstrap, "before", "after")
    create(client, "whole-again")
    assert cluster.stop() < STOP_SECONDS_MAX


def test_stopped_cluster_restarts_with_its_data(cluster: ClusterProcess) -> None:
    create(admin(cluster.bootstrap), "kept")
    assert cluster.stop() < STOP_SECONDS_MAX
    for node in cluster.nodes.values():
        node.launch()
    for node in cluster.nodes.values():
        node.wait_serving()
    wait_for_topics(cluster.bootstrap, "kept")


def test_one_node_of_three_waits_and_can_be_stopped(tmp_path: Path) -> None:
    with new_cluster(tmp_path) as cluster:
        cluster.format(1)
        node = cluster.nodes[1]
        node.launch()
        wait_for(lambda: is_open(node.controller_port))
        time.sleep(1)  # it might act on stale state
        assert "listening" not in node.output()
        began = time.monotonic()
        node.stop()
        assert time.monotonic() - began < STOP_SECONDS_MAX


def test_unformatted_node_of_a_quorum_does_not_start(tmp_path: Path) -> None:
    with new_cluster(tmp_path) as cluster:
        node = cluster.nodes[1]
        node.launch()
        assert node.wait_ended() == 1
        assert "kraft format" in node.output()
        assert not node.data_dir.exists() or not (node.data_dir / "meta.properties").exists()


def test_voter_that_lost_its_disk_is_removed_and_added_again(cluster: ClusterProcess) -> None:
    client = admin(cluster.bootstrap)
    create(client, "before")
    unlucky = next(node_id for node_id in cluster.nodes if node_id != cluster.controller_id())
    node = cluster.nodes[unlucky]
    node.kill()
    shutil.rmtree(node.data_dir)
    node.launch()
    assert node.wait_ended() == 1  # its votes are lost, so it must not vote again with the same id
    (command,) = re.findall("as after its disk was replaced: `kraft ([^`]*)`", node.output())
    config, cluster_id = str(cluster.properties_path(unlucky)), cluster.cluster_id
    given = command.replace("<its server.properties>", config).replace("<the cluster's id>", cluster_id)
    assert run_command(*shlex.split(given)).code == 0
    node.start()
    create(client, "meanwhile")
    health = ("cluster", "health", "-b", cluster.bootstrap)
    answer = run_command(*health)
    assert answer.code == Exit.FAILED
    assert "has another disk" in answer.output
    assert "2 of 3 controllers vote: no further one may be lost" in answer.output
    # The commands are those that it prints.
    (problem,) = re.findall(
        rf"! controller {unlucky} runs with another disk .*: `kraft (.*)`, then `kraft (.*)`", answer.output
    )
    for command in problem:
        given = command.replace("<its server.properties>", str(cluster.properties_path(unlucky)))
        answer = run_command(*shlex.split(given))
        assert answer.code == 0, answer.errors
    cluster.ask_every_broker(lambda found: found["is_healthy"], *health[:2])
    assert cluster.part(unlucky) == "Follower"
    wait_for_topics(node.bootstrap, "before", "meanwhile")


def test_quorum_grows_from_one_voter_to_three_and_shrinks_again(tmp_path: Path) -> None:
    others = {2: "broker,controller", 3: "controller"}
    with new_cluster(tmp_path, voters=(1,), others=others) as cluster:
        cluster.start()
        client = admin(cluster.nodes[1].bootstrap)
        for node_id in (2, 3):
            create(client, f"with-{node_id}")
            assert cluster.add_controller(node_id).code == 0
        assert [cluster.part(node_id) for node_id in (1, 2, 3)] == ["Leader", "Follower", "Follower"]
        create(client, "with-three")
        assert cluster.remove_controller(1, cluster.directory_id(1)).code == 0  # the leader itself, which hands over
        successor = cluster.controller_id()
        assert successor != 1
        other = 5 - successor
        assert cluster.remove_controller(other, cluster.directory_id(other)).code == 0
        create(client, "alone")
        wait_for_topics(cluster.nodes[2].bootstrap, "with-2", "with-3", "with-three", "alone")
        assert [cluster.part(node_id) for node_id in (1, successor, other)] == ["Observer", "Leader", "Observer"]
