"""The variant of `ShareConsumer` for asyncio."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Generic, Self, Unpack

from broker.client.aio.client import AsyncioClient, awaited, awaited_on_loop
from broker.client.arguments.calls import checks_arguments
from broker.client.errors import ClosedError
from broker.client.hosted.client import call_on_loop
from broker.client.serializers import Deserializer
from broker.client.share_consumer.config import ShareConsumerSettings
from broker.client.share_consumer.engine import AcknowledgementCallback
from broker.client.share_consumer.share_consumer import ShareConsumer
from broker.client.types import K, ShareRecord, V


@checks_arguments()
class AsyncioShareConsumer(AsyncioClient[ShareConsumer[K, V]], Generic[K, V]):
    """`ShareConsumer` for asyncio: the same methods. Those that are not async there are awaited, too.

        async with AsyncioShareConsumer("localhost:9092", topics=["jobs"], group_id="workers") as consumer:
            async for record in consumer:
                ...

    One task at a time reads; other tasks of the same asyncio loop may call the other methods.
    """

    def __init__(
        self,
        bootstrap_servers: str | Sequence[str] | None = None,
        *,
        topics: Iterable[str] = (),
        on_acknowledged: AcknowledgementCallback | None = None,
        key_deserializer: Deserializer[K] | None = None,
        value_deserializer: Deserializer[V] | None = None,
        config: Mapping[str, object] | None = None,
        **settings: Unpack[ShareConsumerSettings],
    ) -> None:
        """Takes what `ShareConsumer` takes. Raises ConfigError.

        Deserializers and `on_acknowledged` are called on the background thread.
        """
        super().__init__(
            ShareConsumer(
                bootstrap_servers,
                topics=topics,
                on_acknowledged=on_acknowledged,
                key_deserializer=key_deserializer,
                value_deserializer=value_deserializer,
                config=config,
                **settings,
            )
        )

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ShareRecord[K, V]:
        """The next record. Raises as `fetch` does."""

        async def read(consumer: ShareConsumer[K, V]) -> list[ShareRecord[K, V]]:
            return [await anext(consumer)]

        return (await self._read(read))[0]

    async def fetch(self, timeout_s: float | None = None) -> list[ShareRecord[K, V]]:
        """The next records; see `ShareConsumer.fetch`. If the wait is cancelled, no record is taken."""
        return await self._read(lambda consumer: consumer.fetch(timeout_s))

    subscribe = awaited_on_loop(ShareConsumer.subscribe)
    unsubscribe = awaited(ShareConsumer.unsubscribe)
    subscription = awaited_on_loop(ShareConsumer.subscription)
    acknowledge = awaited_on_loop(ShareConsumer.acknowledge)
    acknowledge_offset = awaited_on_loop(ShareConsumer.acknowledge_offset)
    commit = awaited(ShareConsumer.commit)
    commit_soon = awaited_on_loop(ShareConsumer.commit_soon)
    acquisition_lock_timeout_ms = awaited_on_loop(ShareConsumer.acquisition_lock_timeout_ms)

    async def _read(
        self, read: Callable[[ShareConsumer[K, V]], Awaitable[list[ShareRecord[K, V]]]]
    ) -> list[ShareRecord[K, V]]:
        """Reads records. If the task is cancelled when they are on their way, the consumer gives them again."""
        taken: list[ShareRecord[K, V]] = []

        async def take(consumer: ShareConsumer[K, V]) -> None:
            taken.extend(await read(consumer))

        try:
            await self._hosted.run(take)
        except BaseException:
            if taken:
                with suppress(ClosedError):
                    await self._hosted.run(lambda client: call_on_loop(client, ShareConsumer._take_back, [taken], {}))
            raise
        return taken
