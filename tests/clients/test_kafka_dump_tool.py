"""Apache Kafka's own dump tool reads a node's data directory: all records, indexes and producer snapshots."""

import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks import apache_kafka, kafka_tools
from tests.support.aiokafka_driver import AiokafkaDriver
from tests.support.confluent_driver import create_topic
from tests.support.driver import COMPRESSIONS
from tests.support.node_process import NodeProcess
from tests.support.records import Shape, awkward_records

pytestmark = pytest.mark.clients

RECORDS = 12_000


Dump = Callable[[list[Path]], dict[Path, list[str]]]


@pytest.fixture(scope="module")
def dump_tool(kafka_jars: None) -> Dump:
    """Kafka's DumpLogSegments with deep iteration. Returns the lines of its output for each file."""

    def dump(files: list[Path]) -> dict[Path, list[str]]:
        names = ",".join(map(str, files))
        line = apache_kafka.java("org.apache.kafka.tools.DumpLogSegments", "--deep-iteration", "--files", names)
        done = subprocess.run(line, capture_output=True, text=True, check=True, timeout=300)
        sections = done.stdout.split("Dumping ")[1:]
        return {Path(lines[0]): lines[1:] for lines in map(str.splitlines, sections)}

    return dump


def test_kafkas_dump_tool_reads_a_data_directory_without_complaint(
    new_node: Callable[..., NodeProcess], dump_tool: Dump, figure: Callable[[str], None]
) -> None:
    """Segments rolled by size, a dense index, every compression, a kill and a clean stop."""
    node = new_node()
    node.start()
    for round_number in range(2):
        for compression in COMPRESSIONS:
            if round_number == 0:
                create_topic(node.bootstrap, compression, 1, segment_bytes=1_048_576, index_interval_bytes=512)
            now_ms = time.time_ns() // 1_000_000
            records = awkward_records(RECORDS // 2, partitions=1, shape=Shape(), first_timestamp_ms=now_ms - RECORDS)
            AiokafkaDriver().produce(node.bootstrap, compression, records, compression)
        if round_number == 0:
            node.kill()
            node.start()
    node.stop()

    files = kafka_tools.data_files(node.data_dir)
    complaints = kafka_tools.complaints(files)
    assert not complaints, "\n".join(complaints[:20])

    dumped = dump_tool([path for path in files if path.suffix in (".log", ".snapshot")])
    for compression in COMPRESSIONS:
        segments = sorted((node.data_dir / f"{compression}-0").glob("*.log"))
        lines = [line for segment in segments for line in dumped[segment]]
        batches = [line for line in lines if line.startswith("baseOffset: ")]
        offsets = [int(line.split()[2]) for line in lines if line.startswith("| offset: ")]
        assert offsets == list(range(RECORDS))
        assert all("isvalid: true" in line for line in batches)
        # A client sends a batch uncompressed if compression would make it larger.
        codecs = {line.partition("compresscodec: ")[2].split()[0] for line in batches}
        assert compression in codecs <= {compression, "none"}, codecs
    assert len(list((node.data_dir / "none-0").glob("*.log"))) > 1
    newest_snapshot = max((node.data_dir / "none-0").glob("*.snapshot"))
    assert len([line for line in dumped[newest_snapshot] if line.startswith("producerId: ")]) == 2
    figure(f"{len(files)} files read")
