"""The state of one client instance, by which its requests are accepted or refused."""

from math import inf
from typing import Final

from broker.telemetry.subscriptions import ClientSubscription
from broker.wire.errors import ErrorCode
from broker.wire.records.compression import Compression
from kraft import lazy_attrs

# After these errors a client asks for its subscription again at once.
_ASKS_AT_ONCE: Final = (ErrorCode.UNKNOWN_SUBSCRIPTION_ID, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
_COMPRESSIONS: Final = frozenset(Compression)


@lazy_attrs.define
class ClientInstance:
    """A client instance with the subscription of version `version`. Times are in ms of a monotonic clock."""

    subscription: ClientSubscription
    version: int
    expires_ms: float = 0.0
    is_terminating: bool = False
    last_error: ErrorCode = ErrorCode.NONE
    _asked_ms: float = -inf
    _pushed_ms: float = -inf
    _is_new: bool = True  # it has its subscription, and has not pushed since

    def check_get(self, now_ms: float) -> ErrorCode:
        """THROTTLING_QUOTA_EXCEEDED if the client asks again within its interval, else NONE."""
        is_early = now_ms - max(self._asked_ms, self._pushed_ms) < self.subscription.interval_ms
        if is_early and self.last_error not in _ASKS_AT_ONCE:
            return ErrorCode.THROTTLING_QUOTA_EXCEEDED
        self._asked_ms, self._is_new = now_ms, True
        return ErrorCode.NONE

    def check_push(
        self,
        now_ms: float,
        *,
        subscription_id: int,
        is_terminating: bool,
        compression_type: int,
        size: int,
        size_max: int,
    ) -> ErrorCode:
        """The error of a push, or NONE. `size` is the number of its bytes, as they were sent."""
        if self.is_terminating:
            return ErrorCode.INVALID_REQUEST
        if not self._may_push(now_ms) and not is_terminating:
            return ErrorCode.THROTTLING_QUOTA_EXCEEDED
        if subscription_id != self.subscription.id:
            return ErrorCode.UNKNOWN_SUBSCRIPTION_ID
        if compression_type not in _COMPRESSIONS:
            return ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
        return ErrorCode.TELEMETRY_TOO_LARGE if size > size_max else ErrorCode.NONE

    def _may_push(self, now_ms: float) -> bool:
        """True for the first push after a subscription, which clients send within 0.5 to 1.5 intervals, and then once
        in an interval.
        """
        may_push = self._is_new or now_ms - self._pushed_ms >= self.subscription.interval_ms
        if may_push:
            self._pushed_ms, self._is_new = now_ms, False
        return may_push
