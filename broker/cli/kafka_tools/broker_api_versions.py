"""kafka-broker-api-versions: the versions of each API that brokers serve (BrokerApiVersionsCommand.java)."""

from collections.abc import Iterable, Sequence
from typing import Final

from broker.cli.kafka_tools.clients import open_admin
from broker.cli.kafka_tools.errors import message_of
from broker.cli.kafka_tools.options import BOOTSTRAP_SERVER, COMMAND_CONFIG, OptionParser
from broker.cli.printing import print_text
from broker.client.admin import ApiVersions
from broker.client.types import Node
from broker.printable import printable
from broker.wire.api import APIS
from broker.wire.api.names import api_name

# The APIs that brokers serve clients: a broker without one of them is shown as not supporting it.
_CLIENT_APIS: Final = (
    *range(4),
    *range(8, 52),
    55,
    57,
    60,
    61,
    *range(64, 67),
    68,
    69,
    71,
    72,
    *range(74, 82),
    *range(83, 93),
)

PARSER: Final = OptionParser(
    "This tool helps to retrieve broker version information.", BOOTSTRAP_SERVER, COMMAND_CONFIG
)


async def run(arguments: Sequence[str]) -> int:
    """Runs the tool and returns its exit code."""
    options = PARSER.parse(arguments)
    options.require("bootstrap-server")
    async with open_admin(options) as admin:
        nodes = {node.id: node for node in (await admin.describe_cluster()).nodes}
        results = await admin.describe_api_versions(nodes)
    for node_id, outcome in results.items():
        node = _shown(nodes[node_id])
        if isinstance(outcome, ApiVersions):
            lines = ",\n\t".join(_lines(outcome))
            print_text(f"{node} -> (\n\t{lines}\n)")
        else:
            print_text(f"{node} -> ERROR: {message_of(outcome)}")
    return 0


def _shown(node: Node) -> str:
    """A node as Kafka's clients print it."""
    rack = "null" if node.rack is None else node.rack
    return printable(f"{node.host}:{node.port} (id: {node.id} rack: {rack} isFenced: false)")


def _lines(versions: ApiVersions) -> Iterable[str]:
    """Returns a line for each API, by key, with the highest version that this client could use."""
    for key in sorted({*versions.apis, *_CLIENT_APIS}):
        name = f"{api_name(key).partition(' (')[0]}({key})"
        if key not in versions.apis:
            yield f"{name}: UNSUPPORTED"
            continue
        lowest, highest = versions.apis[key]
        served = str(lowest) if lowest == highest else f"{lowest} to {highest}"
        if key not in APIS:
            yield f"{name}: {served}"
        elif APIS[key].max_version < lowest:
            yield f"{name}: {served} [unusable: node too new]"
        elif highest < APIS[key].min_version:
            yield f"{name}: {served} [unusable: node too old]"
        else:
            yield f"{name}: {served} [usable: {min(APIS[key].max_version, highest)}]"
