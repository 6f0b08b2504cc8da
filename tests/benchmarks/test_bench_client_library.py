"""Runs the benchmark of the client libraries briefly, with every library; the figures do not matter."""

import json
import re
from collections.abc import Iterator

import pytest

from benchmarks import library_loads, library_reads
from benchmarks.bench_client_library import Round, row
from tests.support.confluent_driver import create_topic, watermarks
from tests.support.node_process import NodeProcess


@pytest.mark.parametrize("library", library_loads.LOADS["produce"])
def test_every_library_writes_the_number_of_records_that_it_reports(
    library: str, capsys: pytest.CaptureFixture[str], bootstrap: str
) -> None:
    topic = re.sub(r"\W+", "-", library)
    create_topic(bootstrap, topic, 2)
    library_loads.main(["produce", library, bootstrap, topic, "--seconds", "0.05"])
    done = json.loads(capsys.readouterr().out)
    assert done["seconds"] >= 0.05
    assert done["cpu_seconds"] > 0
    # The first record is not measured.
    assert sum(end for _, end in watermarks(bootstrap, topic, 2)) == done["records"] + 1


@pytest.mark.parametrize(
    ("what", "library"), [(what, library) for what, libraries in library_reads.READS.items() for library in libraries]
)
def test_every_library_reads_all_records(
    what: str, library: str, capsys: pytest.CaptureFixture[str], filled: tuple[str, int]
) -> None:
    bootstrap, records = filled
    arguments = [what, library, bootstrap, "filled", "--seconds", "20", "--records", str(records)]
    library_loads.main(arguments, library_reads.READS)
    done = json.loads(capsys.readouterr().out)
    # The first record is not measured.
    assert done["records"] == records - 1
    assert done["seconds"] > 0


def test_row_compares_a_library_with_ours() -> None:
    ours, theirs = Round(200_000, 20, 2, 1), Round(50_000, 5, 10, 1)
    cells = row("produce", "aiokafka", 100, [theirs], [ours])
    assert cells == ["produce 100 B", "aiokafka", "50,000", "5.00", "10.0", "1.00", "4.00", "5.00"]


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    node = NodeProcess(tmp_path_factory.mktemp("node") / "data")
    node.start()
    yield node.bootstrap
    node.stop()


@pytest.fixture(scope="module")
def filled(bootstrap: str) -> tuple[str, int]:
    """The node, and the number of records in its topic "filled"."""
    create_topic(bootstrap, "filled", 2)
    done = library_loads.produce_kraft(library_loads.Load(bootstrap, "filled", 100, 0.05, 16_384))
    return bootstrap, done.records + 1
