"""Reads the configuration of a node for its commands: the properties file, and overrides from the command line."""

import os
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from broker.cli.errors import UnreadableFile
from broker.config import KafkaConfig, read_config


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
        return Host(config, [HostBroker(tuple(overrides), config)])
    from broker.config.host_brokers import broker_overrides, check_ports

    own = [(*overrides, *(f"{key}={value}" for key, value in changed.items())) for changed in broker_overrides(config)]
    brokers = [HostBroker(each, read_config(properties, each)) for each in own]
    check_ports([broker.config for broker in brokers], config.endpoints.http)
    return Host(config, brokers)


def _read_file_config(properties: bytes | None, overrides: Sequence[str]) -> KafkaConfig:
    """The configuration of the file itself, with absolute directories."""
    config = read_config(properties, overrides)
    overrides = [*overrides, f"log.dirs={_absolute(config.log_directories)}"]
    if config.cordoned_log_dirs:
        overrides.append(f"cordoned.log.dirs={_absolute(config.cordoned_log_dirs)}")
    if config.metadata_log_dir is not None:
        overrides.append(f"metadata.log.dir={_absolute([config.metadata_log_dir])}")
    return read_config(properties, overrides)


def _absolute(directories: Iterable[str]) -> str:
    """The directories of a config. `*` stands for all log directories."""
    return ",".join(each if each == "*" else os.path.abspath(each) for each in directories)


def read_file(path: str) -> bytes:
    """The content of a file. Raises UnreadableFile."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise UnreadableFile(f"{path} cannot be read: {error.strerror or error}.") from error
