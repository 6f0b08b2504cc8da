"""The object of the pytest fixture `kafka_history`."""

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Any, Final, TypeVar

from broker.printable import printable
from jepsen.testing.cluster import Cluster
from jepsen.testing.control_client import ControlError
from jepsen.testing.fixture_clusters import Kafka
from jepsen.testing.histories.judging import check
from jepsen.testing.histories.operation_text import operation_text
from jepsen.testing.histories.promises import AnyPromise
from jepsen.testing.histories.recorder import Recorder
from jepsen.testing.histories.recording.identities import Identity
from jepsen.testing.histories.verdict import HistoryVerdict
from jepsen.testing.timeline import LINES_MAX, timeline

C = TypeVar("C")

_SENTENCES_MAX: Final = 3
# The events before the first operation, which may be its cause.
_BEFORE_S: Final = 1.0


class KafkaHistory:
    """A recorder for a test, and its cluster. Other processes of the test record into `directory`, too."""

    def __init__(self, directory: Path, cluster: Kafka | Cluster) -> None:
        self.directory = directory
        self._cluster = cluster
        self._identity: Identity | None = None
        self._recorder: Recorder | None = None
        self._verdict: HistoryVerdict | None = None

    @property
    def recorder(self) -> Recorder:
        """The recorder of this process."""
        if self._recorder is None:
            self._recorder = Recorder(self.directory, identity=self._identity)
        return self._recorder

    def identify(self, identity: Identity) -> None:
        """Name records by a function; see `Recorder`. Raises ValueError once something was recorded."""
        if self._recorder is not None:
            raise ValueError("the function has to be given before the first client is wrapped")
        self._identity = identity

    def wrap(
        self,
        client: C,
        *,
        name: str | None = None,
        group: str | None = None,
        on_delivery: Callable[[Any, Any], object] | None = None,
    ) -> C:
        """See `Recorder.wrap`."""
        return self.recorder.wrap(client, name=name, group=group, on_delivery=on_delivery)

    def processing(self, record: Any, *, group: str | None = None) -> AbstractContextManager[None]:
        """See `Recorder.processing`."""
        return self.recorder.processing(record, group=group)

    def processed(self, record: Any, *, group: str | None = None) -> None:
        """See `Recorder.processed`."""
        self.recorder.processed(record, group=group)

    def check(self, *promises: AnyPromise | str, topics: Iterable[str] | None = None) -> HistoryVerdict:
        """Read the topics to their ends, and check the promises; see `Recorder.read_to_end` and `check`."""
        self.recorder.read_to_end(self._cluster.config("kraft"), topics)
        self._verdict = check(self.recorder, promises)
        return self._verdict

    def timeline(self) -> list[str]:
        """The operations of all findings and around them, between the events of the cluster, in the order of time.

        Times are those of the cluster. It is empty if no promise is broken, and has no events if the cluster has ended.
        """
        promises = () if self._verdict is None else self._verdict.promises
        findings = [one for each in promises for one in each.findings]
        operations = {(each.client, each.serial): each for one in findings for each in (*one.around, *one.operations)}
        if not operations:
            return []
        shift, lines = 0.0, []
        # A cluster that has ended has no events.
        with suppress(ControlError, OSError):
            shift = self._cluster.age() - self.recorder.now()
            since = min(each.invoked_at for each in operations.values()) + shift
            lines = timeline(self._cluster.events(), since - _BEFORE_S)
        for each in operations.values():
            lines.append(f"{each.invoked_at + shift:9.3f} s   APP     {operation_text(each)}")
        sentences = [printable(finding.sentence) for finding in findings[:_SENTENCES_MAX]]
        return [*sentences, *sorted(lines)[:LINES_MAX]]

    def close(self) -> None:
        """End the recording of this process."""
        if self._recorder is not None:
            self._recorder.close()
