"""Jars of Java packages, downloaded from Maven Central: those for Spark, and Kafka Streams."""

import hashlib
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from typing import Final

from benchmarks.apache_kafka import KAFKA_VERSION, Unavailable
from benchmarks.loadgen import CACHE

# Spark's own Kafka connector, in the newest version on Maven Central. PySpark must have the same version.
CONNECTOR: Final = ("org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",)
# The packages for tables and for Avro values that Maven Central has for each PySpark version.
TABLES: Final[Mapping[str, Mapping[str, str]]] = {
    "4.1.1": {
        "avro": "org.apache.spark:spark-avro_2.13:4.1.1",
        "delta": "io.delta:delta-spark_4.1_2.13:4.4.0",
        "iceberg": "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0",
    },
    "4.2.0": {
        "avro": "org.apache.spark:spark-avro_2.13:4.1.1",
        "delta": "io.delta:delta-spark_4.2_2.13:4.4.0",
    },
}
# Kafka Streams with the Java client, what the client needs for OAUTHBEARER, and a logger that writes to standard error.
KAFKA_STREAMS: Final = (
    f"org.apache.kafka:kafka-streams:{KAFKA_VERSION}",
    "org.bitbucket.b_c:jose4j:0.9.6",
    "org.slf4j:slf4j-simple:1.7.36",
)
_POM: Final = """<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>benchmarks</groupId><artifactId>java-packages</artifactId><version>1</version><packaging>pom</packaging>
  <dependencies>
{dependencies}
  </dependencies>
</project>
"""


def jars(packages: Sequence[str]) -> list[str]:
    """The jars of packages (group:artifact:version) with their dependencies, without those that Spark contains.

    They are downloaded on first use. Raises Unavailable.
    """
    directory = CACHE / f"java-packages-{hashlib.sha256(' '.join(packages).encode()).hexdigest()[:12]}"
    if not directory.exists():
        if missing := [tool for tool in ("java", "mvn") if not shutil.which(tool)]:
            raise Unavailable(f"no {' and no '.join(missing)} on the path")
        fresh = directory.with_suffix(".new")
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir(parents=True)
        (fresh / "pom.xml").write_text(_POM.format(dependencies="\n".join(map(_dependency, packages))))
        fetch = ["mvn", "-q", "-B", "dependency:copy-dependencies", "-DincludeScope=runtime"]
        fetch.append(f"-DoutputDirectory={fresh}")
        done = subprocess.run(fetch, cwd=fresh, capture_output=True, text=True, timeout=900, check=False)
        if done.returncode:
            raise Unavailable(f"Maven could not fetch {', '.join(packages)}:\n{done.stdout[-1500:]}")
        fresh.rename(directory)
    return sorted(str(path) for path in directory.glob("*.jar"))


def _dependency(package: str) -> str:
    group, artifact, version = package.split(":")
    return (
        f"    <dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId>"
        f"<version>{version}</version></dependency>"
    )
