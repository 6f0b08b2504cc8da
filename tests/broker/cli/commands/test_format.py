"""`kraft format` and `kraft random-uuid`: flags, output, messages and files like those of Kafka's storage tool."""

from pathlib import Path

import pytest
import trio

from broker.cli.main import main
from broker.storage.meta_properties import MetaProperties, read_meta_properties
from broker.wire.uuids import decode_uuid, encode_uuid
from kraft.core import OffsetAndEpoch, ReplicaKey, Voter, VoterSet
from kraft.env import RealDisk
from kraft.log import Snapshots
from metadata.controller import RELEASES
from metadata.protocol import ScramMechanism
from metadata.protocol.scram import credential_of, salted_password
from metadata.records import FeatureLevelRecord, MetadataRecord, UserScramCredentialRecord, decode_record

CLUSTER_ID = "4L6g3nShT-eMCtK--X86sw"
DIRECTORY_IDS = ("JEXY6aqzQY-32P5TStzaFg", "MvDxzVmcRsaTz33bUuRU6A")
INITIAL_CONTROLLERS = f"1@localhost:9093:{DIRECTORY_IDS[0]},2@[::1]:9095:{DIRECTORY_IDS[1]}"

COMBINED = """
process.roles=broker,controller
listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093
"""
BROKER = """
process.roles=broker
listeners=PLAINTEXT://localhost:9092
"""


class Node:
    """A node's properties file and directories, and the command that formats them."""

    def __init__(self, directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.directory = directory
        self._capsys = capsys
        self.write(COMBINED)

    def write(self, properties: str, node_id: int = 1, log_dirs: str = "{0}/a,{0}/b") -> None:
        self.log_dirs = log_dirs.format(self.directory)
        (self.directory / "server.properties").write_text(
            f"{properties}\nnode.id={node_id}\nlog.dirs={self.log_dirs}\n"
            "controller.quorum.bootstrap.servers=localhost:9093\ncontroller.listener.names=CONTROLLER\n"
        )

    def format(self, *arguments: str, cluster_id: str = CLUSTER_ID) -> tuple[int, str, str]:
        """Format. Returns exit code, output and errors, in which the directories' parent is removed."""
        config = str(self.directory / "server.properties")
        code = main(["format", "-c", config, "-t", cluster_id, *arguments])
        output = self._capsys.readouterr()
        parent = f"{self.directory}/"
        return code, output.out.replace(parent, ""), output.err.replace(parent, "").removeprefix("kraft: ")

    def properties(self, name: str) -> MetaProperties:
        properties = read_meta_properties(RealDisk(), str(self.directory / name))
        assert properties is not None
        return properties

    def quorum(self) -> tuple[VoterSet, list[MetadataRecord]]:
        """The first voters and records of a quorum whose metadata log is in `a`."""
        snapshots = trio.run(Snapshots.open, RealDisk(), str(self.directory / "a" / "__cluster_metadata-0"))
        assert snapshots.latest == OffsetAndEpoch(0, 0)
        snapshot = snapshots.open_snapshot(snapshots.latest)
        return snapshot.voters, [decode_record(record) for portion in snapshot.portions for record in portion]


@pytest.fixture
def node(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Node:
    return Node(tmp_path, capsys)


def test_a_standalone_controller_is_the_quorums_one_voter(node: Node) -> None:
    code, output, errors = node.format("--standalone")
    assert (code, errors) == (0, "")
    assert output.splitlines() == [
        "Formatting dynamic metadata voter directory a with metadata.version 4.4-IV2.",
        "Formatting data directory b with metadata.version 4.4-IV2.",
    ]
    assert [node.properties(name).cluster_id for name in "ab"] == [CLUSTER_ID] * 2
    assert [node.properties(name).node_id for name in "ab"] == [1, 1]
    ids = [node.properties(name).directory_id or b"" for name in "ab"]
    assert ids[0] != ids[1]
    voters, _ = node.quorum()
    assert voters == VoterSet((Voter(ReplicaKey(1, encode_uuid(ids[0])), "localhost:9093"),))


@pytest.mark.parametrize(("node_id", "kind"), [(1, " voter"), (2, " voter"), (3, "")])
def test_initial_controllers_name_the_voters_and_their_directories(node: Node, node_id: int, kind: str) -> None:
    node.write(COMBINED, node_id, log_dirs="{0}/a")
    code, output, _ = node.format("--initial-controllers", INITIAL_CONTROLLERS)
    assert code == 0
    assert output == f"Formatting dynamic metadata{kind} directory a with metadata.version 4.4-IV2.\n"
    assert node.quorum()[0] == VoterSet(
        (
            Voter(ReplicaKey(1, DIRECTORY_IDS[0]), "localhost:9093"),
            Voter(ReplicaKey(2, DIRECTORY_IDS[1]), "::1:9095"),
        )
    )
    if node_id <= 2:
        assert node.properties("a").directory_id == decode_uuid(DIRECTORY_IDS[node_id - 1])


def test_a_controller_of_a_quorum_that_the_configuration_names_has_no_voters_in_its_log(node: Node) -> None:
    node.write(COMBINED + "controller.quorum.voters=1@localhost:9093,2@localhost:9095", log_dirs="{0}/a")
    assert node.format() == (0, "Formatting metadata directory a with metadata.version 4.4-IV2.\n", "")
    assert node.quorum()[0] == VoterSet()


def test_a_controller_that_joins_later_names_no_voters_either(node: Node) -> None:
    assert node.format("--no-initial-controllers")[0] == 0
    assert node.quorum()[0] == VoterSet()


def test_a_broker_gets_no_metadata_log(node: Node) -> None:
    node.write(BROKER, log_dirs="{0}/a")
    assert node.format()[0] == 0
    assert not (node.directory / "a" / "__cluster_metadata-0").exists()


def test_the_log_begins_with_the_features_levels(node: Node) -> None:
    assert node.format("-s", "--release-version", "4.0", "--feature", "kraft.version=1")[0] == 0
    assert node.quorum()[1] == [
        FeatureLevelRecord(name="eligible.leader.replicas.version", feature_level=1),
        FeatureLevelRecord(name="group.version", feature_level=1),
        FeatureLevelRecord(name="kraft.version", feature_level=1),
        FeatureLevelRecord(name="metadata.version", feature_level=25),
        FeatureLevelRecord(name="transaction.version", feature_level=2),
    ]


def test_kip_900_the_log_begins_with_the_users_of_add_scram(node: Node, tmp_path: Path) -> None:
    (tmp_path / "password").write_text("secret\n")
    users = ("SCRAM-SHA-256=[name=alice,password=secret]", f"SCRAM-SHA-512=[name=bob,passwordfile={tmp_path}/password]")
    assert node.format("-s", "--add-scram", users[0], "-S", users[1])[0] == 0
    found = [record for record in node.quorum()[1] if isinstance(record, UserScramCredentialRecord)]
    assert [(record.name, record.mechanism, record.iterations) for record in found] == [
        ("alice", ScramMechanism.SCRAM_SHA_256, 4096),
        ("bob", ScramMechanism.SCRAM_SHA_512, 4096),
    ]
    for record in found:
        mechanism = ScramMechanism(record.mechanism)
        expected = credential_of(mechanism, salted_password(mechanism, "secret", record.salt, 4096), record.salt, 4096)
        assert (record.stored_key, record.server_key) == (expected.stored_key, expected.server_key)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--add-scram", "SCRAM-SHA-256=[password=secret]"], "You must supply 'name' to add-scram"),
        (
            ["--add-scram", "SCRAM-SHA-256=[name=a,password=secret]", "--release-version", "3.3"],
            "SCRAM is only supported in metadata.version 3.5-IV2 or later.",
        ),
    ],
)
def test_invalid_users_are_refused_before_anything_is_formatted(node: Node, options: list[str], reason: str) -> None:
    code, _, errors = node.format("-s", *options)
    assert (code, errors) == (1, f"{reason}\n")
    assert not (node.directory / "a" / "meta.properties").exists()


def test_password_file_that_cannot_be_read_is_wrong_usage(node: Node) -> None:
    code, _, errors = node.format("-s", "--add-scram", "SCRAM-SHA-256=[name=a,passwordfile=missing]")
    assert (code, errors) == (2, "missing cannot be read: No such file or directory.\n")
    assert not (node.directory / "a" / "meta.properties").exists()


def test_releases_are_named_as_kafka_names_them(node: Node) -> None:
    """A release means its last level, for any patch number; levels of 0 are not written."""
    assert node.format("-s", "--release-version", "3.9.1", "--feature", "transaction.version=0")[0] == 0
    assert node.quorum()[1] == [
        FeatureLevelRecord(name="kraft.version", feature_level=1),
        FeatureLevelRecord(name="metadata.version", feature_level=21),
    ]


def test_formatted_directories_are_refused_or_ignored(node: Node) -> None:
    assert node.format("-s")[0] == 0
    before = node.properties("a")
    assert node.format("-s") == (
        1,
        "",
        "Log directory a is already formatted. Use --ignore-formatted to ignore this directory and format the others."
        "\n",
    )
    assert node.format("-s", "-g") == (0, "All of the log directories are already formatted.\n", "")
    node.write(COMBINED, log_dirs="{0}/a,{0}/b,{0}/c")
    assert node.format("-s", "-g") == (0, "Formatting data directory c with metadata.version 4.4-IV2.\n", "")
    assert node.properties("a") == before


def test_directories_of_others_are_refused(node: Node) -> None:
    assert node.format("-s")[0] == 0
    code, _, errors = node.format("-s", "-g", cluster_id="other")
    assert code == 1
    assert errors == f"Invalid cluster.id in: a/meta.properties. Expected other, but read {CLUSTER_ID}\n"
    node.write(COMBINED, node_id=7)
    code, _, errors = node.format("-s", "-g")
    assert code == 1
    assert errors.startswith("Stored node id 1 doesn't match previous node id 7 in a/meta.properties.")


def test_a_directory_that_cannot_be_read_is_left_out_and_one_is_needed(node: Node) -> None:
    (node.directory / "b").write_text("")  # not a directory
    code, output, _ = node.format("-s")
    assert code == 0
    assert output.splitlines()[0] == "I/O error trying to read log directory b. Ignoring..."
    node.write(COMBINED, log_dirs="{0}/b")
    assert node.format("-s")[2] == "No available log directories to format.\n"


MUST_CHOOSE = (
    "Because controller.quorum.voters is not set on this controller, you must specify one of the following: "
    "--standalone, --initial-controllers, or --no-initial-controllers."
)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], MUST_CHOOSE),
        (
            ["-s", "-r", "9.9"],
            f"Unknown release version '9.9'. Supported versions are: {', '.join(RELEASES.values())}",
        ),
        (
            ["-s", "-r", "4.0-IV0", "-f", "eligible.leader.replicas.version=1"],
            "eligible.leader.replicas.version could not be set to 1 because it depends on metadata.version level 23",
        ),
        (
            ["-s", "-r", "4.0", "-f", "metadata.version=25"],
            "Use --release-version instead of --feature metadata.version=X to avoid ambiguity.",
        ),
        (["-s", "-f", "metadata.version=6"], "No feature:metadata.version with feature level 6"),
        (["-s", "-f", "kraft.version=0"], "No feature:kraft.version with feature level 0"),
        (
            ["-s", "-f", "test.version=1"],
            "Unsupported feature: test.version. Supported features are: eligible.leader.replicas.version, "
            "group.version, kraft.version, metadata.version, share.version, streams.version, transaction.version",
        ),
        (["-s", "-f", "a"], "Can't parse feature=level string a: equals sign not found."),
        (["-s", "-f", "a=b"], "Can't parse feature=level string a=b: unable to parse b as a short."),
        (["-I", ","], "No voters given."),
        (["-I", "1"], "No @ found in dynamic voter string."),
        (["-I", "@a:1:x"], "Invalid @ at beginning of dynamic voter string."),
        (["-I", "x@a:1:x"], "Failed to parse node id in dynamic voter string."),
        (["--initial-controllers=-1@a:1:x"], "Invalid negative node id -1 in dynamic voter string."),
        (["-I", "1@"], "No hostname found after node id."),
        (["-I", "1@a"], "No colon following hostname could be found."),
        (["-I", "1@[::1:1:x"], "Hostname began with left bracket, but no right bracket was found."),
        (["-I", "1@[::1]1:x"], "Port section must start with a colon."),
        (["-I", "1@a:1"], "No colon following port could be found."),
        (["-I", "1@a:b:x"], "Failed to parse port in dynamic voter string."),
        (["-I", "1@a:65536:x"], "Invalid port 65536 in dynamic voter string."),
        (["-I", "1@a:1:x"], "Failed to parse directory ID in dynamic voter string."),
        (
            ["-I", f"1@a:1:{DIRECTORY_IDS[0]},1@b:1:{DIRECTORY_IDS[1]}"],
            "Node id 1 was specified more than once.",
        ),
    ],
)
def test_wrong_configs_are_refused_and_nothing_is_written(node: Node, arguments: list[str], message: str) -> None:
    assert node.format(*arguments) == (1, "", f"{message}\n")
    assert sorted(path.name for path in node.directory.iterdir()) == ["server.properties"]


def test_a_broker_is_no_standalone_controller(node: Node) -> None:
    node.write(BROKER)
    assert node.format("-s") == (1, "", "You can only use --standalone on a controller.\n")


def test_a_configuration_that_will_not_do_is_refused(node: Node) -> None:
    node.write("process.roles=queen")
    code, _, errors = node.format("-s")
    assert (code, errors.startswith("Invalid value queen for configuration process.roles")) == (1, True)


def test_random_uuids_are_uuids(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["random-uuid"]) == main(["random-uuid"]) == 0
    first, second = capsys.readouterr().out.split()
    assert first != second
    assert encode_uuid(decode_uuid(first)) == first
