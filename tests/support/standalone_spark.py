"""A standalone Spark cluster: a master and workers, each a process on this machine, connected by TCP."""

import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark

from broker.spark.java import prepare_environment
from tests.support.job_process import descendants, kill_process, wait_until

_START_S = 120.0
_MASTER_URL = re.compile(r"Starting Spark master at (spark://\S+)")
_REGISTERED = "Successfully registered with master"


class StandaloneSpark:
    """`url` is the value for --master. Each worker offers one core and `memory` to executors."""

    def __init__(self, directory: Path, workers: int, memory: str) -> None:
        self._directory = directory
        self._memory = memory
        self._processes: list[subprocess.Popen[bytes]] = []
        self._environ = {**os.environ, "SPARK_LOCAL_DIRS": str(directory / "local"), "SPARK_NO_DAEMONIZE": "1"}
        prepare_environment(self._environ)
        self.logs = [directory / f"worker-{number}.log" for number in range(workers)]
        self.url = ""

    def start(self) -> None:
        log = self._directory / "master.log"
        self._run("master.Master", log, ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0"])
        wait_until(lambda: _MASTER_URL.search(log.read_text()) is not None, _START_S, "the master's address")
        found = _MASTER_URL.search(log.read_text())
        assert found is not None
        self.url = found[1]
        for log in self.logs:
            offered = ["--cores", "1", "--memory", self._memory, "--work-dir", str(self._directory / log.stem)]
            self._run("worker.Worker", log, ["--host", "127.0.0.1", "--webui-port", "0", *offered, self.url])
        for log in self.logs:
            wait_until(lambda log=log: _REGISTERED in log.read_text(), _START_S, "a worker's registration")  # type: ignore[misc]

    def executors(self, number: int) -> int:
        """The number of executors that a worker has started."""
        return self.logs[number].read_text().count("Asked to launch executor")

    def stop(self) -> None:
        """End all processes, including the executors."""
        for process in reversed(self._processes):
            for pid in [*descendants(process.pid), process.pid]:
                kill_process(pid)
            process.wait(30)

    def _run(self, role: str, log: Path, arguments: list[str]) -> None:
        launcher = Path(pyspark.__file__).parent / "bin" / "spark-class"
        command = [str(launcher), f"org.apache.spark.deploy.{role}", *arguments]
        with log.open("wb") as file:
            self._processes.append(subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT, env=self._environ))


@contextmanager
def standalone_spark(directory: Path, *, workers: int, memory: str = "1g") -> Iterator[StandaloneSpark]:
    directory.mkdir()
    cluster = StandaloneSpark(directory, workers, memory)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()
