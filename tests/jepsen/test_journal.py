"""A written history is read back unchanged, complete or torn, from one file or from several."""

from io import BytesIO

import attrs
import pytest

from jepsen.history import History, Operation, Outcome
from jepsen.journal import BadJournal, Journal, read_history, write_history
from jepsen.share_values import Acknowledging, Acquired, Acquiring, ShareGroupSettings, StoredWrites
from jepsen.values import (
    Change,
    Healing,
    Polling,
    ReplicaLog,
    ReplicaRead,
    SeenTopic,
    Sending,
    WantedTopic,
)


class Clock:
    def __init__(self) -> None:
        self._milliseconds = 0

    def __call__(self) -> float:
        self._milliseconds += 1
        return self._milliseconds / 1000


def everything(file: BytesIO) -> History:
    """Each kind of operation; the second one completes last."""
    history = History(Clock(), Journal(file).note)
    wanted = WantedTopic("t", 2, is_flushed=True, configs=(("segment.ms", "7"),), replication_factor=3)
    history.ok(history.invoke("admin", "create-topic", wanted), "AAECAwQFBgcICQoLDA0ODw")
    late = history.invoke("p0", "send", Sending("t", 0, "s", 0, ("s/0", "s/1")))
    history.fail(history.invoke("p0", "send", Sending("t", 0, "s", 2, ("s/2",))), "MESSAGE_TOO_LARGE")
    history.info(history.invoke("c", "poll", Polling("t", 0, 0)), "the node closed the connection")
    history.ok(history.invoke("c", "poll", Polling("t", 0, 0)), ((0, "s/0"), (1, "s/1")), incarnation=2)
    history.ok(history.invoke("c", "final-read", ("t", 0)), ((0, "s/0"), (1, "s/1")))
    history.ok(history.invoke("a", "list-topics", None), {"t": SeenTopic("AAECAwQFBgcICQoLDA0ODw", 2)})
    history.ok(history.invoke("b", "share-topic", Change("shared-0", 1)), "NONE")
    history.ok(history.invoke("b", "cas", ("cas", "k", "new", None)), None)
    log = ReplicaLog(2, ((0, 2, "c0ffee"),))
    history.ok(history.invoke("disks", "read-replica", ReplicaRead("t", 0, "node-1")), log)
    history.ok(history.invoke("a", "share-group", ShareGroupSettings("g", 5, 3000)), None)
    acquired = Acquired(((0, "s/0", 1), (1, "s/1", 1)), 3000)
    history.ok(history.invoke("m", "acquire", Acquiring("g", "m", "m/1", "t", 0)), acquired)
    history.ok(history.invoke("m", "acknowledge", Acknowledging("g", "m", "m/1", "t", 0, ((0, 1, 1),))), -1)
    writes = (("g", "t", 0, -1, ((0, 1, 2, 1),)), ("g", "t", 0, 2, ()))
    history.ok(history.invoke("f", "read-share-states", 3), StoredWrites(writes))
    history.invoke("run", "heal", Healing("leaders", 5.0))
    history.ok(late, 0)
    return history


def told(history: History) -> list[object]:
    return [attrs.asdict(each, recurse=False) for each in history.operations]


def test_a_history_comes_back_as_it_was() -> None:
    file = BytesIO()
    history = everything(file)
    assert told(read_history(file.getvalue().splitlines(keepends=True))) == told(history)


def test_it_may_be_written_at_once() -> None:
    as_it_happened, at_once = BytesIO(), BytesIO()
    write_history(everything(as_it_happened), at_once)
    assert at_once.getvalue() == as_it_happened.getvalue()


def test_lines_of_several_files_come_in_any_order() -> None:
    file = BytesIO()
    history = everything(file)
    lines = file.getvalue().splitlines(keepends=True)
    assert told(read_history(reversed(lines))) == told(history)


def test_a_process_that_is_killed_tears_its_last_line() -> None:
    file = BytesIO()
    everything(file)
    (last,) = [each for each in read_lines(file.getvalue()[:-10]) if each.serial == 0 and each.client == "p0"]
    assert last.outcome is Outcome.INFO


@pytest.mark.parametrize(
    "content",
    [
        b"{\n",
        b"[]\n",
        b'{"time": 1}\n',
        b'{"time": 1, "process": "p", "id": 0, "type": "ok", "f": "send", "value": 1}\n',
    ],
)
def test_invalid_history_is_refused(content: bytes) -> None:
    with pytest.raises(BadJournal):
        read_lines(content)


def read_lines(content: bytes) -> list[Operation]:
    return read_history(content.splitlines(keepends=True)).operations
