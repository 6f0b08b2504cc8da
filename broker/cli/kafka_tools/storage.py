"""kafka-storage info: the log directories of a node, and whether they are formatted (StorageTool.scala).

The tool's other commands are those of `kraft`: `format` and `random-uuid`.
"""

from collections.abc import Sequence
from typing import Final

from broker.cli.errors import UnreadableFile
from broker.cli.kafka_tools.files import directory_problem
from broker.cli.kafka_tools.options import OptionParser, ToolExit, UsageFailure, option
from broker.cli.node_config import read_host
from broker.cli.printing import print_text
from broker.storage.meta_properties import META_PROPERTIES, MetaProperties, MetaPropertiesError, read_meta_properties
from broker.wire.uuids import encode_uuid
from kraft.env import real_env
from metadata.configuration import InvalidConfig

PARSER: Final = OptionParser(
    "Get information about the Kafka log directories on this node.",
    option("config|c", "file", "REQUIRED: the node's server.properties."),
)


async def run(arguments: Sequence[str]) -> int:
    """Runs `info` and returns its exit code."""
    if arguments[:1] != ["info"]:
        raise UsageFailure("Give one of the commands info, format and random-uuid.", PARSER.help_text())
    options = PARSER.parse(arguments[1:])
    options.require("config")
    return _print_info(options.value("config"))


def _print_info(path: str) -> int:
    """Prints the directories and their problems. Returns exit code 1 if there are problems. Raises ToolExit."""
    try:
        configs = [broker.config for broker in read_host(path, ()).brokers]
    except (InvalidConfig, UnreadableFile) as error:
        raise ToolExit(1, str(error)) from error
    directories = sorted({each for config in configs for each in (*config.log_directories, config.metadata_directory)})
    found = [directory for directory in directories if directory_problem(directory) is None]
    if found:
        print_text("Found log directory:" if len(found) == 1 else "Found log directories:")
        print_text("\n".join(f"  {directory}" for directory in found) + "\n")
    formatted, problems = _read(directories)
    if formatted:
        print_text(f"Found metadata: {_shown(formatted[0])}\n")
    if problems:
        print_text("Found problem:" if len(problems) == 1 else "Found problems:")
        print_text("\n".join(f"  {problem}" for problem in problems) + "\n")
    return 1 if problems else 0


def _read(directories: Sequence[str]) -> tuple[list[MetaProperties], list[str]]:
    """The properties of the directories, and their problems."""
    formatted: list[MetaProperties] = []
    problems = []
    disk = real_env(lambda kind, /, **fields: None).disk
    for directory in directories:
        if problem := directory_problem(directory):
            problems.append(problem)
            continue
        try:
            properties = read_meta_properties(disk, directory)
        except (MetaPropertiesError, OSError) as error:
            problems.append(f"Error loading {directory}/{META_PROPERTIES}: {error}")
            continue
        if properties is None:
            problems.append(f"{directory} is not formatted.")
        else:
            formatted.append(properties)
            if formatted[-1].cluster_id != formatted[0].cluster_id:
                problems.append("Mismatched cluster IDs between storage directories.")
            elif formatted[-1].node_id != formatted[0].node_id:
                problems.append("Mismatched node IDs between storage directories.")
    return formatted, problems


def _shown(properties: MetaProperties) -> str:
    """Formats the properties as Java prints a map."""
    values = {"cluster.id": properties.cluster_id, "node.id": properties.node_id, "version": 1}
    if properties.directory_id is not None:
        values["directory.id"] = encode_uuid(properties.directory_id)
    return "{" + ", ".join(f"{key}={values[key]}" for key in sorted(values)) + "}"
