"""Reads the configuration of a node for its commands: the properties file, and overrides from the command line."""

import os
from collections.abc import Sequence

from broker.cli.errors import UnreadableFile
from broker.config import KafkaConfig, read_config


def read_node_config(path: str | None, overrides: Sequence[str]) -> KafkaConfig:
    """The configuration in the file at `path`, or that of a development node. Raises InvalidConfig, UnreadableFile.

    Its directories are absolute: they must not depend on the working directory of the process, which may change, and
    which differs for other processes that get their paths.
    """
    properties = None if path is None else read_file(path)
    config = read_config(properties, overrides)
    absolute = ",".join(map(os.path.abspath, config.log_directories))
    overrides = [*overrides, f"log.dirs={absolute}"]
    if config.metadata_log_dir is not None:
        overrides.append(f"metadata.log.dir={os.path.abspath(config.metadata_log_dir)}")
    return read_config(properties, overrides)


def read_file(path: str) -> bytes:
    """The content of a file. Raises UnreadableFile."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise UnreadableFile(f"{path} cannot be read: {error.strerror or error}.") from error
