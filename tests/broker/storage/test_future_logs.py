"""Future logs are found in their directories, and take the place of the logs that they are copies of (KIP-113)."""

import shutil
from pathlib import Path

import pytest

from broker.storage.future_logs import FutureLogs
from broker.storage.log import Log
from broker.storage.log_manager import LogManager
from tests.support.logs import append, values
from tests.support.storage_node import CONFIG, ORDERS, Node

KEY, OTHER = ("orders", 0), ("orders", 1)


class Move:
    """A node whose partition KEY is in its directory a; `begin` creates its future log, with one record, in b."""

    def __init__(self, path: Path) -> None:
        self.node = Node(path)

    async def start(self) -> None:
        self.manager: LogManager = await self.node.start()
        self.futures = FutureLogs(self.node.env, self.manager)

    def begin(self) -> Log:
        append(self.manager.create("orders", ORDERS, 0, CONFIG, destination=str(self.node.a)), b"current")
        future = self.futures.create(KEY, self.manager.directories[str(self.node.b)])
        assert future is not None
        append(future, b"future")
        return future


@pytest.fixture
async def move(tmp_path: Path) -> Move:
    move = Move(tmp_path)
    await move.start()
    return move


def found(move: Move) -> tuple[str, Log] | None:
    """The path of the directory with the future log of KEY, and the log."""
    found = move.futures.find(KEY)
    return None if found is None else (found[0].path, found[1].log)


async def test_future_log_is_found_in_its_directory(move: Move) -> None:
    move.manager.create("orders", ORDERS, 1, CONFIG)
    assert found(move) is None
    future = move.begin()
    assert found(move) == (str(move.node.b), future)
    assert move.futures.find(OTHER) is None


async def test_future_log_is_found_after_a_restart(move: Move) -> None:
    move.begin()
    await move.node.stop()
    await move.start()
    again = found(move)
    assert again is not None
    assert again[0] == str(move.node.b)
    assert values(again[1]) == [b"future"]
    assert values(move.manager.logs[KEY]) == [b"current"]


async def test_only_the_current_log_is_reported_as_missing_if_the_future_log_is_there(move: Move) -> None:
    """Both directories have a recovery point of the partition."""
    move.begin()
    await move.node.stop()
    shutil.rmtree(move.node.a / "orders-0")
    await move.start()
    assert [event["path"] for event in move.node.traced("storage_log_missing")] == [f"{move.node.a}/orders-0"]


async def test_removed_future_log_is_deleted_and_the_current_log_stays(move: Move) -> None:
    move.begin()
    move.futures.remove(KEY)
    assert found(move) is None
    await move.node.housekeeping().finish_creations_and_deletions()
    assert move.node.partitions() == ["a/orders-0"]
    move.futures.remove(KEY)  # does nothing
    assert values(move.manager.logs[KEY]) == [b"current"]


@pytest.mark.parametrize("is_restarted", [False, True])
async def test_future_log_takes_the_place_of_the_current_one(move: Move, is_restarted: bool) -> None:
    future = move.begin()
    assert move.futures.put_in_place(KEY) is future
    assert found(move) is None
    if is_restarted:
        await move.node.stop()
        await move.start()
    assert values(move.manager.logs[KEY]) == [b"future"]
    assert move.manager.topic_ids[KEY] == ORDERS
    directory = move.manager.directory_of(*KEY)
    assert directory is not None
    assert directory.path == str(move.node.b)
    names = [name.rpartition("-")[2] for name in move.node.partitions() if name.startswith("a/")]
    assert names == ["delete"], "the former log is deleted after file.delete.delay.ms"
