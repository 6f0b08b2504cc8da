"""The blocking variant of `ShareConsumer`."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Generic, Self, Unpack

from broker.client.arguments.calls import checks_arguments
from broker.client.blocking.client import BlockingClient, blocking, on_loop
from broker.client.errors import ClosedError
from broker.client.hosted.client import call_on_loop
from broker.client.serializers import Deserializer
from broker.client.share_consumer.config import ShareConsumerSettings
from broker.client.share_consumer.engine import AcknowledgementCallback
from broker.client.share_consumer.share_consumer import ShareConsumer
from broker.client.types import K, ShareRecord, V


@checks_arguments()
class SyncShareConsumer(BlockingClient[ShareConsumer[K, V]], Generic[K, V]):
    """`ShareConsumer` for scripts, notebooks and threads: the same methods, which block.

        with SyncShareConsumer("localhost:9092", topics=["jobs"], group_id="workers") as consumer:
            for record in consumer:
                ...

    One thread at a time reads; other threads may call the other methods.
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

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> ShareRecord[K, V]:
        """The next record. Raises as `fetch` does."""

        async def read(consumer: ShareConsumer[K, V]) -> list[ShareRecord[K, V]]:
            return [await anext(consumer)]

        return self._read(read)[0]

    def fetch(self, timeout_s: float | None = None) -> list[ShareRecord[K, V]]:
        """The next records; see `ShareConsumer.fetch`. If the wait is interrupted, no record is taken."""
        return self._read(lambda consumer: consumer.fetch(timeout_s))

    subscribe = on_loop(ShareConsumer.subscribe)
    unsubscribe = blocking(ShareConsumer.unsubscribe)
    subscription = on_loop(ShareConsumer.subscription)
    acknowledge = on_loop(ShareConsumer.acknowledge)
    acknowledge_offset = on_loop(ShareConsumer.acknowledge_offset)
    commit = blocking(ShareConsumer.commit)
    commit_soon = on_loop(ShareConsumer.commit_soon)
    acquisition_lock_timeout_ms = on_loop(ShareConsumer.acquisition_lock_timeout_ms)

    def _read(
        self, read: Callable[[ShareConsumer[K, V]], Awaitable[list[ShareRecord[K, V]]]]
    ) -> list[ShareRecord[K, V]]:
        """Reads records. If the thread is interrupted when they are on their way, the consumer gives them again."""
        taken: list[ShareRecord[K, V]] = []

        async def take(consumer: ShareConsumer[K, V]) -> None:
            taken.extend(await read(consumer))

        try:
            self._hosted.run(take)
        except BaseException:
            if taken:
                with suppress(ClosedError):
                    self._hosted.run(lambda client: call_on_loop(client, ShareConsumer._take_back, [taken], {}))
            raise
        return taken
