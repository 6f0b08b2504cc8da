"""Reads the configuration of a node for its commands: the properties file, and overrides from the command line."""

import os
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from broker.cli.errors import UnreadableFile
from broker.config import KafkaConfig, read_config
from metadata.configuration import InvalidConfig


class HostBroker(NamedTuple):
    """A broker of this host: the overrides of the file that make it, and the resulting configuration."""

    overrides: tuple[str, ...]
    config: KafkaConfig


class Host(NamedTuple):
    """The brokers of this host, and the configuration in the file that they follow from."""

    config: KafkaConfig
    brokers: list[HostBroker]


def read_node_config(path: str | None, overrides: Sequence[str]) -> KafkaConfig:
    """The configuration in the file at `path`, or that of a development node. Raises InvalidConfig, UnreadableFile.

    With `kraft.brokers`, it is that of the host's first broker. Its directories are absolute: they must not depend on
    the working directory of the process, which may change, and which differs for other processes that get their paths.
    """
    return read_host(path, overrides).brokers[0].config


def read_host(path: str | None, overrides: Sequence[str]) -> Host:
    """The brokers that the file at `path` asks for with `kraft.brokers`: one without that config.

    Raises InvalidConfig, UnreadableFile.
    """
    properties = None if path is None else read_file(path)
    config = _read_file_config(properties, overrides)
    if config.kraft_brokers == 1:
        check_log_directories([config])
        return Host(config, [HostBroker(tuple(overrides), config)])
    from broker.config.host_brokers import broker_overrides, check_addresses

    own = [(*overrides, *(f"{key}={value}" for key, value in changed.items())) for changed in broker_overrides(config)]
    brokers = [HostBroker(each, read_config(properties, each)) for each in own]
    configs = [broker.config for broker in brokers]
    check_addresses(configs, config.endpoints.http)
    check_log_directories(configs)
    return Host(config, brokers)


def check_log_directories(brokers: Iterable[KafkaConfig]) -> None:
    """Raises InvalidConfig if a log directory of these brokers is another one, or is in another one.

    Symbolic links are followed. The directories in a log directory are those of partitions, so that one named `disk-1`
    would be taken for partition 1 of topic `disk`. Only the metadata log may share the directory of partitions.
    """
    paths: dict[str, str] = {}
    metadata = []
    for config in brokers:
        own = [(_resolved(path), path) for path in config.log_directories]
        for resolved, path in own:
            if resolved in paths:
                raise InvalidConfig(f"Duplicate log directory found: {paths[resolved]} and {path} are the same")
            paths[resolved] = path
        resolved = _resolved(config.metadata_directory)
        if resolved not in dict(own):
            metadata.append((resolved, config.metadata_directory))
    for resolved, path in (*paths.items(), *metadata):
        outer = next((shown for outer, shown in paths.items() if outer != resolved and _is_in(resolved, outer)), None)
        if outer is not None:
            raise InvalidConfig(
                f"Log directory {path} is within log directory {outer}, where it could be taken for a partition's"
            )


def _resolved(path: str) -> str:
    """The path without symbolic links. Raises InvalidConfig for one that no file can have."""
    if "\0" in path:
        raise InvalidConfig(f"Log directory {path}: embedded null byte")
    return os.path.realpath(path)


def _is_in(path: str, directory: str) -> bool:
    return os.path.commonpath([path, directory]) == directory


def _read_file_config(properties: bytes | None, overrides: Sequence[str]) -> KafkaConfig:
    """The configuration of the file itself, with absolute directories."""
    config = read_config(properties, overrides)
    overrides = [*overrides, f"log.dirs={_absolute(config.log_directories)}"]
    if config.cordoned_log_dirs:
        overrides.append(f"cordoned.log.dirs={_absolute(config.cordoned_log_dirs)}")
    if config.metadata_log_dir is not None:
        overrides.append(f"metadata.log.dir={os.path.abspath(config.metadata_log_dir)}")
    return read_config(properties, overrides)


def _absolute(directories: Iterable[str]) -> str:
    """The value of a list of directories. `*` stands for all log directories. Raises InvalidConfig."""
    return ",".join(each if each == "*" else check_log_directory(os.path.abspath(each)) for each in directories)


def check_log_directory(path: str) -> str:
    """The path itself. Raises InvalidConfig if `log.dirs` would be taken for several directories with it."""
    if "," in path:
        raise InvalidConfig(
            f"Log directory {path}: a comma separates log directories, so none can have one in its path"
        )
    return path


def read_file(path: str) -> bytes:
    """The content of a file. Raises UnreadableFile."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise UnreadableFile(f"{path} cannot be read: {error.strerror or error}.") from error
