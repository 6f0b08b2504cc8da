"""Apache Kafka itself: its jars from Maven Central, a node in one JVM, and its tools.

All of its versions are pinned here. `KRAFT_KAFKA_VERSION` chooses another release for one run, such as 4.3.0.
"""

import contextlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.loadgen import CACHE
from benchmarks.peers import COMMON_OVERRIDES, Peer

KAFKA_VERSION = os.environ.get("KRAFT_KAFKA_VERSION", "4.4.0")
SCALA_VERSION = "2.13"
LOG4J_VERSION = "2.25.4"
JAVA_VERSION_MIN = 17
DIRECTORY = CACHE / f"kafka_{SCALA_VERSION}-{KAFKA_VERSION}"
CLUSTER_ID = "4L6g3nShTSeMCtKrX86swA"

# The values that bin/kafka-server-start.sh and bin/kafka-run-class.sh set.
HEAP_OPTIONS = ["-Xmx1G", "-Xms1G"]
JVM_OPTIONS = [
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-XX:MaxInlineLevel=15",
    "-Djava.awt.headless=true",
]

# A small heap, only the fast compiler, and no warnings about classes that cannot be archived.
_TOOL_OPTIONS = ["-Xmx256M", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xlog:disable"]
_ARCHIVED_TOOL = "org.apache.kafka.tools.FeatureCommand"

_POM = f"""<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>benchmarks</groupId><artifactId>apache-kafka</artifactId><version>1</version><packaging>pom</packaging>
  <dependencies>
    <dependency>
      <groupId>org.apache.kafka</groupId><artifactId>kafka_{SCALA_VERSION}</artifactId><version>{KAFKA_VERSION}</version>
    </dependency>
    <dependency>
      <groupId>org.apache.kafka</groupId><artifactId>kafka-tools</artifactId><version>{KAFKA_VERSION}</version>
    </dependency>
    <dependency>
      <groupId>org.apache.logging.log4j</groupId><artifactId>log4j-slf4j-impl</artifactId><version>{LOG4J_VERSION}</version>
    </dependency>
  </dependencies>
</project>
"""

_LOGGING = """rootLogger.level = {level}
rootLogger.appenderRef.out.ref = out
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = [%d] %p %m (%c)%n
"""


class Unavailable(Exception):
    """Apache Kafka cannot run on this machine; the message has the reason."""


def jars() -> Path:
    """The directory of Kafka's jars with all dependencies, downloaded on first use. Raises Unavailable."""
    missing = [tool for tool in ("java", "mvn") if not shutil.which(tool)]
    if "java" in missing:
        raise Unavailable(f"no java on the path (Apache Kafka {KAFKA_VERSION} needs {JAVA_VERSION_MIN} or later)")
    if DIRECTORY.exists():
        return DIRECTORY
    if missing:
        raise Unavailable("no mvn on the path to fetch Apache Kafka's jars with")
    fresh = DIRECTORY.with_suffix(".new")
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir(parents=True)
    (fresh / "pom.xml").write_text(_POM)
    fetch = ["mvn", "-q", "-B", "dependency:copy-dependencies", f"-DoutputDirectory={fresh}"]
    done = subprocess.run(fetch, cwd=fresh, capture_output=True, text=True, timeout=900, check=False)
    if done.returncode:
        raise Unavailable(f"Maven could not fetch Apache Kafka's jars:\n{done.stdout[-1500:]}{done.stderr[-500:]}")
    for name, level in (("server", "INFO"), ("tools", "WARN")):
        (fresh / f"{name}.properties").write_text(_LOGGING.format(level=level))
    return fresh.rename(DIRECTORY)


def java(main: str, *arguments: str, options: list[str] | None = None, logging: str = "tools") -> list[str]:
    """The command line of one of Kafka's main classes. The default options are for tools, which run for seconds."""
    directory = jars()
    log4j = f"-Dlog4j2.configurationFile={directory / logging}.properties"
    if options is None:
        options = [*_TOOL_OPTIONS, f"-XX:SharedArchiveFile={_class_archive(directory)}"]
    return ["java", *options, log4j, "-cp", f"{directory}/*", main, *arguments]


def _class_archive(directory: Path) -> Path:
    """The loaded classes of a tool, which is made by the first tool. A JVM that cannot use it does without it."""
    archive = directory / "tools.jsa"
    if not archive.exists():
        fresh = archive.with_suffix(f".{os.getpid()}")
        with tempfile.NamedTemporaryFile("w", suffix=".properties") as config:
            # No broker is there, but all classes up to the connection are loaded.
            config.write("default.api.timeout.ms=1000\nrequest.timeout.ms=500\n")
            config.flush()
            make = ["java", *_TOOL_OPTIONS, f"-XX:ArchiveClassesAtExit={fresh}", "-cp", f"{directory}/*"]
            tool = [_ARCHIVED_TOOL, "--bootstrap-server", "127.0.0.1:1", "--command-config", config.name, "describe"]
            subprocess.run([*make, *tool], capture_output=True, timeout=300, check=False)
        with contextlib.suppress(FileNotFoundError):
            fresh.rename(archive)
    return archive


class ApacheKafka(Peer):
    """Broker and controller in one JVM, with the defaults of Kafka's start script. Formatted before its first start."""

    name = f"apache kafka {KAFKA_VERSION}"
    jvm_options: Sequence[str] = (*HEAP_OPTIONS, *JVM_OPTIONS)

    @property
    def _properties(self) -> Path:
        return self.directory / "server.properties"

    def properties(self) -> dict[str, str]:
        return {
            "node.id": "1",
            "process.roles": "broker,controller",
            "controller.quorum.voters": f"1@127.0.0.1:{self.controller_port}",
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{self.controller_port}",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": str(self.data),
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            **COMMON_OVERRIDES,
        }

    def prepare(self) -> None:
        self._properties.write_text("".join(f"{key}={value}\n" for key, value in self.properties().items()))
        storage = java("kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", str(self._properties))
        subprocess.run(storage, check=True, capture_output=True, env=os.environ | {"LC_ALL": "C"})

    def command(self) -> list[str]:
        return java("kafka.Kafka", str(self._properties), options=list(self.jvm_options), logging="server")
