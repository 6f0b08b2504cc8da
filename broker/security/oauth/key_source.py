"""The current keys of an identity provider, from its JWKS endpoint or a file, refreshed while a node runs."""

import random
from collections.abc import Callable
from math import inf
from typing import Final

import trio

from broker.security.oauth.documents import read_document
from broker.security.oauth.http_exchange import Endpoint, EndpointFailed, HttpClient
from broker.security.oauth.key_set import InvalidKeySet, KeySet, parse_key_set
from kraft import lazy_attrs

# A token with an unknown key refreshes the keys at most so often: anyone can send such tokens.
UNKNOWN_KEY_REFRESH_S: Final = 10.0


@lazy_attrs.frozen(kw_only=True)
class RefreshTimes:
    """When keys are fetched again, in milliseconds: after `refresh_ms`, and after failures with growing pauses."""

    refresh_ms: float = 3_600_000
    retry_backoff_ms: float = 100
    retry_backoff_max_ms: float = 10_000


class KeySource:
    """Has the keys of `endpoint` once `run` has fetched them. Old keys stay in use while the endpoint fails.

    `on_fetch` is called after each attempt, with the keys or with the reason of the failure.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        client: HttpClient,
        times: RefreshTimes,
        rng: random.Random,
        on_fetch: Callable[[KeySet | str], None],
    ) -> None:
        self.endpoint = endpoint
        self.keys: KeySet | None = None
        self._client = client
        self._times = times
        self._rng = rng
        self._on_fetch = on_fetch
        self._fetched_at = -inf
        self._wanted = trio.Event()

    def refresh_for_unknown_key(self) -> None:
        """Fetch the keys now, unless that was just done: a token names a key that is not known."""
        if trio.current_time() >= self._fetched_at + UNKNOWN_KEY_REFRESH_S:
            self._wanted.set()

    async def run(self) -> None:
        """Fetch the keys, and fetch them again, until cancelled."""
        failures = 0
        while True:
            self._wanted = trio.Event()
            self._fetched_at = trio.current_time()
            try:
                self.keys = parse_key_set(await read_document(self.endpoint, self._client))
            except (EndpointFailed, InvalidKeySet) as error:
                failures += 1
                self._on_fetch(str(error))
            else:
                failures = 0
                self._on_fetch(self.keys)
            with trio.move_on_after(self._pause_s(failures)):
                await self._wanted.wait()

    def _pause_s(self, failures: int) -> float:
        times = self._times
        if not failures:
            return times.refresh_ms / 1000
        longest = max(times.retry_backoff_ms, times.retry_backoff_max_ms)
        pause_ms = min(times.retry_backoff_ms * 2.0 ** min(failures - 1, 30), longest)
        return pause_ms * self._rng.uniform(0.8, 1.2) / 1000
