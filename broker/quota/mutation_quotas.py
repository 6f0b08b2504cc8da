"""The quotas on changes of metadata (KIP-599): partitions that a client creates and deletes per second.

The active controller enforces them, so they hold for the whole cluster. After a change of the leader, all buckets are
full again, as in Kafka.
"""

from collections.abc import Callable, Collection
from typing import Final

from broker.quota.precedence import QuotaShare, QuotaTable, change_tables
from broker.quota.quota_changes import usable_changes
from broker.quota.rates import QuotaWindows, TokenBucket, throttle_time_ms
from broker.server.session import Session
from kraft import lazy_attrs
from metadata.image import MetadataDelta, MetadataImage
from metadata.protocol import QuotaKey

# The first versions of which clients know THROTTLING_QUOTA_EXCEEDED: CreateTopics, DeleteTopics, CreatePartitions.
_STRICT_FROM: Final = {19: 6, 20: 5, 37: 3}
# Buckets that are kept before full ones, which are like new ones, are dropped.
_KEPT_MIN: Final = 1024


@lazy_attrs.frozen
class MutationUse:
    """The tokens that clients share: those of `user`, with `client_id`, or both. None means any.

    `limit` tokens are added per second; negative `tokens` mean that the quota is exhausted.
    """

    user: str | None
    client_id: str | None
    limit: float
    tokens: float


class MutationQuotas:
    """Implements `broker.server.quotas.MutationQuotas`, and is a metadata publisher. `now_ms` is a monotonic time.
    `ignored_quotas` as in `usable_changes`.
    """

    def __init__(
        self, windows: QuotaWindows, now_ms: Callable[[], float], ignored_quotas: Collection[str] = ()
    ) -> None:
        self._windows = windows
        self._ignored_quotas = ignored_quotas
        self._now_ms = now_ms
        self._table = QuotaTable()
        self._buckets: dict[QuotaShare, tuple[float, TokenBucket]] = {}
        self._kept_max = _KEPT_MIN

    def publish(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Apply changed quotas to the next request of every client."""
        changed = usable_changes(delta.client_quotas.changed, self._ignored_quotas)
        change_tables({QuotaKey.CONTROLLER_MUTATION_RATE: self._table}, changed)

    def charge(
        self, session: Session, client_id: str | None, api_key: int, api_version: int, count: int
    ) -> tuple[bool, int]:
        """See `broker.server.quotas.MutationQuotas`."""
        applied = self._table.applied(session.user, client_id or "")
        if applied is None:
            return True, 0
        now_ms = self._now_ms()
        limit, burst = applied.limit, applied.limit * self._windows.seconds
        bucket = self._bucket(applied.share, limit, now_ms)
        is_strict = api_version >= _STRICT_FROM[api_key]
        if bucket.tokens(limit, burst, now_ms) < 0 and is_strict:
            return False, throttle_time_ms(bucket.delay_ms(limit, burst, now_ms))
        bucket.take(count)
        return True, 0 if is_strict else throttle_time_ms(bucket.delay_ms(limit, burst, now_ms))

    def uses(self) -> list[MutationUse]:
        """The tokens of clients that have changed metadata lately."""
        now_ms = self._now_ms()
        self._drop_full(now_ms)
        return [
            MutationUse(share.user, share.client_id, limit, bucket.tokens(limit, limit * self._windows.seconds, now_ms))
            for share, (limit, bucket) in self._buckets.items()
        ]

    def _bucket(self, share: QuotaShare, limit: float, now_ms: float) -> TokenBucket:
        kept = self._buckets.get(share)
        if kept is None and len(self._buckets) >= self._kept_max:
            self._drop_full(now_ms)
        bucket = TokenBucket() if kept is None else kept[1]
        self._buckets[share] = (limit, bucket)
        return bucket

    def _drop_full(self, now_ms: float) -> None:
        self._buckets = {
            share: (limit, bucket)
            for share, (limit, bucket) in self._buckets.items()
            if bucket.tokens(limit, limit * self._windows.seconds, now_ms) < limit * self._windows.seconds
        }
        self._kept_max = max(_KEPT_MIN, 2 * len(self._buckets))
