"""kafka-delete-records: delete records of partitions up to an offset (DeleteRecordsCommand.java)."""

from collections.abc import Sequence
from typing import Final

from broker.cli.kafka_tools.clients import open_admin
from broker.cli.kafka_tools.errors import exception_of
from broker.cli.kafka_tools.json_files import entries, field, partition_of, read_json
from broker.cli.kafka_tools.options import BOOTSTRAP_SERVER, COMMAND_CONFIG, OptionParser, ToolExit, option
from broker.cli.printing import print_text
from broker.client.types import TopicPartition

PARSER: Final = OptionParser(
    "This tool helps to delete records of the given partitions down to the specified offset.",
    BOOTSTRAP_SERVER,
    COMMAND_CONFIG,
    option(
        "offset-json-file",
        "file",
        'REQUIRED: a file with the new first offsets: {"partitions": [{"topic": "foo", "partition": 1, "offset": 1}], '
        '"version": 1}. The offset -1 deletes all records.',
    ),
)


async def run(arguments: Sequence[str]) -> int:
    """Runs the tool and returns its exit code."""
    options = PARSER.parse(arguments)
    options.require("bootstrap-server", "offset-json-file")
    offsets = _offsets(options.value("offset-json-file"))
    async with open_admin(options) as admin:
        print_text("Executing records delete operation")
        results = await admin.delete_records(offsets)
    print_text("Records delete operation completed:")
    for each, outcome in results.items():
        name = f"partition: {each.topic}-{each.partition}"
        if isinstance(outcome, int):
            print_text(f"{name}\tlow_watermark: {outcome}")
        else:
            print_text(f"{name}\terror: {exception_of(outcome)}")
    return 0


def _offsets(path: str) -> dict[TopicPartition, int]:
    """Reads the offsets by partition from the file of --offset-json-file. Raises ToolExit."""
    offsets: dict[TopicPartition, int] = {}
    duplicates = []
    for entry in entries(read_json(path), "partitions"):
        partition = partition_of(entry)
        if partition in offsets:
            duplicates.append(f"{partition.topic}-{partition.partition}")
        offsets[partition] = field(entry, "offset", int)
    if duplicates:
        raise ToolExit(1, f"Offset json file contains duplicate topic partitions: {','.join(duplicates)}")
    return offsets
