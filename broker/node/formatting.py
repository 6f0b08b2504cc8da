"""Formats the log directories of a node (KIP-631), optionally with the initial voters of the quorum (KIP-853).

`meta.properties` is written last: a directory whose formatting was interrupted by a crash counts as not formatted.
"""

from collections.abc import Callable, Mapping, Sequence

import attrs

from broker.config import KafkaConfig
from broker.storage.log_dir import LogDir, LogDirInUse
from broker.storage.meta_properties import MetaProperties, read_meta_properties, verify_meta_properties
from broker.storage.partition_directory import METADATA_TOPIC, partition_directory_name
from broker.wire.uuids import decode_uuid, encode_uuid, new_uuid
from kraft import lazy_attrs
from kraft.core import ReplicaKey, Voter, VoterSet
from kraft.core.control_records import is_valid_voter
from kraft.env import Env
from kraft.log import QUORUM_STATE
from kraft.recovery import format_log
from metadata.controller import DEFAULT_FEATURES, METADATA_VERSION, RELEASES
from metadata.records import FeatureLevelRecord, UserScramCredentialRecord, encode_record

_PORT_MAX = 65535


class FormattingRefused(Exception):
    """The directories cannot be formatted like this. The message is for the operator."""


@lazy_attrs.frozen
class Formatting:
    """The content of formatted directories. `voters` are the initial voters of the quorum. They are None if the
    configuration has the voters, or if this node joins an existing quorum. `users` are the first ones (KIP-900).
    """

    cluster_id: str
    voters: VoterSet | None = None
    features: Mapping[str, int] = DEFAULT_FEATURES
    users: Sequence[UserScramCredentialRecord] = attrs.field(default=(), repr=False)


async def format_directories(
    env: Env, config: KafkaConfig, formatting: Formatting, *, ignore_formatted: bool, report: Callable[[str], None]
) -> None:
    """Format the directories of the node that are not formatted yet. Calls `report` with a line about each of them.

    Raises FormattingRefused if a directory is already formatted and `ignore_formatted` is false, MetaPropertiesError if
    one belongs to another cluster or node, and LogDirInUse, OSError, FsyncFailed.
    """
    directories = sorted({*config.log_directories, config.metadata_directory})
    stored = _read_stored(env, directories, report)
    verify_meta_properties(
        {path: properties for path, properties in stored.items() if properties is not None},
        cluster_id=formatting.cluster_id,
        node_id=config.node_id,
    )
    formatted = [path for path, properties in stored.items() if properties is not None]
    if formatted and not ignore_formatted:
        raise FormattingRefused(
            f"Log directory {formatted[0]} is already formatted. "
            "Use --ignore-formatted to ignore this directory and format the others."
        )
    if not stored:
        raise FormattingRefused("No available log directories to format.")
    empty = [path for path, properties in stored.items() if properties is None]
    if not empty:
        report("All of the log directories are already formatted.")
    for path in empty:
        await _format(env, config, formatting, path, report)


def parse_initial_controllers(text: str) -> VoterSet:
    """Read `id@host:port:directory id,...` as Kafka's storage tool does. Raises FormattingRefused."""
    voters = [_parse_voter(entry.strip()) for entry in text.split(",") if entry.strip()]
    if not voters:
        raise FormattingRefused("No voters given.")
    by_id: dict[int, Voter] = {}
    for voter in voters:
        if voter.node_id in by_id:
            raise FormattingRefused(f"Node id {voter.node_id} was specified more than once.")
        by_id[voter.node_id] = voter
    return VoterSet(tuple(voters))


def standalone_voters(env: Env, config: KafkaConfig) -> VoterSet:
    """A quorum of this node alone. Raises FormattingRefused if the node is not a controller."""
    if not config.is_controller:
        raise FormattingRefused("You can only use --standalone on a controller.")
    listener = config.endpoints.advertised_controller_listeners[0]
    key = ReplicaKey(config.node_id, encode_uuid(new_uuid(env.rng.randbytes)))
    return VoterSet((Voter(key, f"{listener.host or 'localhost'}:{listener.port}"),))


def _read_stored(
    env: Env, directories: Sequence[str], report: Callable[[str], None]
) -> dict[str, MetaProperties | None]:
    """The properties of each directory by its path, None for an unformatted one. Unreadable ones are left out."""
    stored: dict[str, MetaProperties | None] = {}
    for path in directories:
        try:
            stored[path] = read_meta_properties(env.disk, path)
        except OSError:
            report(f"I/O error trying to read log directory {path}. Ignoring...")
    return stored


async def _format(
    env: Env, config: KafkaConfig, formatting: Formatting, path: str, report: Callable[[str], None]
) -> None:
    release = RELEASES[formatting.features[METADATA_VERSION]]
    kind, directory_id = _kind(env, config, formatting, path)
    report(f"Formatting {kind} {path} with {METADATA_VERSION} {release}.")
    directory = LogDir(env, path, producer_expiration_ms=config.producer_id_expiration_ms)
    directory.claim()
    try:
        if directory.properties is not None:
            raise LogDirInUse(f"{path} has just been formatted by another process")
        _refuse_used(env, path)
        if path == config.metadata_directory and config.is_controller:
            await format_log(
                env.disk,
                f"{path}/{partition_directory_name(METADATA_TOPIC, 0)}",
                formatting.voters or VoterSet(),
                [
                    encode_record(FeatureLevelRecord(name=name, feature_level=level))
                    for name, level in sorted(formatting.features.items())
                ]
                + [encode_record(user) for user in formatting.users],
            )
        await directory.format(MetaProperties(formatting.cluster_id, config.node_id, directory_id))
    finally:
        directory.release()


def _refuse_used(env: Env, path: str) -> None:
    """Raises FormattingRefused if the directory holds a metadata log of a node that has run.

    Formatting would otherwise write the first records of a new cluster beside that log.
    """
    log = f"{path}/{partition_directory_name(METADATA_TOPIC, 0)}"
    if env.disk.exists(f"{log}/{QUORUM_STATE}"):
        raise FormattingRefused(
            f"Log directory {path} has no meta.properties, and holds the metadata log {log} of a node that has run. "
            "Restore meta.properties, or move the directory away to begin with an empty one."
        )


def _kind(env: Env, config: KafkaConfig, formatting: Formatting, path: str) -> tuple[str, bytes]:
    """The kind of a directory in Kafka's words, and its id. The id of a voter is the one that `voters` names."""
    directory_id = new_uuid(env.rng.randbytes)
    if path != config.metadata_directory:
        return "data directory", directory_id
    if formatting.voters is None:
        return "metadata directory", directory_id
    voter = formatting.voters.get(config.node_id)
    if voter is None:
        return "dynamic metadata directory", directory_id
    return "dynamic metadata voter directory", decode_uuid(voter.key.directory_id)


def _parse_voter(text: str) -> Voter:
    node_id, at, rest = text.partition("@")
    if not at:
        raise FormattingRefused("No @ found in dynamic voter string.")
    if not node_id:
        raise FormattingRefused("Invalid @ at beginning of dynamic voter string.")
    if not node_id.removeprefix("-").isdecimal():
        raise FormattingRefused("Failed to parse node id in dynamic voter string.")
    if node_id.startswith("-"):
        raise FormattingRefused(f"Invalid negative node id {node_id} in dynamic voter string.")
    if not rest:
        raise FormattingRefused("No hostname found after node id.")
    host, rest = _split_host(rest)
    port, colon, directory_id = rest.partition(":")
    if not colon:
        raise FormattingRefused("No colon following port could be found.")
    address = f"{host}:{_port(port)}"
    voter = Voter(ReplicaKey(int(node_id), _directory_id(directory_id)), address)
    if not is_valid_voter(voter):
        raise FormattingRefused(f"Invalid node id, host or directory ID in dynamic voter string {text}.")
    return voter


def _split_host(text: str) -> tuple[str, str]:
    """Split off the host, which is an IPv6 address if it is in brackets. Returns the text after its colon, too."""
    if text.startswith("["):
        host, bracket, rest = text[1:].partition("]")
        if not bracket:
            raise FormattingRefused("Hostname began with left bracket, but no right bracket was found.")
    else:
        host, colon, rest = text.partition(":")
        if not colon:
            raise FormattingRefused("No colon following hostname could be found.")
        rest = colon + rest
    if not rest.startswith(":"):
        raise FormattingRefused("Port section must start with a colon.")
    return host, rest[1:]


def _port(text: str) -> int:
    if not text.removeprefix("-").isdecimal():
        raise FormattingRefused("Failed to parse port in dynamic voter string.")
    port = int(text)
    if not 0 <= port <= _PORT_MAX:
        raise FormattingRefused(f"Invalid port {port} in dynamic voter string.")
    return port


def _directory_id(text: str) -> str:
    try:
        return encode_uuid(decode_uuid(text))
    except ValueError as error:
        raise FormattingRefused("Failed to parse directory ID in dynamic voter string.") from error
