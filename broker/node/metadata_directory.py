"""Checks the metadata directory before a node starts. Nothing is written before the checks.

A node that creates or joins a quorum by mistake does more harm than one that does not start. Brokers move the logs of
all topics aside that the metadata does not know, and a voter that has lost its log votes as if it still had it.
"""

from collections.abc import Collection
from typing import Final

from broker.config import KafkaConfig
from broker.storage.meta_properties import META_PROPERTIES
from broker.storage.partition_directory import METADATA_TOPIC, parse_partition_directory, partition_directory_name
from broker.wire.records import HEADER_SIZE, CorruptBatch, read_header
from kraft.core import ReplicaKey, VoterSet
from kraft.env import Disk, Env
from kraft.log import DURABLE_END, QUORUM_STATE, is_log, is_snapshot

METADATA_DIRECTORY: Final = partition_directory_name(METADATA_TOPIC, 0)
_UNFINISHED: Final = ".part"
# Kafka's storage tool writes this file beside meta.properties, with the first records of a controller.
_KAFKAS_BOOTSTRAP: Final = "bootstrap.checkpoint"
_OWN_MAGIC: Final = b"KRL1"  # the first bytes of the metadata log of this project's controllers


class MetadataDirectoryRefused(Exception):
    """This node cannot start with this metadata directory. The message is for the operator."""


def check_metadata_directory(env: Env, config: KafkaConfig) -> None:
    """Check the metadata log of a formatted directory. Raises MetadataDirectoryRefused, OSError.

    A controller's log must exist: formatting, or creating the cluster, has written it. A broker's log may be missing,
    since brokers fetch it.
    """
    path = f"{config.metadata_directory}/{METADATA_DIRECTORY}"
    names = _names(env.disk, path)
    own = [name for name in names if is_log(name) or is_snapshot(name)]
    _refuse_kafkas(env.disk, config.metadata_directory, own)
    if (not any(map(is_log, own)) and QUORUM_STATE in names) or (config.is_controller and not own):
        raise MetadataDirectoryRefused(_log_lost(config, path))
    for name in names:
        if name not in (QUORUM_STATE, DURABLE_END) and name not in own and not name.endswith(_UNFINISHED):
            env.trace("metadata_file_ignored", path=f"{path}/{name}", reason="it is not a file of a metadata log")


def check_location(disk: Disk, config: KafkaConfig) -> None:
    """Reject a metadata log in another directory than the configured one, as Kafka does.

    Raises MetadataDirectoryRefused.
    """
    for directory in config.log_directories:
        if directory != config.metadata_directory and disk.exists(f"{directory}/{METADATA_DIRECTORY}"):
            raise MetadataDirectoryRefused(
                f"Found unexpected metadata location in data directory {directory}/{METADATA_DIRECTORY} "
                f"(the configured metadata directory is {config.metadata_directory}). "
                f"Set metadata.log.dir to {directory}, or remove what does not belong there."
            )


def check_voters(config: KafkaConfig, me: ReplicaKey, voters: VoterSet) -> None:
    """Reject a quorum whose only voter is this node with another directory id, since no leader could be elected.

    Raises MetadataDirectoryRefused.
    """
    voter = voters.get(me.node_id)
    if voter is not None and len(voters.ids) == 1 and not voter.key.matches(me):
        path = f"{config.metadata_directory}/{META_PROPERTIES}"
        raise MetadataDirectoryRefused(
            f"{path} names the directory id {me.directory_id}, and the quorum's only voter is this node with the "
            f"directory id {voter.key.directory_id}, so that no leader can be elected. If the directory has not been "
            f"exchanged, set directory.id={voter.key.directory_id} in {path}."
        )


def kept_data(disk: Disk, directory: str) -> str | None:
    """The path of data that a node has stored in a log directory; None if there is none. Raises OSError."""
    if disk.exists(f"{directory}/{METADATA_DIRECTORY}/{QUORUM_STATE}"):
        return f"{directory}/{METADATA_DIRECTORY}"
    for name in disk.list(directory) if disk.exists(directory) else ():
        parsed = parse_partition_directory(name)
        if parsed is not None and not parsed.suffix and parsed.topic != METADATA_TOPIC:
            return f"{directory}/{name}"
    return None


def _names(disk: Disk, path: str) -> list[str]:
    try:
        return disk.list(path)
    except FileNotFoundError:
        return []
    except NotADirectoryError as error:
        raise MetadataDirectoryRefused(f"{path} is a file, and should be the directory of the metadata log.") from error


def _refuse_kafkas(disk: Disk, directory: str, own: Collection[str]) -> None:
    """Reject the files of Apache Kafka, whose metadata log holds record batches and not msgpack."""
    found = None
    if not own and disk.exists(f"{directory}/{_KAFKAS_BOOTSTRAP}"):
        found = f"{directory}/{_KAFKAS_BOOTSTRAP}"
    for name in own:
        path = f"{directory}/{METADATA_DIRECTORY}/{name}"
        if _is_kafkas(disk, path):
            found = path
    if found is not None:
        raise MetadataDirectoryRefused(
            f"{directory} was formatted by Apache Kafka's storage tool, or written by Apache Kafka: {found} is in its "
            "record format, and the metadata log of kraft has a format of its own, into which it cannot be converted. "
            "Format an empty directory with `kraft format`, and copy topics with a client, such as MirrorMaker."
        )


def _is_kafkas(disk: Disk, path: str) -> bool:
    try:
        file = disk.open(path)
    except IsADirectoryError:
        return False
    try:
        head = file.read(0, HEADER_SIZE)
        read_header(head)
    except CorruptBatch:
        return False
    finally:
        file.close()
    return not head.startswith(_OWN_MAGIC)


def _log_lost(config: KafkaConfig, path: str) -> str:
    lost = (
        f"{config.metadata_directory}/{META_PROPERTIES} says that node {config.node_id} has a metadata log, and the "
        f"log in {path} is gone."
    )
    if not config.is_controller:
        return f"{lost} Remove {path}: this broker fetches the metadata from the controllers again."
    return (
        f"{lost} Restore it from a backup. If other controllers have the metadata, remove {META_PROPERTIES} there, "
        "format the directory with `kraft format --no-initial-controllers`, and remove and add this controller as a "
        "voter. If "
        "none has, the topics are lost: to begin a new cluster, move all log directories away, and format again."
    )
