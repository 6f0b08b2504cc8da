"""`kraft quorum` with running nodes: describe, and adding and removing voters (KIP-853)."""

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.cli.commands import quorum
from broker.cli.grammar import Exit
from tests.support.cluster_process import ClusterProcess, new_cluster, random_uuid, run_command
from tests.support.node_process import NodeProcess

VOTER, NEWCOMER, BROKER = 1, 2, 3


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterProcess]:
    """One voter, a controller that does not vote yet, and a broker."""
    others = {NEWCOMER: "broker,controller", BROKER: "broker"}
    with new_cluster(tmp_path_factory.mktemp("quorum"), voters=(VOTER,), others=others) as cluster:
        cluster.start()
        yield cluster
        cluster.stop()


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
        assert f'{{"id": {node_id}, "directoryId": "{cluster.directory_id(node_id)}"}}' in status["CurrentObservers"]


def test_the_replication_has_a_row_for_each_replica(cluster: ClusterProcess) -> None:
    rows = cluster.replication()
    assert [(int(row["NodeId"]), row["DirectoryId"], row["Status"]) for row in rows] == [
        (VOTER, cluster.directory_id(VOTER), "Leader"),
        (NEWCOMER, cluster.directory_id(NEWCOMER), "Observer"),
        (BROKER, cluster.directory_id(BROKER), "Observer"),
    ]
    assert all(int(row["LastFetchTimestamp"]) > 0 for row in rows)
    assert all(row["LastFetchTimestamp"].endswith(" ms ago") for row in cluster.replication("--human-readable"))


def test_any_controller_knows_the_way_to_the_active_one(cluster: ClusterProcess) -> None:
    for node_id in (VOTER, NEWCOMER):
        servers = f"127.0.0.1:{cluster.nodes[node_id].controller_port}"
        answer = run_command("quorum", "--bootstrap-controller", servers, "describe", "--status")
        assert answer.code == 0, answer.errors
        assert f"LeaderId:               {VOTER}\n" in answer.output


def test_a_controller_is_not_added_at_an_address_at_which_it_does_not_answer(
    cluster: ClusterProcess, tmp_path: Path
) -> None:
    """KIP-853: the leader tries the address first."""
    newcomer, voter = cluster.nodes[NEWCOMER], cluster.nodes[VOTER]
    properties = cluster.properties_path(NEWCOMER).read_text()
    wrong = tmp_path / "wrong.properties"
    elsewhere = properties.replace(f":{newcomer.controller_port}", f":{voter.controller_port}")
    wrong.write_text(elsewhere)
    patience = ("-X", "default.api.timeout.ms=1000")
    answer = cluster.quorum("--command-config", str(wrong), "add-controller", *patience)
    assert "within 1000 ms" in answer.errors
    assert f"Node {NEWCOMER} does not answer at the address that was given for it" in answer.errors
    assert answer.code == Exit.UNREACHABLE
    assert cluster.part(NEWCOMER) == "Observer"


def test_a_controller_is_added_and_removed_while_the_quorum_runs(cluster: ClusterProcess) -> None:
    directory = cluster.directory_id(NEWCOMER)
    shown = (
        f"controller {NEWCOMER} with directory id {directory} and endpoints: "
        f"CONTROLLER://127.0.0.1:{cluster.nodes[NEWCOMER].controller_port}\n"
    )
    assert cluster.add_controller(NEWCOMER, "--dry-run") == (0, f"DRY RUN of adding {shown}", "")
    assert cluster.part(NEWCOMER) == "Observer"
    assert cluster.add_controller(NEWCOMER) == (0, f"Added {shown}", "")
    assert cluster.part(NEWCOMER) == "Follower"
    again = cluster.add_controller(NEWCOMER)
    assert (again.code, again.errors.startswith("kraft: DUPLICATE_VOTER")) == (1, True)

    shown = f"KRaft controller {NEWCOMER} with directory id {directory}\n"
    assert cluster.remove_controller(NEWCOMER, directory, "--dry-run") == (0, f"DRY RUN of removing {shown}", "")
    other = cluster.remove_controller(NEWCOMER, random_uuid())
    assert (other.code, other.errors.startswith("kraft: VOTER_NOT_FOUND")) == (1, True)
    assert cluster.part(NEWCOMER) == "Follower"
    assert cluster.remove_controller(NEWCOMER, directory) == (0, f"Removed {shown}", "")
    assert cluster.part(NEWCOMER) == "Observer"


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
        (
            ["remove-controller", "-i", "1", "-d", "AAAA"],
            "Failed to parse --controller-directory-id: Input string `AAAA` decoded as 3 bytes, which is not equal to "
            "the expected 16 bytes of a base64-encoded UUID",
        ),
    ],
)
def test_impossible_requests_are_refused_before_a_controller_is_asked(
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


@pytest.mark.usefixtures("node")
def test_controllers_that_do_not_answer_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quorum, "_ANSWER_MS", 0.01)
    answer = run_command("quorum", "describe", "--status")
    assert (answer.code, answer.output) == (Exit.UNREACHABLE, "")
    assert answer.errors.startswith("kraft: The controllers do not answer: ")
    assert answer.errors.endswith(" A majority of them has to be alive.\n")


@pytest.mark.usefixtures("impatient")
def test_bootstrap_controllers_are_taken_before_and_after_the_name_of_the_command() -> None:
    before = run_command("quorum", "--bootstrap-controller", "127.0.0.1:1", "describe", "--status")
    after = run_command("quorum", "describe", "--status", "--bootstrap-controller", "127.0.0.1:1")
    assert before == after
    assert after.code == Exit.UNREACHABLE
    assert after.errors.startswith("kraft: No server of 127.0.0.1:1 can be used: ")
    for place in (("quorum", "-b", "127.0.0.1:2", "describe"), ("quorum", "describe", "-b", "127.0.0.1:2")):
        answer = run_command(*place, "--status", "--bootstrap-controller", "127.0.0.1:1")
        assert answer.code == Exit.USAGE
        assert answer.errors.startswith("kraft: Use one of --bootstrap-server and --bootstrap-controller.")


@pytest.mark.parametrize(
    "arguments",
    [
        ("start",),
        ("format", "-t", "LPJk-yErQECVHoKHOisngQ", "--config"),
        ("accept-loss", "--config"),
        ("quorum", "add-controller", "--command-config"),
    ],
)
def test_properties_file_that_cannot_be_read_is_wrong_usage(arguments: tuple[str, ...]) -> None:
    reason = "kraft: nowhere/node.properties cannot be read: No such file or directory.\n"
    assert run_command(*arguments, "nowhere/node.properties") == (Exit.USAGE, "", reason)


def test_port_of_the_other_kind_is_named_with_the_option_that_takes_it(node: NodeProcess) -> None:
    answer = run_command("topics", "list", "-b", f"127.0.0.1:{node.controller_port}")
    assert (answer.code, answer.output) == (Exit.UNREACHABLE, "")
    assert answer.errors == (
        f"kraft: A controller answers at 127.0.0.1:{node.controller_port}. -b takes ports of brokers; those of "
        "controllers are given to the `quorum` commands, by --bootstrap-controller.\n"
    )
    answer = run_command("quorum", "--bootstrap-controller", node.bootstrap, "describe", "--status")
    assert answer.output == ""
    assert "--bootstrap-controller takes ports of controllers, -b those of brokers" in answer.errors


@pytest.mark.usefixtures("impatient")
def test_unreachable_server_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    answer = run_command("topics", "list", "-b", "127.0.0.1:1")
    assert answer.errors.count("127.0.0.1:1 cannot be reached") == 1
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


@pytest.mark.usefixtures("impatient")
def test_a_server_that_is_not_there_is_named() -> None:
    answer = run_command("quorum", "--bootstrap-server", "127.0.0.1:1,[::1]:1", "describe", "--status")
    assert answer.code == Exit.UNREACHABLE
    assert answer.errors.startswith("kraft: No server of 127.0.0.1:1,[::1]:1 can be used: ")
    assert "127.0.0.1:1 cannot be reached: connection refused: no process listens there" in answer.errors


@pytest.mark.parametrize("servers", ["", "localhost", "localhost:", "localhost:x", ":1", "localhost:65536"])
def test_a_server_has_a_host_and_a_port(servers: str) -> None:
    answer = run_command("quorum", "--bootstrap-server", servers, "describe", "--status")
    assert (answer.code, answer.output) == (Exit.USAGE, "")
    assert "given as host1:9092,host2:9092\n" in answer.errors
