"""Spark writes and reads over TLS with client certificates: the keys of the client library, under `kafka.`."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tests.support.certificates import TestAuthority
from tests.support.node_process import NodeProcess


@pytest.fixture
def options(tmp_path: Path) -> Iterator[dict[str, str]]:
    """The options for a node that takes clients with certificates only."""
    authority = TestAuthority(tmp_path / "certificates")
    alice = str(authority.issue("alice").file)
    configs = {
        "listener.security.protocol.map": "PLAINTEXT:SSL,CONTROLLER:SSL",
        "ssl.client.auth": "required",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(authority.issue("node", "127.0.0.1").file),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority.file),
    }
    node = NodeProcess(tmp_path / "data", configs)
    try:
        node.start()
        yield {
            "kafka.bootstrap.servers": node.bootstrap,
            "kafka.security.protocol": "SSL",
            "kafka.ssl.ca.location": str(authority.file),
            "kafka.ssl.certificate.location": alice,
            "kafka.ssl.key.location": alice,
        }
        node.stop()
    finally:
        node.discard()


def test_rows_are_written_and_read_over_tls(spark: SparkSession, options: dict[str, str]) -> None:
    rows = spark.createDataFrame([("first",), ("second",)], ["value"])
    rows.write.format("kraft").options(**options, topic="orders").mode("append").save()
    found = spark.read.format("kraft").options(**options, subscribe="orders").load()
    assert sorted(bytes(row.value) for row in found.select("value").collect()) == [b"first", b"second"]


def test_refusal_names_the_reason(spark: SparkSession, options: dict[str, str]) -> None:
    anonymous = {name: text for name, text in options.items() if not name.startswith("kafka.ssl.")}
    with pytest.raises(PySparkException, match="certificate verify failed"):
        spark.read.format("kraft").options(**anonymous, subscribe="orders").load().collect()
