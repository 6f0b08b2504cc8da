"""The metadata log and its snapshots in readable form, checked. Their format is not Kafka's; the lines resemble those
of Kafka's dump tool.
"""

import json
from collections.abc import Callable
from enum import IntEnum
from typing import Any, Final

import attrs
import msgpack

from broker.printable import printable
from broker.wire.uuids import decode_uuid, encode_uuid
from kraft.core import OffsetAndEpoch, VoterSet
from kraft.core.control_records import decode_voters
from kraft.env import Disk
from kraft.log import CorruptLog, Snapshots, is_snapshot
from kraft.log.frame import MAGIC, Frame
from kraft.log.log_content import read_content
from kraft.msgpack_reading import MalformedMessage
from kraft.replicated_log import BatchKind
from metadata.configuration.synonyms import is_secret
from metadata.records import ConfigRecord, MalformedRecord, MetadataRecord, UnknownRecordType, decode_record

_RECORD_INDENT: Final = "|"
_HIDDEN: Final = "[hidden]"
_UUID_BYTES: Final = len(decode_uuid(encode_uuid(bytes(16))))
_OFFSET_DIGITS: Final = 20
_EPOCH: Final = slice(21, 31)


class MetadataDump:
    """Prints the files of a metadata log. `add_problem` is called with a path and what is wrong with the file."""

    def __init__(self, disk: Disk, write: Callable[[str], None], add_problem: Callable[[str, str], None]) -> None:
        self._disk = disk
        self._write = write
        self._add_problem = add_problem

    def has_log(self, path: str) -> bool:
        """True if the file at `path` begins as metadata logs do. Raises OSError."""
        return self._disk.open(path).read(0, len(MAGIC)) == MAGIC

    def dump_log(self, path: str, max_bytes: int, *, prints_records: bool) -> None:
        """Print the first `max_bytes` of a log, which reading them ends at damage. Raises OSError."""
        file = self._disk.open(path)
        size = file.size()
        start_offset = int(path.rpartition("/")[2].partition(".")[0])
        self._write(f"Log starting offset: {start_offset}")
        data = file.read(0, min(size, max_bytes))
        content = read_content(data, start_offset)
        position = 0
        for frame in content.frames:
            self._dump_frame(path, position, frame, prints_records=prints_records)
            position = frame.end
        left = data[position:]
        if len(data) == size and content.lost_end is not None:
            self._add_problem(path, f"damaged at byte {position}: entries up to {content.lost_end.offset} were durable")
        elif len(data) == size and left.strip(b"\0"):
            self._add_problem(path, f"{len(left)} invalid bytes at the end")

    def dump_snapshot(self, path: str) -> None:
        """Print a snapshot's voters and records. Raises OSError."""
        directory, _, name = path.rpartition("/")
        assert is_snapshot(name), "the caller has checked the name"
        place = OffsetAndEpoch(int(name[:_OFFSET_DIGITS]), int(name[_EPOCH]))
        self._write(f"Snapshot end offset: {place.offset}, epoch: {place.epoch}")
        try:
            snapshot = Snapshots(self._disk, directory or ".").open_snapshot(place)
            self._write(f"{_RECORD_INDENT} voters: {_shown_voters(snapshot.voters)}")
            for portion in snapshot.portions:
                for record in portion:
                    self._write(f"{_RECORD_INDENT} payload: {self._shown(path, BatchKind.DATA, record)}")
        except CorruptLog as error:
            self._add_problem(path, error.damage)

    def _dump_frame(self, path: str, position: int, frame: Frame, *, prints_records: bool) -> None:
        batch = frame.batch
        is_control = "false" if batch.kind is BatchKind.DATA else "true"
        self._write(
            f"baseOffset: {batch.base_offset} lastOffset: {batch.last_offset} count: {len(batch.records)} "
            f"partitionLeaderEpoch: {batch.epoch} isControl: {is_control} position: {position} "
            f"CreateTime: {batch.append_time_ms} size: {frame.end - position} isvalid: true"
        )
        if prints_records:
            for offset, record in enumerate(batch.records, batch.base_offset):
                self._write(f"{_RECORD_INDENT} offset: {offset} {self._shown_entry(path, batch.kind, record)}")

    def _shown_entry(self, path: str, kind: BatchKind, record: bytes) -> str:
        label = "payload" if kind is BatchKind.DATA else kind.name
        return f"{label}: {self._shown(path, kind, record)}"

    def _shown(self, path: str, kind: BatchKind, record: bytes) -> str:
        try:
            if kind is BatchKind.VOTERS:
                return _shown_voters(decode_voters(record))
            if kind is BatchKind.LEADER_CHANGE:
                leader_id, granting = msgpack.unpackb(record)
                return json.dumps({"leaderId": leader_id, "grantingVoters": granting})
            return _shown_record(decode_record(record))
        except (MalformedMessage, MalformedRecord, UnknownRecordType, ValueError, TypeError) as error:
            self._add_problem(path, str(error))
            return printable(repr(record))


def _shown_record(record: MetadataRecord) -> str:
    shown = {"type": record.type.name, "version": record.version, "data": _fields(record)}
    return json.dumps(shown, default=_json_value)


def _fields(value: Any) -> dict[str, object]:
    """The fields of an attrs object, without secrets, and without those of a newer release if there are none."""
    fields = {field.name: getattr(value, field.name) for field in attrs.fields(type(value))}
    secrets = [field.name for field in attrs.fields(type(value)) if field.repr is False and field.name != "unknown"]
    if isinstance(value, ConfigRecord) and is_secret(value.name):
        secrets.append("value")
    fields |= {name: _HIDDEN for name in secrets if fields[name] is not None}
    return {name: each for name, each in fields.items() if name != "unknown" or each}


def _shown_voters(voters: VoterSet) -> str:
    return json.dumps(
        [
            {"voterId": each.node_id, "directoryId": each.key.directory_id, "address": each.address}
            for each in voters.voters
        ]
    )


def _json_value(value: Any) -> object:
    """The value of a field that JSON does not have. Bytes are ids, or else text."""
    if attrs.has(type(value)):
        return _fields(value)
    if isinstance(value, bytes):
        return encode_uuid(value) if len(value) == _UUID_BYTES else value.decode("utf-8", "replace")
    return value.name if isinstance(value, IntEnum) else str(value)
