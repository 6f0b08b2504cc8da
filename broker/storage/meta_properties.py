"""The file `meta.properties`: a log directory's cluster and node (KIP-631), and its own id (KIP-858).

A Java properties file in version 1: `version=1`, `cluster.id`, `node.id` and `directory.id`; ids have 22 characters. A
directory of another cluster or node must not be used: its records belong to other partitions.
"""

import re
from collections.abc import Mapping

from broker.storage.whole_file import read_whole, replace_durably
from broker.wire.uuids import decode_uuid, encode_uuid
from kraft import lazy_attrs
from kraft.env import Disk

META_PROPERTIES = "meta.properties"
META_PROPERTIES_VERSION = 1
_REMEDY = (
    f"Restore the file, which has the lines version={META_PROPERTIES_VERSION}, cluster.id, node.id and directory.id, "
    "from a backup; other nodes show these ids with `kraft quorum describe`"
)
# Directory ids below this are reserved, for example for an unknown directory (KIP-858).
_RESERVED_IDS = 100


class MetaPropertiesError(Exception):
    """A `meta.properties` with which the node must not start; the message is for the operator."""


class InconsistentClusterId(MetaPropertiesError):
    """The log directory belongs to another cluster."""


class InconsistentNodeId(MetaPropertiesError):
    """The log directory belongs to another node."""


@lazy_attrs.frozen
class MetaProperties:
    """`directory_id` is None if the directory was formatted before Kafka 3.7; it gets one when it is opened."""

    cluster_id: str
    node_id: int
    directory_id: bytes | None

    def encode(self) -> bytes:
        properties = {
            "version": str(META_PROPERTIES_VERSION),
            "cluster.id": self.cluster_id,
            "node.id": str(self.node_id),
        }
        if self.directory_id is not None:
            properties["directory.id"] = encode_uuid(self.directory_id)
        return "".join(f"{key}={_escape(value)}\n" for key, value in sorted(properties.items())).encode()


def decode_meta_properties(content: bytes, path: str) -> MetaProperties:
    """The properties in the content of a file. Raises MetaPropertiesError, with `path` in its message."""
    try:
        properties = _parse(content.decode())
        version = int(properties.get("version", "0"))
        if version != META_PROPERTIES_VERSION:
            raise MetaPropertiesError(f"Unknown meta.properties version number {version} in {path}. {_REMEDY}")
        directory_id = properties.get("directory.id")
        return MetaProperties(
            properties["cluster.id"],
            int(properties["node.id"]),
            None if directory_id is None else decode_uuid(directory_id),
        )
    except KeyError as error:
        raise MetaPropertiesError(f"{error.args[0]} was not found in {path}. {_REMEDY}") from error
    except ValueError as error:
        raise MetaPropertiesError(f"Unable to read {path}: {error}. {_REMEDY}") from error


def read_meta_properties(disk: Disk, directory: str) -> MetaProperties | None:
    """The properties of a log directory; None if it was never formatted. Raises MetaPropertiesError, OSError."""
    path = f"{directory}/{META_PROPERTIES}"
    try:
        content = read_whole(disk, path)
    except FileNotFoundError:
        return None
    return decode_meta_properties(content, path)


async def write_meta_properties(disk: Disk, directory: str, properties: MetaProperties) -> None:
    """Format a log directory, durably. Raises OSError, FsyncFailed."""
    await replace_durably(disk, f"{directory}/{META_PROPERTIES}", properties.encode())


def verify_meta_properties(by_directory: Mapping[str, MetaProperties], *, cluster_id: str, node_id: int) -> None:
    """Reject directories of another cluster or node, and copies of one directory.

    Raises InconsistentClusterId, InconsistentNodeId, MetaPropertiesError, with Kafka's messages.
    """
    seen: dict[bytes, str] = {}
    for directory, properties in by_directory.items():
        path = f"{directory}/{META_PROPERTIES}"
        if properties.cluster_id != cluster_id:
            raise InconsistentClusterId(
                f"Invalid cluster.id in: {path}. Expected {cluster_id}, but read {properties.cluster_id}"
            )
        if properties.node_id != node_id:
            raise InconsistentNodeId(
                f"Stored node id {properties.node_id} doesn't match previous node id {node_id} in {path}. "
                "If you moved your data, make sure your configured node id matches. If you intend to create a new "
                "node, you should remove all data in your data directories."
            )
        if properties.directory_id is not None:
            if int.from_bytes(properties.directory_id, "big") < _RESERVED_IDS:
                raise MetaPropertiesError(
                    f"Invalid reserved directory ID {encode_uuid(properties.directory_id)} found in {path}"
                )
            other = seen.setdefault(properties.directory_id, directory)
            if other != directory:
                raise MetaPropertiesError(
                    f"Duplicate directory ID {encode_uuid(properties.directory_id)} found. "
                    f"It was the ID of {other}, but also of {directory}"
                )


def _parse(text: str) -> dict[str, str]:
    lines = (line.lstrip() for line in text.splitlines())
    pairs = (re.split(r"(?<!\\)\s*[=:]\s*", line, maxsplit=1) for line in lines if line and line[0] not in "#!")
    return {pair[0]: re.sub(r"\\(.)", r"\1", pair[1]) for pair in pairs if len(pair) == 2}


def _escape(value: str) -> str:
    return re.sub(r"([\\=:#! ])", r"\\\1", value)
