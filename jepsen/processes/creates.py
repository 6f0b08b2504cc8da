"""A steady stream of CreateTopics from clients of kafka-python, and a check that the acknowledged topics exist.

librdkafka is not used: while it waits for a controller that is gone, it does not ask for the new one for seconds. A
client of kafka-python also keeps its controller, so it is replaced after a failure: the cluster is measured, not the
client.
"""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import attrs
from kafka import KafkaAdminClient
from kafka.admin import NewTopic
from kafka.errors import KafkaError

PARTITIONS = 3
# For one attempt, until it counts as failed and the next one begins.
TIMEOUT_MS = 2_000
# The timeout of the final check of all topics.
LAST_LOOK_TIMEOUT_MS = 30_000
# A broker that lags behind the metadata for longer than this does not follow it.
CATCH_UP_SECONDS = 10.0


@attrs.frozen
class Creation:
    """One attempt. Times are those of `time.monotonic`; `error` is None where it was acknowledged."""

    name: str
    began: float
    ended: float
    error: str | None


class Creator:
    """Creates topics, one after the other and each name once, `pause_seconds` apart. `creations`: all attempts."""

    def __init__(self, name: str, bootstrap: str, pause_seconds: float) -> None:
        self.creations: list[Creation] = []
        self._name = name
        self._bootstrap = bootstrap
        self._client: KafkaAdminClient | None = None
        self._pause_seconds = pause_seconds
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"creator {name}")

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Finish the attempt under way, and end."""
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        serial = 0
        while not self._stopping.wait(self._pause_seconds):
            serial += 1
            self.creations.append(self._create(f"{self._name}-{serial}"))
        self._close()

    def _create(self, name: str) -> Creation:
        began = time.monotonic()
        try:
            if self._client is None:
                self._client = _admin_client(self._bootstrap, TIMEOUT_MS)
            self._client.create_topics([NewTopic(name, num_partitions=PARTITIONS, replication_factor=1)])
        except KafkaError as error:
            self._close()
            return Creation(name, began, time.monotonic(), type(error).__name__)
        return Creation(name, began, time.monotonic(), None)

    def _close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            client.close()


def _admin_client(bootstrap: str, timeout_ms: int) -> KafkaAdminClient:
    return KafkaAdminClient(
        bootstrap_servers=bootstrap.split(","),
        request_timeout_ms=timeout_ms,
        bootstrap_timeout_ms=timeout_ms // 2,
        reconnect_backoff_ms=10,
        reconnect_backoff_max_ms=50,
        retry_backoff_ms=20,
    )


@contextmanager
def running_creators(bootstrap: str, count: int, pause_seconds: float) -> Iterator[list[Creator]]:
    creators = [Creator(f"creator-{index}", bootstrap, pause_seconds) for index in range(count)]
    for creator in creators:
        creator.start()
    try:
        yield creators
    finally:
        for creator in creators:
            creator.stop()


def creations_of(creators: list[Creator]) -> list[Creation]:
    return [creation for creator in creators for creation in creator.creations]


def first_success_after(creations: list[Creation], moment: float) -> float | None:
    """Seconds until an attempt that began after `moment` was acknowledged; None where none has been yet."""
    ends = [each.ended for each in creations if each.error is None and each.began >= moment]
    return min(ends) - moment if ends else None


def anomalies(bootstrap: str, creations: list[Creation]) -> list[str]:
    """Violations of the acknowledgements: lost topics, and incomplete ones.

    The asked broker may lag behind the controller for a moment, so only topics that stay missing count as lost.
    """
    client = _admin_client(bootstrap, LAST_LOOK_TIMEOUT_MS)
    deadline = time.monotonic() + CATCH_UP_SECONDS
    while (found := _anomalies(client, creations)) and time.monotonic() < deadline:
        time.sleep(0.2)
    client.close()
    return found


def _anomalies(client: KafkaAdminClient, creations: list[Creation]) -> list[str]:
    partitions = {topic["name"]: len(topic["partitions"]) for topic in client.describe_topics()}
    lost = [
        f"{each.name} was acknowledged and is lost"
        for each in creations
        if not each.error and each.name not in partitions
    ]
    halves = [
        f"{name} has {count} of {PARTITIONS} partitions" for name, count in partitions.items() if count != PARTITIONS
    ]
    return lost + halves
