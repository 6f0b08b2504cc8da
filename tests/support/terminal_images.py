"""Generates docs/images: the output of commands on a terminal, as SVG. `make terminal-images` runs it.

The cluster, its topics and its group are real. One of its nodes is killed before the last image.
"""

import os
import pty
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from io import StringIO
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.text import Text

from broker.client import SyncConsumer, SyncProducer
from tests.support.cluster_process import ClusterProcess, new_cluster
from tests.support.command_output import succeed
from tests.support.running_cluster import TIMEOUTS

_IMAGES: Final = Path(__file__).parents[2] / "docs" / "images"
_COLUMNS: Final = 100
_CONFIGS: Final = TIMEOUTS | {"offsets.topic.num.partitions": "1", "offsets.topic.replication.factor": "3"}
_GROUP: Final = "tour"
_SPARE: Final = 4
_RECORDS: Final = 600
_READ: Final = 420
# A line that a command has erased: a progress bar.
_ERASED: Final = re.compile(r"[^\n]*\n(?:\x1b\[\?25h)?\r?\x1b\[1A\x1b\[2K")


@contextmanager
def populated_cluster(directory: Path) -> Iterator[ClusterProcess]:
    """Three nodes and a further broker, two topics with records, and a group that has read some of them."""
    with new_cluster(directory, others={_SPARE: "broker"}, overrides=_CONFIGS) as cluster:
        cluster.start()
        os.environ["KRAFT_BOOTSTRAP_SERVERS"] = cluster.bootstrap
        succeed("topics", "create", "orders", "-p", "6", "-r", "3", "--config", "retention.ms=3600000")
        succeed("topics", "create", "payments", "-p", "3", "-r", "2")
        with SyncProducer(cluster.bootstrap) as producer:
            for number in range(_RECORDS):
                producer.send_soon("orders", b'{"amount": %d}' % number, key=b"customer-%d" % (number % 40))
                producer.send_soon("payments", b"paid", key=b"customer-%d" % (number % 40))
        with SyncConsumer(
            cluster.bootstrap,
            topics=["orders"],
            group_id=_GROUP,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        ) as consumer:
            read = 0
            while read < _READ:
                read += len(consumer.fetch(max_records=_READ - read, timeout_s=30))
            consumer.commit()
        yield cluster


def on_a_terminal(
    *arguments: str,
    columns: int = _COLUMNS,
    tool: str | None = None,
    watch: Callable[[str], None] = lambda output: None,
) -> str:
    """The output of the installed command, or of one of Kafka's tools, on a terminal, with its colours.

    `watch` is called with the output so far, whenever there is more.
    """
    parent, child = pty.openpty()
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": str(columns)}
    program = [str(Path(sys.executable).with_name("kraft"))]
    command = [*(program if tool is None else [sys.executable, "-m", "broker.cli.kafka_tools", tool]), *arguments]
    process = subprocess.Popen(command, stdin=child, stdout=child, stderr=child, env=environment, close_fds=True)
    os.close(child)
    output = bytearray()
    # Reading from a pty fails once its other end is closed.
    while read := _read(parent):
        output += read
        watch(output.decode(errors="surrogateescape"))
    os.close(parent)
    process.wait()
    return output.decode(errors="surrogateescape").replace("\r\n", "\n")


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 65536)
    except OSError:
        return b""


def save_image(name: str, commands: Sequence[str], addresses: dict[str, str]) -> None:
    """Save an SVG of a terminal in which these commands were run one after the other."""
    console = Console(record=True, width=_COLUMNS, file=StringIO(), force_terminal=True, color_system="truecolor")
    for command in commands:
        console.print(Text.assemble(("$ ", "bold green"), (command, "bold")))
        output = on_a_terminal(*command.split()[1:])
        for address, shown in addresses.items():
            output = output.replace(address, shown.ljust(len(address)))
        console.print(Text.from_ansi(_ERASED.sub("", output).rstrip("\n")))
    image = console.export_svg(title="kraft", unique_id=name)
    # rich refers to fonts on a server. An image in a repository uses the fonts of the reader instead.
    image = re.sub(r"@font-face \{.*?\}\s*", "", image, flags=re.DOTALL)
    (_IMAGES / f"{name}.svg").write_text(image.replace("Fira Code, monospace", "monospace"))


def main() -> None:
    """Make all images."""
    _IMAGES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as directory, populated_cluster(Path(directory)) as cluster:
        # The ports are replaced by those of a cluster that `kraft cluster start` has started.
        addresses = {
            f"127.0.0.1:{cluster.nodes[node].port}": f"localhost:{9090 + 2 * node}" for node in cluster.brokers
        }
        save_image("topics", ["kraft topics list", "kraft topics describe orders"], addresses)
        save_image("group-lag", [f"kraft groups lag {_GROUP}"], addresses)
        save_image("cluster-drain", [f"kraft cluster drain {_SPARE} --yes"], addresses)
        succeed("cluster", "undrain", str(_SPARE))
        save_image("reassign-plan", ["kraft reassign plan payments"], addresses)
        cluster.nodes[3].kill()
        while "down" not in on_a_terminal("cluster", "health"):
            time.sleep(0.2)
        save_image("cluster-health", ["kraft cluster health"], addresses)


if __name__ == "__main__":
    main()
