"""The compiled Java programs; `make test-java-clients` downloads their jars."""

import pytest

from benchmarks.apache_kafka import Unavailable
from tests.support.java_program import JavaPrograms


@pytest.fixture(scope="session")
def java_programs(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> JavaPrograms:
    if not request.config.getoption("--java-clients"):
        pytest.skip("needs Apache Kafka's jars and a JDK: make test-java-clients")
    try:
        return JavaPrograms(tmp_path_factory.mktemp("classes"))
    except (Unavailable, FileNotFoundError) as why:
        pytest.skip(f"the tests of Apache Kafka's Java client are skipped: {why}")
