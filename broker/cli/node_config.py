"""What a node's commands begin with: its properties file, and the overrides of their command line."""

import os
from collections.abc import Sequence

from broker.config import KafkaConfig, read_config


def read_node_config(path: str | None, overrides: Sequence[str]) -> KafkaConfig:
    """The configuration in the file at `path`, or of a development node. Raises ConfigError, OSError.

    Directories are absolute in it: where they are must not depend on where the process is, later on and for those it
    tells of them.
    """
    properties = None
    if path is not None:
        with open(path, "rb") as file:
            properties = file.read()
    config = read_config(properties, overrides)
    absolute = ",".join(map(os.path.abspath, config.log_directories))
    overrides = [*overrides, f"log.dirs={absolute}"]
    if config.metadata_log_dir is not None:
        overrides.append(f"metadata.log.dir={os.path.abspath(config.metadata_log_dir)}")
    return read_config(properties, overrides)
