"""The transaction index: written with its markers, rebuilt by recovery and truncation, and read for Fetch (KIP-98)."""

from pathlib import Path

import pytest

from broker.storage.aborted_transactions import aborted_transactions
from broker.storage.log import Log
from broker.storage.log_config import LogConfig
from broker.wire.errors import ErrorCode, KafkaError
from broker.wire.records import EndTransactionMarker, Record, encode_batch, encode_end_transaction_marker
from broker.wire.records.control import ControlRecordType, control_key
from tests.support.logs import NOW_MS, append, batch, close_log, open_log

A, B = 7, 8


def write(log: Log, producer_id: int, *, sequence: int = 0, epoch: int = 0) -> int:
    fields = {"producer_id": producer_id, "producer_epoch": epoch, "base_sequence": sequence, "transactional": True}
    return append(log, b"value", **fields)


def end(
    log: Log, producer_id: int, *, commit: bool, epoch: int = 0, version: int = 0, coordinator_epoch: int = 0
) -> int:
    marker = encode_end_transaction_marker(
        EndTransactionMarker(commit, coordinator_epoch),
        timestamp=NOW_MS,
        producer_id=producer_id,
        producer_epoch=epoch,
    )
    info = log.append_as_coordinator(memoryview(bytearray(marker)), 0, NOW_MS, transaction_version=version)
    log.commit()
    return info.first_offset


def aborted(log: Log, offset: int = 0, *, end_offset: int | None = None) -> list[tuple[int, int]]:
    bound = log.log_end_offset if end_offset is None else end_offset
    found = log.read(offset, 1 << 30, upper_bound=bound, min_one_batch=True)
    return [(each.producer_id, each.first_offset) for each in aborted_transactions(log, found, offset, bound)]


def some_transactions(log: Log) -> None:
    """A commits 0 and 1, B aborts 2 (its marker is 5), A aborts 3 (its marker is 4)."""
    write(log, A)
    end(log, A, commit=True)
    write(log, B)
    write(log, A, sequence=1)
    end(log, A, commit=False)
    end(log, B, commit=False)


def test_aborted_transactions_are_found_by_their_records(tmp_path: Path) -> None:
    log = open_log(tmp_path / "topic-0")
    some_transactions(log)

    assert sorted(aborted(log)) == [(A, 3), (B, 2)]
    assert aborted(log, 5) == [(B, 2)]
    assert aborted(log, end_offset=2) == []
    entries = log.segments.active.transaction_index.since(0)
    assert [tuple(entry) for entry in entries] == [(0, A, 3, 4, 2), (0, B, 2, 5, 6)]


@pytest.mark.parametrize("clean", [True, False])
def test_index_survives_a_restart(tmp_path: Path, clean: bool) -> None:
    log = open_log(tmp_path / "topic-0", LogConfig(segment_bytes=300))
    some_transactions(log)
    assert len(log.segments) > 1
    log.close()
    for path in (tmp_path / "topic-0").glob("*.txnindex"):
        if not clean:
            path.unlink()  # it need not be durable

    log = open_log(tmp_path / "topic-0", LogConfig(segment_bytes=300), clean=clean)
    assert sorted(aborted(log)) == [(A, 3), (B, 2)]
    assert sorted(aborted(log, 5)) == [(B, 2)]


def test_torn_index_is_rebuilt_after_a_crash(tmp_path: Path) -> None:
    log = open_log(tmp_path / "topic-0")
    some_transactions(log)
    log.close()
    (path,) = (tmp_path / "topic-0").glob("*.txnindex")
    path.write_bytes(path.read_bytes()[:-5])

    log = open_log(tmp_path / "topic-0")
    assert sorted(aborted(log)) == [(A, 3), (B, 2)]


async def test_damaged_index_of_a_clean_log_is_rebuilt(tmp_path: Path) -> None:
    log = open_log(tmp_path / "topic-0")
    some_transactions(log)
    await close_log(log)
    (path,) = (tmp_path / "topic-0").glob("*.txnindex")
    path.write_bytes(b"damaged")

    assert sorted(aborted(open_log(tmp_path / "topic-0", clean=True))) == [(A, 3), (B, 2)]


def test_truncation_removes_the_transactions_whose_markers_it_removes(tmp_path: Path) -> None:
    log = open_log(tmp_path / "topic-0")
    some_transactions(log)
    log.truncate_to(5)
    assert aborted(log) == [(A, 3)]
    log.truncate_to(4)
    assert aborted(log) == []


@pytest.mark.parametrize(
    ("version", "marker_epoch", "is_accepted"),
    [(0, 3, True), (0, 4, True), (0, 2, False), (2, 3, False), (2, 4, True), (2, 2, False)],
)
def test_kip_890_marker_has_a_later_epoch_than_its_transaction(
    tmp_path: Path, version: int, marker_epoch: int, is_accepted: bool
) -> None:
    log = open_log(tmp_path / "topic-0")
    write(log, A, epoch=3)
    if is_accepted:
        end(log, A, commit=False, epoch=marker_epoch, version=version)
        assert log.producers.first_unstable_offset == 0, "until the marker is committed"
        return
    with pytest.raises(KafkaError) as raised:
        end(log, A, commit=False, epoch=marker_epoch, version=version)
    assert raised.value.code == ErrorCode.INVALID_PRODUCER_EPOCH
    assert log.log_end_offset == 1


def test_kafka_19999_marker_may_be_repeated_while_no_transaction_is_open(tmp_path: Path) -> None:
    log = open_log(tmp_path / "topic-0")
    write(log, A, epoch=3)
    for _ in range(2):
        end(log, A, commit=False, epoch=4, version=2)
    write(log, A, epoch=4)
    with pytest.raises(KafkaError):
        end(log, A, commit=False, epoch=4, version=2)


def test_marker_of_a_replaced_coordinator_is_fenced(tmp_path: Path) -> None:
    log = open_log(tmp_path / "topic-0")
    write(log, A)
    end(log, A, commit=True, coordinator_epoch=5)
    write(log, A, sequence=1)
    with pytest.raises(KafkaError) as raised:
        end(log, A, commit=True, coordinator_epoch=4)
    assert raised.value.code == ErrorCode.TRANSACTION_COORDINATOR_FENCED


def test_malformed_marker_leaves_its_transaction_open_and_the_replay_goes_on(tmp_path: Path) -> None:
    """As a follower, and when the log is opened: later batches of all producers are still known."""
    log = open_log(tmp_path / "topic-0")
    write(log, A)
    marker = encode_batch(
        [Record(timestamp=NOW_MS, key=control_key(ControlRecordType.COMMIT), value=b"short")],
        base_offset=log.log_end_offset,
        leader_epoch=0,
        producer_id=A,
        producer_epoch=0,
        transactional=True,
        control=True,
    )
    log.append_as_follower(memoryview(bytearray(marker)), 0, NOW_MS)
    log.commit()
    write(log, B)
    end(log, B, commit=False)
    events: list[tuple[str, dict[str, object]]] = []
    log.close()
    for snapshot in (tmp_path / "topic-0").glob("*.snapshot"):
        snapshot.unlink()
    opened = open_log(tmp_path / "topic-0", trace=lambda kind, **fields: events.append((kind, fields)))
    for each in (log, opened):
        assert each.producers.has_open_transaction(A, 0)
        assert not each.producers.has_open_transaction(B, 0)
        assert each.producers.first_unstable_offset == 0
        assert aborted(each) == [(B, 2)]
    malformed = [fields for kind, fields in events if kind == "storage_marker_malformed"]
    assert [(each["offset"], each["producer_id"]) for each in malformed] == [(1, A)]
    end(opened, A, commit=False)
    assert opened.producers.get(A).current_txn_first_offset < 0  # type: ignore[union-attr]


def test_kip_890_marker_ends_a_verification(tmp_path: Path) -> None:
    """A batch that was verified before its transaction ended must not begin a transaction without an end."""
    log = open_log(tmp_path / "topic-0")
    verification = log.producers.begin_verification(A, 0, 0, has_own_epoch=False)
    log.producers.check_verified(A, 0, 0, verification)
    end(log, A, commit=False)
    with pytest.raises(KafkaError) as raised:
        log.producers.check_verified(A, 0, 0, verification)
    assert raised.value.code == ErrorCode.INVALID_TXN_STATE


def test_kip_890_marker_of_the_previous_transaction_ends_no_verification(tmp_path: Path) -> None:
    """A producer may begin its next transaction, with the next epoch, before the last one's marker is in the log."""
    log = open_log(tmp_path / "topic-0")
    write(log, A, epoch=0)
    verification = log.producers.begin_verification(A, 1, 0, has_own_epoch=True)
    end(log, A, commit=True, epoch=1, version=2)
    log.producers.check_verified(A, 1, 0, verification)
    write(log, A, epoch=1)


def test_kip_890_marker_of_the_verified_transaction_ends_its_verification(tmp_path: Path) -> None:
    log = open_log(tmp_path / "topic-0")
    verification = log.producers.begin_verification(A, 1, 0, has_own_epoch=True)
    end(log, A, commit=False, epoch=2, version=2)
    with pytest.raises(KafkaError) as raised:
        log.producers.check_verified(A, 1, 0, verification)
    assert raised.value.code == ErrorCode.INVALID_TXN_STATE


def test_kip_890_open_transaction_needs_no_verification(tmp_path: Path) -> None:
    log = open_log(tmp_path / "topic-0")
    write(log, A)
    assert log.producers.begin_verification(A, 0, 1, has_own_epoch=False) is None
    log.producers.check_verified(A, 0, 1, None)
    assert log.producers.begin_verification(A, 1, 0, has_own_epoch=False) is not None, "another epoch"


@pytest.mark.parametrize(
    ("sequence", "has_own_epoch", "is_accepted"), [(5, False, True), (5, True, False), (6, False, False)]
)
def test_kip_890_first_batch_of_a_transaction_has_the_lowest_sequence(
    tmp_path: Path, sequence: int, has_own_epoch: bool, is_accepted: bool
) -> None:
    log = open_log(tmp_path / "topic-0")
    verification = log.producers.begin_verification(A, 0, 5, has_own_epoch=has_own_epoch)
    if is_accepted:
        log.producers.check_verified(A, 0, sequence, verification)
    else:
        with pytest.raises(KafkaError) as raised:
            log.producers.check_verified(A, 0, sequence, verification)
        assert raised.value.code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_coordinator_batch_larger_than_a_segment_is_refused(tmp_path: Path) -> None:
    log = open_log(tmp_path / "topic-0", LogConfig(segment_bytes=100))
    large = batch(bytes(200), producer_id=A, producer_epoch=0, base_sequence=0, transactional=True)
    with pytest.raises(KafkaError) as raised:
        log.append_as_coordinator(large, 0, NOW_MS, transaction_version=0)
    assert raised.value.code == ErrorCode.RECORD_LIST_TOO_LARGE
