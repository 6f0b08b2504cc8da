"""The login of a client: it retrieves a token when one is needed, and keeps it until it has to be refreshed."""

import random
from collections.abc import Awaitable, Callable
from typing import Final

import trio

from broker.security.oauth.http_exchange import EndpointFailed
from broker.security.oauth.retrieved_tokens import RetrievedToken, TokenRefresh
from kraft import lazy_attrs

# After a failed refresh the old token stays in use for so long, if it is still valid.
REFRESH_RETRY_MS: Final = 10_000


@lazy_attrs.frozen(kw_only=True)
class LoginRetries:
    """Kafka's configs `sasl.login.retry.backoff.*`: the first pause in ms, and how long retries go on in all."""

    backoff_ms: float = 100
    backoff_max_ms: float = 10_000


class TokenLogin:
    """Used by all connections of a client or a node. `retrieve` raises EndpointFailed; `now_ms` is the wall clock."""

    def __init__(
        self,
        retrieve: Callable[[], Awaitable[RetrievedToken]],
        now_ms: Callable[[], float],
        rng: random.Random,
        refresh: TokenRefresh | None = None,
        retries: LoginRetries | None = None,
    ) -> None:
        self._retrieve = retrieve
        self._now_ms = now_ms
        self._rng = rng
        self._refresh = refresh or TokenRefresh()
        self._retries = retries or LoginRetries()
        self._token: RetrievedToken | None = None
        self._refresh_at_ms: float | None = None
        self._lock = trio.Lock()

    async def token(self) -> RetrievedToken:
        """The present token, or a new one if it is time to refresh it. Raises EndpointFailed.

        Tasks that ask at the same time share one request. If a refresh fails, the old token is returned while it is
        valid.
        """
        async with self._lock:
            if self._token is not None and not self._is_due():
                return self._token
            try:
                token = await self._retrieve_with_retries()
            except EndpointFailed:
                if self._token is None or self._has_expired(self._token):
                    raise
                self._refresh_at_ms = self._now_ms() + REFRESH_RETRY_MS
                return self._token
            self._token = token
            self._refresh_at_ms = self._refresh.refresh_at_ms(token, self._now_ms(), self._rng.random())
            return token

    def _is_due(self) -> bool:
        return self._refresh_at_ms is not None and self._now_ms() >= self._refresh_at_ms

    def _has_expired(self, token: RetrievedToken) -> bool:
        return token.expires_at_ms is not None and self._now_ms() >= token.expires_at_ms

    async def _retrieve_with_retries(self) -> RetrievedToken:
        ends_at = trio.current_time() + self._retries.backoff_max_ms / 1000
        pause_s = self._retries.backoff_ms / 1000
        while True:
            try:
                return await self._retrieve()
            except EndpointFailed as error:
                if error.is_permanent or trio.current_time() + pause_s > ends_at:
                    raise
            await trio.sleep(pause_s * self._rng.uniform(0.8, 1.2))
            pause_s *= 2
