"""`kraft dump-log` prints the same lines as Kafka's tool, and ends with exit code 1 if a file is damaged."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
import trio

from broker.cli import main
from broker.storage.log import Log
from broker.storage.log_config import LogConfig
from broker.wire.records import Compression, EndTransactionMarker, encode_end_transaction_marker
from kraft.core import VoterSet
from kraft.env import RealDisk
from kraft.recovery import format_log
from metadata.protocol import ScramMechanism
from metadata.protocol.scram import credential_of
from metadata.records import ConfigRecord, FeatureLevelRecord, UserScramCredentialRecord, encode_record
from tests.support.logs import NOW_MS, append, batch, close_log, listing, open_log
from tests.support.produced import make_topic
from tests.support.running_node import running_node

SEGMENT = "00000000000000000000"


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A closed log of ten batches of two records from an idempotent producer, over two segments."""
    config = LogConfig(index_interval_bytes=80, segment_bytes=700)
    log = open_log(tmp_path / "t-0", config)
    for number in range(10):
        append(
            log,
            b"v%d" % number,
            b"w%d" % number,
            key=b"k",
            timestamp=NOW_MS + number,
            producer_id=5,
            producer_epoch=1,
            base_sequence=2 * number,
            leader_epoch=3,
        )
    trio.run(close_log, log)
    return tmp_path / "t-0"


@pytest.fixture
def dump(directory: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, list[str], list[str]]]:
    """Dump some files. Returns the exit code, the lines and the reported problems."""

    def run(*names: str, options: tuple[str, ...] = ()) -> tuple[int, list[str], list[str]]:
        code = main(["dump-log", "--files", ",".join(str(directory / name) for name in names), *options])
        captured = capsys.readouterr()
        return code, captured.out.splitlines(), captured.err.splitlines()

    return run


Dump = Callable[..., tuple[int, list[str], list[str]]]


def damage(path: Path, at: int, value: int = 0xFF) -> None:
    content = bytearray(path.read_bytes())
    content[at] ^= value
    path.write_bytes(content)


def test_everything_in_a_sound_directory_passes(directory: Path, dump: Dump) -> None:
    names = sorted(path.name for path in directory.iterdir())
    assert len(names) > 8
    code, lines, complaints = dump(*names, options=("--deep-iteration",))
    assert (code, complaints) == (0, [])
    assert [line for line in lines if line.startswith("Dumping")] == [f"Dumping {directory / name}" for name in names]


def test_batches_have_kafkas_line(directory: Path, dump: Dump) -> None:
    _, lines, _ = dump(f"{SEGMENT}.log")
    assert lines[1] == "Log starting offset: 0"
    assert lines[3].startswith(
        "baseOffset: 2 lastOffset: 3 count: 2 baseSequence: 2 lastSequence: 3 producerId: 5 producerEpoch: 1 "
        "partitionLeaderEpoch: 3 isTransactional: false isControl: false deleteHorizonMs: OptionalLong.empty position: "
    )
    assert f"CreateTime: {NOW_MS + 1} size: " in lines[3]
    assert " magic: 2 compresscodec: none crc: " in lines[3]
    assert lines[3].endswith("isvalid: true")


def test_records_are_printed_on_demand(dump: Dump) -> None:
    _, lines, _ = dump(f"{SEGMENT}.log", options=("--print-data-log",))
    assert lines[3] == (
        f"| offset: 0 CreateTime: {NOW_MS} keySize: 1 valueSize: 2 sequence: 0 headerKeys: [] key: k payload: v0"
    )
    _, lines, _ = dump(f"{SEGMENT}.log", options=("--print-data-log", "--skip-record-metadata"))
    assert lines[3] == "| key: k payload: v0"
    _, lines, _ = dump(f"{SEGMENT}.log", options=("--deep-iteration",))
    assert lines[3].endswith("headerKeys: []")


def test_index_entries_are_printed_and_verified(directory: Path, dump: Dump) -> None:
    code, lines, _ = dump(f"{SEGMENT}.index", f"{SEGMENT}.timeindex")
    size = len(batch(b"v0", b"w0", key=b"k"))
    assert code == 0
    assert f"offset: 3 position: {size}" in lines
    assert f"timestamp: {NOW_MS + 1} offset: 3" in lines
    _, lines, _ = dump(f"{SEGMENT}.index", options=("--verify-index-only",))
    assert len(lines) == 1
    _, lines, _ = dump(f"{SEGMENT}.timeindex", options=("--index-sanity-check",))
    assert lines[1].endswith("passed sanity check.")


def test_snapshots_and_epochs_are_printed(directory: Path, dump: Dump) -> None:
    _, lines, _ = dump(listing(directory, ".snapshot")[-1], "leader-epoch-checkpoint")
    assert lines[1] == (
        f"producerId: 5 producerEpoch: 1 coordinatorEpoch: -1 currentTxnFirstOffset: -1 lastTimestamp: {NOW_MS + 9} "
        f"firstSequence: 18 lastSequence: 19 lastOffset: 19 offsetDelta: 1 timestamp: {NOW_MS + 9}"
    )
    assert lines[3] == "epoch: 3 startOffset: 0"


def test_a_bad_checksum_is_wrong(directory: Path, dump: Dump) -> None:
    damage(directory / f"{SEGMENT}.log", 65)
    code, lines, complaints = dump(f"{SEGMENT}.log")
    assert code == 1
    assert lines[2].endswith("isvalid: false")
    assert len(complaints) == 1


@pytest.mark.parametrize("tail", [b"\0" * 100, b"half a batch", b"\xff" * 200])
def test_bytes_after_the_last_batch_are_a_problem(directory: Path, dump: Dump, tail: bytes) -> None:
    path = directory / f"{SEGMENT}.log"
    path.write_bytes(path.read_bytes() + tail)
    code, lines, _ = dump(f"{SEGMENT}.log")
    assert code == 1
    assert lines[-1] == f"Found {len(tail)} invalid bytes at the end of {SEGMENT}.log"


def test_offsets_that_go_back_are_wrong_and_gaps_are_told(directory: Path, dump: Dump) -> None:
    path = directory / f"{SEGMENT}.log"
    content = path.read_bytes()
    size = len(batch(b"v0", b"w0", key=b"k"))
    path.write_bytes(content[:size] + content[2 * size : 3 * size])
    code, lines, _ = dump(f"{SEGMENT}.log", options=("--deep-iteration",))
    assert code == 0
    assert any(line.endswith("1 is followed by 4") for line in lines)
    path.write_bytes(content[:size] * 2)
    assert dump(f"{SEGMENT}.log")[0] == 1


@pytest.mark.parametrize(("suffix", "at"), [(".index", 7), (".index", 3), (".timeindex", 7), (".timeindex", 11)])
def test_an_index_that_disagrees_with_the_log_is_wrong(directory: Path, dump: Dump, suffix: str, at: int) -> None:
    damage(directory / (SEGMENT + suffix), at, 0x04)
    code, _, complaints = dump(SEGMENT + suffix)
    assert code == 1
    assert complaints


@pytest.mark.parametrize("suffix", [".index", ".timeindex", ".snapshot", ".txnindex"])
def test_files_that_cannot_be_read_are_wrong(directory: Path, dump: Dump, suffix: str) -> None:
    (directory / (SEGMENT + suffix)).write_bytes(b"odd")
    assert dump(SEGMENT + suffix)[0] == 1


def test_a_missing_file_is_wrong_and_an_unknown_one_is_passed_over(directory: Path, dump: Dump) -> None:
    assert dump("00000000000000000099.log")[0] == 1
    (directory / "notes.txt").write_text("hello")
    code, lines, _ = dump("notes.txt")
    assert code == 0
    assert lines[1].startswith("Ignoring unknown file")


def test_control_batches_and_compression_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    directory = tmp_path / "t-1"
    log: Log = open_log(directory)
    append(log, b"x", compression=Compression.LZ4)
    marker = encode_end_transaction_marker(
        EndTransactionMarker(is_commit=True, coordinator_epoch=4),
        timestamp=NOW_MS,
        producer_id=1,
        producer_epoch=0,
        base_offset=1,
    )
    path = directory / f"{SEGMENT}.log"
    path.write_bytes(path.read_bytes() + marker)
    assert main(["dump-log", "--files", str(path), "--deep-iteration"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "compresscodec: lz4" in lines[2]
    assert "isTransactional: true isControl: true" in lines[4]
    assert lines[5].endswith("endTxnMarker: COMMIT coordinatorEpoch: 4")


@pytest.fixture
def metadata(tmp_path: Path) -> Path:
    """The metadata log of a node that has stopped, and the snapshot from its formatting."""

    async def run() -> None:
        async with running_node(tmp_path, metadata_log_max_snapshot_interval_ms=0) as node:
            await make_topic(f"127.0.0.1:{node.port}", "orders")

    trio.run(run)
    return tmp_path / "data" / "__cluster_metadata-0"


def dump_file(path: Path, *options: str) -> int:
    return main(["dump-log", "--files", str(path), *options])


def test_metadata_log_is_printed(metadata: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = metadata / f"{SEGMENT}.log"
    assert dump_file(log, "--deep-iteration") == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    lines = printed.out.splitlines()
    assert lines[1] == "Log starting offset: 0"
    assert lines[2].startswith(
        "baseOffset: 0 lastOffset: 0 count: 1 partitionLeaderEpoch: 1 isControl: true position: 0"
    )
    assert lines[3] == '| offset: 0 LEADER_CHANGE: {"leaderId": 1, "grantingVoters": [1]}'
    assert lines[5].startswith('| offset: 1 VOTERS: [{"voterId": 1, "directoryId": "')
    payloads = [json.loads(line.partition(" payload: ")[2]) for line in lines if " payload: " in line]
    assert {"REGISTER_BROKER", "FEATURE_LEVEL", "TOPIC", "PARTITION"} <= {each["type"] for each in payloads}
    (topic,) = [each["data"] for each in payloads if each["type"] == "TOPIC"]
    (partition,) = [each["data"] for each in payloads if each["type"] == "PARTITION"]
    assert (topic["name"], partition["topic_id"], partition["replicas"]) == ("orders", topic["topic_id"], [1])
    assert dump_file(log) == 0
    assert not [line for line in capsys.readouterr().out.splitlines() if line.startswith("|")]


def test_secrets_of_the_metadata_are_not_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    credential = credential_of(ScramMechanism.SCRAM_SHA_256, b"salted", b"hunter2-salt", 4096)
    user = UserScramCredentialRecord(
        name="alice",
        mechanism=1,
        salt=credential.salt,
        stored_key=b"hunter2-stored",
        server_key=b"hunter2-server",
        iterations=4096,
    )
    secrets = ("listener.name.a.plain.sasl.jaas.config", "listener.name.a.ssl.keystore.password")
    configs = [ConfigRecord(resource_type=4, resource_name="1", name=name, value="hunter2") for name in secrets]
    records = [encode_record(record) for record in (user, *configs)]
    log = tmp_path / "__cluster_metadata-0"
    log.mkdir()
    trio.run(format_log, RealDisk(), str(log), VoterSet(), records)
    [snapshot] = log.glob("*.checkpoint")
    assert dump_file(snapshot) == 0
    printed = capsys.readouterr().out
    assert "alice" in printed
    assert printed.count("[hidden]") == 5
    assert "hunter2" not in printed


def test_damage_to_the_metadata_log_is_wrong(metadata: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = metadata / f"{SEGMENT}.log"
    size = log.stat().st_size
    damage(log, -3, 0x10)
    assert dump_file(log) == 1
    assert re.fullmatch(rf"{log}: damaged at byte \d+: entries up to \d+ were durable\n", capsys.readouterr().err)
    damage(log, -3, 0x10)
    log.write_bytes(log.read_bytes() + b"torn")
    assert dump_file(log) == 1
    assert capsys.readouterr().err == f"{log}: 4 invalid bytes at the end\n"
    assert dump_file(log, "--max-bytes", str(size)) == 0
    damage(log, 0)  # the first bytes name the format
    assert dump_file(log) == 1
    assert f"{log}: damaged at byte 0" in capsys.readouterr().err


def test_snapshot_of_the_metadata_is_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record = encode_record(FeatureLevelRecord(name="group.version", feature_level=1))
    trio.run(format_log, RealDisk(), str(tmp_path / "metadata"), VoterSet(), [record])
    (snapshot,) = (tmp_path / "metadata").glob("*.checkpoint")
    assert dump_file(snapshot) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1:3] == ["Snapshot end offset: 0, epoch: 0", "| voters: []"]
    (payload,) = [json.loads(line.removeprefix("| payload: ")) for line in lines[3:]]
    assert payload["data"] == {"name": "group.version", "feature_level": 1}
    damage(snapshot, -10)
    assert dump_file(snapshot) == 1
    assert "is damaged at byte" in capsys.readouterr().err
