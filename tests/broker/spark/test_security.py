"""Spark writes and reads with SCRAM over TLS: the keys of the client library, under `kafka.`.

The source and the sink have no connections of their own, so other ways are those of the library
(`tests/clients/test_authentication.py`).
"""

from collections.abc import Iterator

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tests.support.secured_node import Credentials, SecuredNode, Way, create_user_and_topic, secured_node

TOPIC = "orders"
WAY = Way("SASL_SSL", "SCRAM-SHA-512")


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredNode]:
    with secured_node(tmp_path_factory.mktemp("secured")) as secured:
        create_user_and_topic(secured, TOPIC)
        yield secured


def options(node: SecuredNode, credentials: Credentials) -> dict[str, str]:
    return {
        "kafka.bootstrap.servers": node.address(WAY),
        "kafka.security.protocol": WAY.protocol,
        "kafka.ssl.ca.location": str(credentials.trusted),
        "kafka.sasl.mechanism": WAY.mechanism,
        "kafka.sasl.username": credentials.user,
        "kafka.sasl.password": credentials.password,
    }


def test_rows_are_written_and_read(spark: SparkSession, node: SecuredNode) -> None:
    right = options(node, node.right(WAY))
    rows = spark.createDataFrame([("first",), ("second",)], ["value"])
    rows.write.format("kraft").options(**right, topic=TOPIC).mode("append").save()
    found = spark.read.format("kraft").options(**right, subscribe=TOPIC).load()
    assert sorted(bytes(row.value) for row in found.select("value").collect()) == [b"first", b"second"]


def test_refusal_names_the_reason(spark: SparkSession, node: SecuredNode) -> None:
    wrong = options(node, node.wrong(WAY))
    with pytest.raises(PySparkException, match="refuses the credentials for SCRAM-SHA-512"):
        spark.read.format("kraft").options(**wrong, subscribe=TOPIC).load().collect()
