"""Spark's own Kafka connector: its jars from Maven Central, beside which the data source "kraft" is measured."""

import shutil
import subprocess
from typing import Final

from benchmarks.apache_kafka import Unavailable
from benchmarks.loadgen import CACHE

# The newest version whose connector is on Maven Central; PySpark has to be of the same.
SPARK_VERSION: Final = "4.2.0"
_DIRECTORY: Final = CACHE / f"spark-sql-kafka-{SPARK_VERSION}"
_POM: Final = f"""<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>benchmarks</groupId><artifactId>spark-connector</artifactId><version>1</version><packaging>pom</packaging>
  <dependencies>
    <dependency>
      <groupId>org.apache.spark</groupId><artifactId>spark-sql-kafka-0-10_2.13</artifactId>
      <version>{SPARK_VERSION}</version>
    </dependency>
  </dependencies>
</project>
"""


def jars() -> list[str]:
    """The connector's jars with what they need besides Spark's own, fetched on first use. Raises Unavailable."""
    if not _DIRECTORY.exists():
        if missing := [tool for tool in ("java", "mvn") if not shutil.which(tool)]:
            raise Unavailable(f"no {' and no '.join(missing)} on the path")
        fresh = _DIRECTORY.with_suffix(".new")
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir(parents=True)
        (fresh / "pom.xml").write_text(_POM)
        fetch = ["mvn", "-q", "-B", "dependency:copy-dependencies", "-DincludeScope=runtime"]
        fetch.append(f"-DoutputDirectory={fresh}")
        done = subprocess.run(fetch, cwd=fresh, capture_output=True, text=True, timeout=900, check=False)
        if done.returncode:
            raise Unavailable(f"Maven could not fetch Spark's Kafka connector:\n{done.stdout[-1500:]}")
        fresh.rename(_DIRECTORY)
    return sorted(str(path) for path in _DIRECTORY.glob("*.jar"))
