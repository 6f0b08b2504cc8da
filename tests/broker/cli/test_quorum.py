"""`kraft quorum` against nodes that run: describe, and voters that come and go (KIP-853)."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.storage.meta_properties import read_meta_properties
from broker.wire.uuids import encode_uuid
from kraft.env import RealDisk
from tests.support.cluster_process import Answer, ClusterProcess, new_cluster, random_uuid, run_command

VOTER, NEWCOMER, BROKER = 1, 2, 3


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterProcess]:
    """One voter, a controller that does not vote yet, and a broker."""
    others = {NEWCOMER: "broker,controller", BROKER: "broker"}
    with new_cluster(tmp_path_factory.mktemp("quorum"), voters=(VOTER,), others=others) as cluster:
        cluster.start()
        yield cluster
        cluster.stop()


def directory_id(cluster: ClusterProcess, node_id: int) -> str:
    properties = read_meta_properties(RealDisk(), str(cluster.nodes[node_id].data_dir))
    assert properties is not None
    assert properties.directory_id is not None
    return encode_uuid(properties.directory_id)


def add(cluster: ClusterProcess, node_id: int, *arguments: str) -> Answer:
    return cluster.quorum("--command-config", str(cluster.properties_path(node_id)), "add-controller", *arguments)


def remove(cluster: ClusterProcess, node_id: int, directory: str, *arguments: str) -> Answer:
    return cluster.quorum("remove-controller", "-i", str(node_id), "-d", directory, *arguments)


def table(cluster: ClusterProcess, *arguments: str) -> dict[int, dict[str, str]]:
    """`describe --replication` by node ids and columns."""
    answer = cluster.quorum("describe", "--replication", *arguments)
    assert answer.code == 0, answer.errors
    names, *rows = ([cell.strip() for cell in line.split("\t")[:-1]] for line in answer.output.splitlines())
    return {int(row[0]): dict(zip(names, row, strict=True)) for row in rows}


def test_the_status_names_the_voter_and_the_observers(cluster: ClusterProcess) -> None:
    status = cluster.status()
    assert status["ClusterId"] == cluster.cluster_id
    assert status["LeaderId"] == str(VOTER)
    assert int(status["HighWatermark"]) > 0
    endpoint = f'"CONTROLLER://127.0.0.1:{cluster.nodes[VOTER].controller_port}"'
    assert status["CurrentVoters"] == (
        f'[{{"id": {VOTER}, "directoryId": "{cluster.directory_ids[VOTER]}", "endpoints": [{endpoint}]}}]'
    )
    for node_id in (NEWCOMER, BROKER):
        assert f'{{"id": {node_id}, "directoryId": "{directory_id(cluster, node_id)}"}}' in status["CurrentObservers"]


def test_the_replication_has_a_row_for_each_replica(cluster: ClusterProcess) -> None:
    rows = table(cluster)
    assert {node_id: row["Status"] for node_id, row in rows.items()} == {
        VOTER: "Leader",
        NEWCOMER: "Observer",
        BROKER: "Observer",
    }
    assert all(row["DirectoryId"] == directory_id(cluster, node_id) for node_id, row in rows.items())
    assert all(int(row["LastFetchTimestamp"]) > 0 for row in rows.values())
    assert all(row["LastFetchTimestamp"].endswith(" ms ago") for row in table(cluster, "--human-readable").values())


def test_any_controller_knows_the_way_to_the_active_one(cluster: ClusterProcess) -> None:
    for node_id in (VOTER, NEWCOMER):
        servers = f"127.0.0.1:{cluster.nodes[node_id].controller_port}"
        answer = run_command("quorum", "--bootstrap-controller", servers, "describe", "--status")
        assert answer.code == 0, answer.errors
        assert f"LeaderId:               {VOTER}\n" in answer.output


def test_a_controller_is_added_and_removed_while_the_quorum_runs(cluster: ClusterProcess) -> None:
    directory = directory_id(cluster, NEWCOMER)
    shown = (
        f"controller {NEWCOMER} with directory id {directory} and endpoints: "
        f"CONTROLLER://127.0.0.1:{cluster.nodes[NEWCOMER].controller_port}\n"
    )
    assert add(cluster, NEWCOMER, "--dry-run") == (0, f"DRY RUN of adding {shown}", "")
    assert table(cluster)[NEWCOMER]["Status"] == "Observer"
    assert add(cluster, NEWCOMER) == (0, f"Added {shown}", "")
    assert table(cluster)[NEWCOMER]["Status"] == "Follower"
    again = add(cluster, NEWCOMER)
    assert (again.code, again.errors.startswith("kraft: DUPLICATE_VOTER")) == (1, True)

    shown = f"KRaft controller {NEWCOMER} with directory id {directory}\n"
    assert remove(cluster, NEWCOMER, directory, "--dry-run") == (0, f"DRY RUN of removing {shown}", "")
    other = remove(cluster, NEWCOMER, random_uuid())
    assert (other.code, other.errors.startswith("kraft: VOTER_NOT_FOUND")) == (1, True)
    assert table(cluster)[NEWCOMER]["Status"] == "Follower"
    assert remove(cluster, NEWCOMER, directory) == (0, f"Removed {shown}", "")
    assert table(cluster)[NEWCOMER]["Status"] == "Observer"


MUST_BE_CONTROLLER = (
    "process.roles did not contain 'controller' in configuration file. Is this a valid controller configuration file?"
)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["describe"], "One of --status or --replication must be specified with describe sub-command"),
        (
            ["describe", "--status", "--replication"],
            "Only one of --status or --replication should be specified with describe sub-command",
        ),
        (
            ["describe", "--status", "--human-readable"],
            "The option --human-readable is only supported along with --replication",
        ),
        (
            ["add-controller"],
            "You must supply the configuration file of the controller you are adding when using add-controller.",
        ),
        (["--command-config", "broker.properties", "add-controller"], MUST_BE_CONTROLLER),
        (
            ["--command-config", "controller.properties", "add-controller"],
            "Unable to read meta.properties from /proc/nowhere",
        ),
        (["remove-controller", "--controller-id=-1", "-d", "x"], "Invalid negative --controller-id: -1"),
        (
            ["remove-controller", "-i", "1", "-d", "AAAA"],
            "Failed to parse --controller-directory-id: Input string `AAAA` decoded as 3 bytes, which is not equal to "
            "the expected 16 bytes of a base64-encoded UUID",
        ),
    ],
)
def test_what_cannot_be_done_is_refused_before_anybody_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    common = "node.id=1\ncontroller.listener.names=C\ncontroller.quorum.bootstrap.servers=localhost:1\n"
    Path("broker.properties").write_text(f"{common}process.roles=broker\n")
    Path("controller.properties").write_text(
        f"{common}process.roles=controller\nlisteners=C://:9093\nlog.dirs=/proc/nowhere\n"
    )
    answer = run_command("quorum", "--bootstrap-server", "nobody.invalid:1", *arguments)
    assert answer == (1, "", f"kraft: {message}\n")


def test_a_server_that_is_not_there_is_named() -> None:
    answer = run_command("quorum", "--bootstrap-server", "127.0.0.1:1,[::1]:1", "describe", "--status")
    assert answer.code == 1
    assert answer.errors.startswith("kraft: No server can be reached: 127.0.0.1:1: ")


@pytest.mark.parametrize("servers", ["", "localhost", "localhost:", "localhost:x", ":1", "localhost:65536"])
def test_a_server_has_a_host_and_a_port(servers: str) -> None:
    answer = run_command("quorum", "--bootstrap-server", servers, "describe", "--status")
    assert answer == (1, "", "kraft: Please provide valid host:port like host1:9091,host2:9092\n")
