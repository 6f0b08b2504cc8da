"""Clients are charged by the quotas in the metadata, with a clock that the test sets."""

from collections.abc import Callable
from itertools import pairwise
from math import inf
from random import Random

import attrs
import pytest

from broker.metrics import TEXT, exposition
from broker.metrics.collectors.clients import QuotaCollector
from broker.quota import BrokerQuotas, QuotaUse, QuotaWindows, SampledRate
from broker.quota.rates import throttle_time_ms
from broker.server.quotas import Allowance, Usage
from broker.server.session import Session
from broker.server.shortcut_tables import ShortcutTables
from metadata.image import MetadataDelta, MetadataImage
from metadata.protocol import QuotaKey
from metadata.records import ClientQuotaRecord, QuotaEntity

PRODUCE, FETCH, METADATA = 0, 1, 3
DEFAULT_USER: QuotaEntity = (("user", None),)
ALICE: QuotaEntity = (("user", "alice"),)


@attrs.define
class Quotas:
    """Quotas, their clock and how often they have read it, and the number of change notifications."""

    now_ms: float = 0.0
    clock_reads: int = 0
    changes: int = 0
    image: MetadataImage = attrs.field(factory=MetadataImage)
    later: list[Callable[[], None]] = attrs.field(factory=list)
    traced: list[tuple[str, dict[str, object]]] = attrs.field(factory=list)
    broker: BrokerQuotas = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.broker = BrokerQuotas(QuotaWindows(11, 1), self._clock, self._count_change, self._call_later, self._trace)

    def _trace(self, kind: str, /, **fields: object) -> None:
        self.traced.append((kind, fields))

    def _clock(self) -> float:
        self.clock_reads += 1
        return self.now_ms

    def _call_later(self, seconds: float, callback: Callable[[], None]) -> None:
        self.later.append(callback)

    def settle(self) -> None:
        """Call what was to be called later."""
        later, self.later = self.later, []
        for callback in later:
            callback()

    def _count_change(self) -> None:
        self.changes += 1

    def set(self, entity: QuotaEntity, key: str, value: float | None) -> None:
        delta = MetadataDelta(self.image)
        delta.replay([ClientQuotaRecord(entity=entity, key=key, value=value or 0.0, remove=value is None)])
        self.image = delta.apply(self.image.offset + 1)
        self.broker.publish(delta, self.image)

    def charge(
        self, api_key: int, size: int, user: str = "alice", client_id: str | None = "app", *, held_s: float = 0.0
    ) -> int:
        usage = Usage(session_of(user), client_id, api_key, 12, request_bytes=size, fetched_bytes=size)
        return self.broker.charge(usage, held_s)

    def uses(self) -> list[QuotaUse]:
        keys = (QuotaKey.PRODUCER_BYTE_RATE, QuotaKey.CONSUMER_BYTE_RATE, QuotaKey.REQUEST_PERCENTAGE)
        return [use for key in keys for use in self.broker.uses(key) if use is not None]


def session_of(user: str) -> Session:
    return Session.authenticated(f"User:{user}", "127.0.0.1", "PLAINTEXT", ShortcutTables())


def test_without_quotas_nothing_is_charged() -> None:
    quotas = Quotas()
    assert not quotas.broker.any_set
    assert quotas.charge(PRODUCE, 1 << 30) == 0
    assert quotas.broker.fetched_bytes_max(session_of("alice"), "app") == inf


@pytest.mark.parametrize(("api_key", "key"), [(PRODUCE, "producer_byte_rate"), (FETCH, "consumer_byte_rate")])
def test_client_pauses_for_the_time_that_brings_its_rate_within_the_quota(api_key: int, key: str) -> None:
    quotas = Quotas()
    quotas.set(ALICE, key, 100)
    assert quotas.broker.any_set
    assert quotas.charge(api_key, 1000) == 0
    assert quotas.charge(api_key, 30) == 300
    assert quotas.charge(1 - api_key, 1 << 20) == 0
    assert quotas.charge(METADATA, 1 << 20) == 0
    assert quotas.charge(api_key, 1 << 20, user="bob") == 0


@pytest.mark.parametrize(
    ("entity", "of"),
    [
        (ALICE, "user=alice"),
        ((("client-id", None),), "client-id=app"),
        ((("client-id", "app"), ("user", None)), "user=alice client-id=app"),
    ],
)
def test_clients_with_a_long_pause_are_reported_once_in_ten_minutes(entity: QuotaEntity, of: str) -> None:
    """Reported as `kraft quotas` takes them."""
    quotas = Quotas()
    quotas.set(entity, "producer_byte_rate", 1_000)
    assert quotas.charge(PRODUCE, 10_000) == 0
    assert 0 < quotas.charge(PRODUCE, 500) < 1_000
    assert quotas.traced == [], "short pauses are what a quota is for"
    pause_ms = quotas.charge(PRODUCE, 11_000)
    fields = {"quota": "producer_byte_rate", "of": of, "limit": 1_000, "pause_ms": pause_ms}
    assert quotas.traced == [("client_throttled", fields)]
    quotas.now_ms += 599_000
    quotas.charge(PRODUCE, 100_000)
    assert len(quotas.traced) == 1
    quotas.now_ms += 1_000
    quotas.charge(PRODUCE, 100_000)
    assert len(quotas.traced) == 2


def test_throttled_fetch_is_not_counted_and_a_produce_is() -> None:
    quotas = Quotas()
    quotas.set(ALICE, "consumer_byte_rate", 100)
    quotas.set(ALICE, "producer_byte_rate", 100)
    for _ in range(3):
        assert quotas.charge(FETCH, 1050) == 500
    assert quotas.charge(FETCH, 1000) == 0
    assert [quotas.charge(PRODUCE, 1050) for _ in range(3)] == [500, 11_000, 21_500]


def test_users_with_a_default_quota_do_not_share_it_and_client_ids_of_a_user_do() -> None:
    quotas = Quotas()
    quotas.set(DEFAULT_USER, "producer_byte_rate", 100)
    assert quotas.charge(PRODUCE, 1000, "alice", "one") == 0
    assert quotas.charge(PRODUCE, 1000, "bob", "one") == 0
    assert quotas.charge(PRODUCE, 10, "alice", None) == 100


def test_changed_quota_applies_to_the_next_request_and_usage_is_kept() -> None:
    quotas = Quotas()
    quotas.set(ALICE, "producer_byte_rate", 100)
    quotas.charge(PRODUCE, 1000)
    quotas.set(ALICE, "producer_byte_rate", 50)
    assert quotas.charge(PRODUCE, 0) == 10_000
    quotas.set(ALICE, "producer_byte_rate", None)
    assert quotas.charge(PRODUCE, 1 << 20) == 0
    assert (quotas.changes, quotas.broker.any_set) == (3, False)


def test_other_changes_of_the_metadata_are_not_told() -> None:
    quotas = Quotas()
    delta = MetadataDelta(quotas.image)
    quotas.broker.publish(delta, delta.apply(0))
    assert quotas.changes == 0


def test_fetch_may_return_the_burst_of_an_idle_consumer() -> None:
    quotas = Quotas()
    quotas.set(ALICE, "consumer_byte_rate", 100)
    assert quotas.broker.fetched_bytes_max(session_of("alice"), "app") == 1000
    assert quotas.broker.fetched_bytes_max(session_of("bob"), "app") == inf


def test_follower_is_not_charged() -> None:
    quotas = Quotas()
    quotas.set(ALICE, "consumer_byte_rate", 1)
    usage = Usage(session_of("alice"), "app", FETCH, 12, 0, fetched_bytes=1 << 20, is_exempt=True)
    assert quotas.broker.charge(usage, 1.0) == 0
    assert quotas.charge(FETCH, 10) == 0


def test_request_quota_counts_the_time_of_all_requests_in_percent() -> None:
    quotas = Quotas()
    assert not quotas.broker.needs_times
    quotas.set(ALICE, "request_percentage", 10)
    assert quotas.broker.needs_times
    assert quotas.charge(METADATA, 100, held_s=0.6) == 0
    assert quotas.charge(PRODUCE, 100, held_s=0.4) == 0
    assert quotas.charge(METADATA, 100, held_s=0.02) == 200
    assert quotas.charge(METADATA, 100, user="bob", held_s=60.0) == 0


def test_pause_for_a_request_quota_is_one_window_at_most() -> None:
    quotas = Quotas()
    quotas.set(ALICE, "request_percentage", 1)
    assert quotas.charge(METADATA, 0, held_s=60.0) == 1000


def test_time_after_the_answer_is_charged_to_the_next_request() -> None:
    quotas = Quotas()
    quotas.set(ALICE, "request_percentage", 10)
    quotas.broker.charge_time(session_of("alice"), "app", 1.05)
    assert quotas.charge(METADATA, 0) == 500


def test_fetch_that_is_throttled_for_its_time_is_not_charged_its_records() -> None:
    quotas = Quotas()
    quotas.set(ALICE, "request_percentage", 10)
    quotas.set(ALICE, "consumer_byte_rate", 100)
    assert quotas.charge(FETCH, 1000, held_s=1.05) == 500
    quotas.now_ms += 10_500
    assert quotas.charge(FETCH, 1000) == 0


def test_throttle_time_fits_into_a_response() -> None:
    quotas = Quotas()
    quotas.set(ALICE, "producer_byte_rate", 1)
    assert quotas.charge(PRODUCE, 1 << 40) == 2**31 - 1


def test_idle_clients_are_forgotten_and_active_ones_are_not() -> None:
    quotas = Quotas()
    quotas.set((("client-id", None),), "producer_byte_rate", 100)
    for number in range(5000):
        quotas.now_ms += 10
        quotas.charge(PRODUCE, 1000, client_id=str(number))
        quotas.charge(PRODUCE, 1, client_id="active")
    assert quotas.charge(PRODUCE, 10_000, client_id="active") > 0
    kept = len(quotas.broker._produce._usages)
    assert kept <= 3000, "those of the last 11 seconds, and as many again"


def test_use_of_quotas_is_told_while_clients_are_active() -> None:
    quotas = Quotas()
    quotas.set(DEFAULT_USER, "producer_byte_rate", 100)
    quotas.set((("client-id", "app"), ("user", "alice")), "consumer_byte_rate", 1000)
    quotas.charge(PRODUCE, 1030)
    quotas.charge(PRODUCE, 20)
    quotas.charge(FETCH, 500)
    quotas.charge(PRODUCE, 10, "bob")
    assert quotas.uses() == [
        QuotaUse(QuotaKey.PRODUCER_BYTE_RATE, "alice", None, 100, 105, throttled=2, throttled_ms=300 + 500),
        QuotaUse(QuotaKey.PRODUCER_BYTE_RATE, "bob", None, 100, 1, throttled=0, throttled_ms=0),
        QuotaUse(QuotaKey.CONSUMER_BYTE_RATE, "alice", "app", 1000, 50, throttled=0, throttled_ms=0),
    ]
    quotas.now_ms += 12_000
    assert quotas.uses() == []


@pytest.mark.parametrize("idle_ms", [0, 60_000])
def test_use_of_many_clients_is_read_in_short_steps(idle_ms: int) -> None:
    """A scrape of the metrics lets other tasks run between two pieces of its text."""
    quotas = Quotas()
    quotas.set(DEFAULT_USER, "producer_byte_rate", 100)
    for number in range(1000):
        quotas.charge(PRODUCE, 10, f"user-{number}")
    quotas.now_ms += idle_ms
    reads = [quotas.clock_reads]
    for _ in exposition(QuotaCollector(quotas.broker).collect(), TEXT):
        reads.append(quotas.clock_reads)
    assert reads[-1] - reads[0] == 2 * 1000
    assert max(later - read for read, later in pairwise(reads)) == 64


def take(allowance: Allowance, size: int) -> bool:
    """Take bytes as a shortcut does; false if the request has to be charged."""
    left = allowance.left - size
    if left < 0:
        return False
    allowance.left = left
    return True


class Client:
    """Takes from its allowance, or is charged, as a shortcut does."""

    def __init__(self, quotas: Quotas, client_id: str) -> None:
        self._quotas = quotas
        self._client_id = client_id
        self._session = session_of("alice")
        self.allowance = self._drawn()

    def produce(self, size: int, *, held_s: float = 0) -> int:
        """The pause in ms."""
        if take(self.allowance, size):
            return 0
        pause_ms = self._quotas.charge(PRODUCE, size, client_id=self._client_id, held_s=held_s)
        self.allowance = self._drawn()
        return pause_ms

    def _drawn(self) -> Allowance:
        allowance = self._quotas.broker.allowance(self._session, self._client_id, PRODUCE)
        assert allowance is not None
        return allowance


def test_client_far_below_its_quota_draws_an_allowance_that_cannot_exceed_it() -> None:
    quotas = Quotas()
    session = session_of("alice")
    assert quotas.broker.allowance(session, "app", PRODUCE) is None
    quotas.set(ALICE, "producer_byte_rate", 100)
    assert quotas.broker.allowance(session, "app", FETCH) is None
    allowance = quotas.broker.allowance(session, "app", PRODUCE)
    assert allowance is not None
    assert not take(allowance, 1), "nothing is granted before the first request"

    assert quotas.charge(PRODUCE, 300) == 0
    assert quotas.broker.allowance(session, "app", PRODUCE) is allowance
    assert not take(allowance, 351), "10 windows allow 1000 bytes, and half of what is left is drawn"
    assert take(allowance, 350)
    assert quotas.charge(PRODUCE, 340) == 0
    assert not take(allowance, 1)
    assert quotas.charge(PRODUCE, 60) == 500
    quotas.broker.allowance(session, "app", PRODUCE)
    assert not take(allowance, 1)


def test_used_part_of_an_allowance_is_recorded_soon() -> None:
    quotas = Quotas()
    quotas.set(ALICE, "producer_byte_rate", 100)
    quotas.charge(PRODUCE, 300)
    allowance = quotas.broker.allowance(session_of("alice"), "app", PRODUCE)
    assert allowance is not None
    assert take(allowance, 200)
    assert [use.rate for use in quotas.uses()] == [50]
    quotas.charge(PRODUCE, 10)
    quotas.broker.allowance(session_of("alice"), "app", PRODUCE)
    assert take(allowance, 90)
    quotas.now_ms += 50
    quotas.settle()
    assert not take(allowance, 1)
    assert [use.rate for use in quotas.uses()] == [pytest.approx(600 / 10.05)]
    assert not quotas.later


def test_allowance_ends_when_quotas_change() -> None:
    quotas = Quotas()
    quotas.set(ALICE, "producer_byte_rate", 100)
    quotas.charge(PRODUCE, 300)
    allowance = quotas.broker.allowance(session_of("alice"), "app", PRODUCE)
    assert allowance is not None
    assert take(allowance, 300)
    quotas.set(ALICE, "request_percentage", 10)
    assert not take(allowance, 1)
    assert [use.rate for use in quotas.uses()] == [60]


def test_client_far_below_its_request_quota_is_granted_any_time_until_it_is_recorded() -> None:
    quotas, session = Quotas(), session_of("alice")
    quotas.set(ALICE, "request_percentage", 10)
    assert quotas.broker.allowance(session_of("bob"), "app", PRODUCE) is None
    assert quotas.broker.held_time(session_of("bob"), "app") is None
    allowance = quotas.broker.allowance(session, "app", PRODUCE)
    held_time = quotas.broker.held_time(session, "app")
    assert allowance is not None
    assert held_time is not None
    assert not take(allowance, 1), "nothing is granted before the first request"

    assert quotas.charge(PRODUCE, 100, held_s=0.3) == 0
    assert quotas.broker.allowance(session, "app", PRODUCE) is allowance
    assert take(allowance, 1 << 29)
    held_time.seconds += 0.5  # the server adds the time of requests that take from the allowance
    assert quotas.charge(METADATA, 100, held_s=0.1) == 0
    quotas.settle()
    assert not take(allowance, 1)
    assert [use.rate for use in quotas.uses()] == [pytest.approx(9)]

    assert quotas.charge(METADATA, 100, held_s=0.1) == 0
    quotas.broker.allowance(session, "app", PRODUCE)
    assert not take(allowance, 1), "the next 50 ms could exceed the quota"
    held_time.seconds += 0.01
    assert quotas.charge(METADATA, 100, held_s=0.01) == 200


def test_one_long_request_ends_the_allowance_of_time() -> None:
    quotas = Quotas()
    quotas.set(ALICE, "request_percentage", 10)
    assert quotas.charge(METADATA, 100, held_s=0.1) == 0
    assert quotas.charge(METADATA, 100, held_s=1.0) == 1000


def test_allowance_of_bytes_ends_with_that_of_time_even_if_other_clients_share_it() -> None:
    """The quota of bytes is the user's, that of time is one of its client's: others have all the time they want."""
    quotas = Quotas()
    quotas.set(ALICE, "producer_byte_rate", 10_000)
    quotas.set((("client-id", "app"), ("user", "alice")), "request_percentage", 10)
    limited, other = Client(quotas, "app"), Client(quotas, "other")
    assert other.produce(100) == 0
    assert take(other.allowance, 1)
    assert not take(limited.allowance, 1)
    assert limited.produce(100, held_s=0.1) == 0
    assert take(limited.allowance, 1)
    assert quotas.charge(METADATA, 100, held_s=1.0) == 1000
    assert not take(limited.allowance, 1)
    assert take(other.allowance, 1)
    quotas.settle()
    assert other.produce(100) == 0
    assert take(other.allowance, 1)
    assert not take(limited.allowance, 1)


@pytest.mark.seeds(5)
def test_allowances_let_no_client_use_more_than_charging_each_request(seed: int) -> None:
    """The pauses equal those of a rate that records every request at its time, as long as time passes in steps.

    Some of the clients that share the quota of bytes have request quotas of their own.
    """
    rng = Random(seed)
    quotas, exact = Quotas(), SampledRate(11, 1000)
    quotas.set(ALICE, "producer_byte_rate", 1000)
    for client_id in ("one", "two"):
        quotas.set((("client-id", client_id), ("user", "alice")), "request_percentage", 50)
    clients = [Client(quotas, client_id) for client_id in ("one", "two", "three", "four")]
    for _ in range(2000):
        for _ in range(rng.randrange(4)):
            size = rng.randrange(1, 600)
            pause_ms = rng.choice(clients).produce(size)
            exact.record(size, quotas.now_ms)
            assert pause_ms == throttle_time_ms(exact.delay_ms(1000, quotas.now_ms))
        quotas.settle()
        quotas.now_ms += rng.choice((1, 50, 500, 3000))
