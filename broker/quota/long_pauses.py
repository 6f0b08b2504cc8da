"""Reports clients that a quota makes pause for long: most of them time out after a few such pauses."""

from collections.abc import Callable
from typing import Final

from broker.quota.precedence import QuotaShare, QuotaTable
from metadata.protocol import QuotaKey

# A request quota pauses no longer than a window, which is a second by default.
_LONG_PAUSE_MS: Final = 1_000
# Clients that share a quota are reported again after this time.
_AGAIN_MS: Final = 600_000
# Quotas whose last report is remembered. Beyond that, those that may be reported again are forgotten, then all.
_REMEMBERED_MAX: Final = 1_024


class LongPauses:
    """The reports of pauses, as events."""

    def __init__(self, trace: Callable[..., None]) -> None:
        self._trace = trace
        self._reported_ms: dict[tuple[QuotaKey, QuotaShare], float] = {}

    def note(self, key: QuotaKey, table: QuotaTable, client: tuple[str, str], pause_ms: int, now_ms: float) -> None:
        """Trace a long pause of a client, unless one for the same quota was traced a short time ago.

        `table` has the quotas of this key; the client is a user and a client id.
        """
        applied = table.applied(*client) if pause_ms >= _LONG_PAUSE_MS else None
        if applied is None:
            return
        quota = (key, applied.share)
        last_ms = self._reported_ms.get(quota)
        if last_ms is not None and now_ms - last_ms < _AGAIN_MS:
            return
        if len(self._reported_ms) >= _REMEMBERED_MAX:
            recent = {each: at_ms for each, at_ms in self._reported_ms.items() if now_ms - at_ms < _AGAIN_MS}
            self._reported_ms = recent if len(recent) < _REMEMBERED_MAX else {}
        self._reported_ms[quota] = now_ms
        of = _named(applied.share)
        self._trace("client_throttled", quota=key, of=of, limit=applied.limit, pause_ms=pause_ms)


def _named(share: QuotaShare) -> str:
    """The clients that share a quota, as `kraft quotas` takes them."""
    parts = (("user", share.user), ("client-id", share.client_id))
    return " ".join(f"{kind}={name}" for kind, name in parts if name is not None)
