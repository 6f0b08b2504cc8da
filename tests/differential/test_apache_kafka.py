"""A bounded run against Apache Kafka: some sequences of each family, from fixed seeds, on one JVM for all families."""

import shutil
from collections.abc import Iterator
from typing import Final

import pytest

from benchmarks import apache_kafka
from tests.differential.families import FAMILIES
from tests.differential.known_differences import KNOWN_DIFFERENCES
from tests.differential.search import Search
from tests.differential.servers import Ports, running_servers

_SEQUENCES: Final = 15


@pytest.fixture(scope="module")
def ports(full: bool) -> Iterator[Ports]:
    if shutil.which("java") is None:
        pytest.skip("no java on PATH")
    if not full and not apache_kafka.DIRECTORY.exists():
        pytest.skip("Apache Kafka's jars are not here: `make test-differential`, or --full, fetches them")
    try:
        apache_kafka.jars()
    except apache_kafka.Unavailable as why:
        pytest.skip(str(why))
    with running_servers() as ports:
        yield ports


@pytest.mark.parametrize("family", FAMILIES)
async def test_responses_are_those_of_apache_kafka(ports: Ports, family: str) -> None:
    """One sequence at a time: the order of two sequences' requests may differ on two servers."""
    known = [each for each in KNOWN_DIFFERENCES if each.family == family]
    search = Search(FAMILIES[family], ports, known, prefix=f"test-{family}-")
    await search.run(range(_SEQUENCES), workers=1)
    assert search.sequences == _SEQUENCES
    assert not search.findings, "\n".join(each.describe(family) for each in search.findings.values())
