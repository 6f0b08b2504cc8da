"""The lifetime of a client: a nursery for its tasks and connections, which ends with the client's block."""

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

import trio

from broker.client.cluster import Cluster
from broker.client.config import ClientConfig
from broker.client.environment import Environment, environment_of
from broker.client.errors import ClientFailed

_log: Final = logging.getLogger(__name__)


@asynccontextmanager
async def open_cluster(
    config: ClientConfig, environment: Environment | None = None, cluster_class: type[Cluster] = Cluster
) -> AsyncIterator[Cluster]:
    """A cluster for as long as the block runs. Connects when the first call needs it.

    An exception of the block leaves it as it is, not in a group. Where the block is cancelled, the connections live on
    until it has ended: a client that leaves its group or flushes its records then, with a shield, reaches the brokers.

    If a background task fails, the block is cancelled and raises ClientFailed, whose cause is the task's error.
    Raises RuntimeError outside of Trio.
    """
    _check_trio()
    raised: BaseException | None = None
    tasks = _BackgroundTasks()
    async with trio.open_nursery() as nursery:
        try:
            # If the caller is cancelled already, `start` would leave the task in a nursery of its own, and wait for it.
            with trio.CancelScope(shield=True):
                carrying = await nursery.start(tasks.carry)
            cluster = cluster_class(config, environment_of(environment), carrying)
            tasks.on_failure = cluster.fail
            cluster.nursery.start_soon(cluster.run)
            with tasks.block:
                try:
                    yield cluster
                finally:
                    cluster.close()
        except trio.Cancelled:
            raise
        except BaseException as error:  # noqa: BLE001 - raised again below, outside the nursery
            raised = error
        finally:
            tasks.scope.cancel()
    if tasks.failure is not None and (raised is None or isinstance(raised, Exception)):
        tasks.failure.__context__ = raised
        raise tasks.failure
    if raised is not None:
        raise raised


def _check_trio() -> None:
    if not trio.lowlevel.in_trio_task():
        raise RuntimeError(
            "the client runs under Trio: call trio.run(main); or use AsyncioProducer, AsyncioConsumer,"
            " AsyncioShareConsumer and AsyncioAdmin on asyncio, and the blocking SyncProducer, SyncConsumer,"
            " SyncShareConsumer and SyncAdmin elsewhere"
        )


class _BackgroundTasks:
    """The nursery of a client's tasks, which runs until `scope` is cancelled. A task that fails cancels `block`."""

    def __init__(self) -> None:
        self.scope = trio.CancelScope(shield=True)
        self.block = trio.CancelScope()
        self.failure: ClientFailed | None = None
        self.on_failure: Callable[[ClientFailed], None] = lambda failure: None

    async def carry(self, *, task_status: trio.TaskStatus[trio.Nursery]) -> None:
        try:
            with self.scope:
                async with trio.open_nursery() as nursery:
                    task_status.started(nursery)
                    await trio.sleep_forever()
        except Exception as error:  # noqa: BLE001 - the block raises it
            cause = _single(error)
            self.failure = ClientFailed(f"a task of the client failed, which closes it: {type(cause).__name__}")
            self.failure.__cause__ = cause
            _log.error("%s", self.failure, exc_info=cause)
            self.on_failure(self.failure)
            self.block.cancel()


def _single(error: Exception) -> Exception:
    """The error within the groups of one that nurseries make."""
    while isinstance(error, ExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error
