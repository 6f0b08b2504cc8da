"""The file `partition.metadata`: the topic id of a partition's directory (KIP-516).

A topic may be deleted and created again under the same name while a node is offline; the node distinguishes the two by
this id. Kafka's format: the lines `version: 0` and `topic_id: <22 characters>`.
"""

from broker.storage.whole_file import read_whole, replace_whole, sync_file
from broker.wire.uuids import ZERO_UUID, decode_uuid, encode_uuid
from kraft.env import Disk

PARTITION_METADATA = "partition.metadata"
PARTITION_METADATA_VERSION = 0


class CorruptPartitionMetadata(ValueError):
    """A `partition.metadata` without a valid topic id; the message names the file and the reason."""


def partition_metadata_path(directory: str) -> str:
    """The path of the file in a partition's directory."""
    return f"{directory}/{PARTITION_METADATA}"


def read_topic_id(disk: Disk, directory: str) -> bytes | None:
    """The topic id of a partition's directory, or None without the file.

    Raises CorruptPartitionMetadata (a power cut soon after the directory was made can empty the file), OSError.
    """
    path = partition_metadata_path(directory)
    try:
        content = read_whole(disk, path)
    except FileNotFoundError:
        return None
    try:
        return _decode(content)
    except ValueError as error:
        raise CorruptPartitionMetadata(f"Malformed partition metadata file [{path}]: {error}") from error


def encode_topic_id(topic_id: bytes) -> bytes:
    """The content of the file."""
    return f"version: {PARTITION_METADATA_VERSION}\ntopic_id: {encode_uuid(topic_id)}".encode()


def write_topic_id(disk: Disk, directory: str, topic_id: bytes) -> None:
    """Write the topic id of a partition's directory to the page cache. Raises OSError."""
    replace_whole(disk, partition_metadata_path(directory), encode_topic_id(topic_id))


async def sync_topic_id(disk: Disk, directory: str) -> None:
    """Make the file durable. Raises OSError, FsyncFailed."""
    await sync_file(disk, partition_metadata_path(directory))
    await disk.sync_dir(directory)


def _decode(content: bytes) -> bytes:
    fields = dict(line.split(": ", 1) for line in content.decode().splitlines() if ": " in line)
    if set(fields) != {"version", "topic_id"}:
        raise ValueError(f"expected version and topic_id, found {', '.join(fields) or 'nothing'}")
    if int(fields["version"]) != PARTITION_METADATA_VERSION:
        raise ValueError(f"unrecognised version {fields['version']}")
    topic_id = decode_uuid(fields["topic_id"])
    if topic_id == ZERO_UUID:
        raise ValueError("the topic id is zero")
    return topic_id
