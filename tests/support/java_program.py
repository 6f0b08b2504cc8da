"""Java programs of the tests, compiled with Apache Kafka's jars, and the client that one of them is."""

import json
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks import java_packages
from tests.support.source_code import ROOT

SOURCES = ROOT / "tests" / "clients" / "java"
# A small heap, and only the fast compiler: each program runs for seconds.
_OPTIONS = ("-Xmx256M", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn")


class JavaPrograms:
    """The compiled programs. Raises java_packages.Unavailable where Java or the jars are missing."""

    def __init__(self, directory: Path) -> None:
        self._class_path = [*java_packages.jars(java_packages.KAFKA_STREAMS), str(directory)]
        sources = sorted(map(str, SOURCES.glob("*.java")))
        line = ["javac", "-Xlint:all", "-Werror", "-cp", ":".join(self._class_path), "-d", str(directory), *sources]
        done = subprocess.run(line, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, done.stderr

    def command(self, main: str, arguments: Sequence[str] = (), properties: Sequence[str] = ()) -> list[str]:
        """The command line of the program with this main class, and with these `name=value` of Java's properties."""
        return [
            "java",
            *_OPTIONS,
            *(f"-D{each}" for each in properties),
            "-cp",
            ":".join(self._class_path),
            main,
            *arguments,
        ]


class JavaError(Exception):
    """The exception of a Java client; `name` is its class."""

    def __init__(self, name: str, message: str) -> None:
        super().__init__(f"{name}: {message}")
        self.name = name


class JavaSession:
    """The clients of a running ClientSession: `call` names one, a method, and the method's arguments."""

    def __init__(self, bootstrap: str, process: subprocess.Popen[str]) -> None:
        self.bootstrap = bootstrap
        self._process = process

    def call(self, client: str, method: str, *arguments: object) -> Any:
        """Returns the result. Raises JavaError."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([client, method, *arguments]) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, "the Java process has ended"
        answer = json.loads(line)
        if "error" in answer:
            raise JavaError(answer["error"], answer["message"])
        return answer["result"]

    def open_producer(self, client: str, transactional_id: str, **settings: object) -> None:
        """`_` in the name of a setting stands for `.`."""
        own = {"bootstrap.servers": self.bootstrap, "transactional.id": transactional_id, "linger.ms": 0}
        self.call(client, "produce", own | _named(settings))

    def open_consumer(self, client: str, **settings: object) -> None:
        own = {"bootstrap.servers": self.bootstrap, "auto.offset.reset": "earliest", "enable.auto.commit": "false"}
        self.call(client, "consume", own | _named(settings))

    def open_share_consumer(self, client: str, group_id: str, **settings: object) -> None:
        own = {"bootstrap.servers": self.bootstrap, "group.id": group_id}
        self.call(client, "share", own | _named(settings))


def _named(settings: dict[str, object]) -> dict[str, object]:
    return {key.replace("_", "."): value for key, value in settings.items()}


@contextmanager
def java_session(
    programs: JavaPrograms, bootstrap: str, *properties: str, main: str = "TransactionSession"
) -> Iterator[JavaSession]:
    """A JVM with clients of this cluster, and with these properties. It ends with the block.

    `main` is the ClientSession that has the clients.
    """
    line = programs.command(main, properties=properties)
    with subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield JavaSession(bootstrap, process)
        finally:
            process.kill()
