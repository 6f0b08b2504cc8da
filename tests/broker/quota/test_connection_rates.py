"""Rates of new connections: of the node, of a listener and of an address (KIP-612)."""

import math

import attrs
import pytest

from broker.net.admission import RateExcess
from broker.quota import ConnectionRates, QuotaWindows
from metadata.image import MetadataDelta, MetadataImage
from metadata.records import ClientQuotaRecord

LISTENER = "PLAINTEXT"


@attrs.define
class Rates:
    """Rates over two windows of a second, and their clock. A burst is what a limit allows in one second."""

    now_ms: float = 0.0
    ignored: tuple[str, ...] = ()
    rates: ConnectionRates = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.rates = ConnectionRates(QuotaWindows(2, 1), lambda: self.now_ms, self.ignored)

    def set_address(self, name: str | None, limit: float | None) -> None:
        record = ClientQuotaRecord(
            entity=(("ip", name),),
            key="connection_creation_rate",
            value=0.0 if limit is None else limit,
            remove=limit is None,
        )
        delta = MetadataDelta(MetadataImage())
        delta.replay([record])
        self.rates.publish(delta, delta.apply(0))

    def connect(self, address: str = "10.0.0.1", listener: str = LISTENER) -> int:
        """The pause of the connection; 0 if it is counted."""
        excess = self.rates.admit(listener, address)
        return 0 if excess is None else excess.pause_ms


def test_limit_of_the_node_holds_for_all_listeners_together() -> None:
    rates = Rates()
    rates.rates.limit(10, {})
    assert [rates.connect(listener=f"L{number % 2}") for number in range(10)] == [0] * 10
    assert rates.rates.admit(LISTENER, "10.0.0.1") == RateExcess(100, is_of_address=False)
    rates.now_ms += 100
    assert [rates.connect(), rates.connect()] == [0, 100], "the refused connection was not counted"


def test_limit_of_a_listener_holds_for_it_alone() -> None:
    rates = Rates()
    rates.rates.limit(1 << 20, {LISTENER: 10})
    assert [rates.connect() for _ in range(11)] == [0] * 10 + [100]
    assert rates.connect(listener="OTHER") == 0


def test_pause_is_one_window_at_most() -> None:
    rates = Rates()
    rates.rates.limit(1, {})
    for _ in range(5):
        rates.rates.count(LISTENER)
        rates.rates.count("OTHER")
    rates.rates.limit(1 << 20, {LISTENER: 1})
    assert rates.connect() == 1000


def test_limit_of_0_lets_no_connection_in() -> None:
    """A file may set the limit to 0, as in Kafka."""
    rates = Rates()
    rates.rates.limit(0, {})
    assert rates.connect() == 1000
    rates.rates.limit(1 << 20, {LISTENER: 0})
    assert rates.connect() == 1000
    assert rates.connect(listener="OTHER") == 0


def test_address_that_connects_too_often_is_refused_and_uses_up_no_other_rate() -> None:
    rates = Rates()
    rates.rates.limit(30, {LISTENER: 30})
    rates.set_address("10.0.0.1", 10)
    assert [rates.connect() for _ in range(10)] == [0] * 10
    assert [rates.rates.admit(LISTENER, "10.0.0.1") for _ in range(50)] == [RateExcess(100, is_of_address=True)] * 50
    assert [rates.connect("10.0.0.2") for _ in range(20)] == [0] * 20
    rates.now_ms += 150
    assert rates.connect() == 0


def test_default_holds_for_each_address_and_a_limit_of_its_own_replaces_it() -> None:
    rates = Rates()
    rates.set_address(None, 1)
    rates.set_address("::0001", 2)
    assert [rates.connect("10.0.0.1") for _ in range(2)] == [0, 1000]
    assert rates.connect("10.0.0.2") == 0
    assert [rates.connect("::1") for _ in range(3)] == [0, 0, 500]
    rates.set_address("::1", None)
    assert rates.connect("::1") > 0, "the default applies"
    rates.set_address(None, None)
    assert rates.connect("::1") == 0


def test_idle_addresses_are_forgotten() -> None:
    rates = Rates()
    rates.set_address(None, 1000)
    for number in range(5000):
        rates.now_ms += 10
        rates.connect(str(number))
    assert len(rates.rates._addresses) <= 1024 + 200


def test_rates_are_told_whether_limited_or_not() -> None:
    rates = Rates()
    for _ in range(3):
        rates.connect()
    rates.rates.count("BROKERS")
    assert rates.rates.node_rate == 3
    assert rates.rates.listener_rates == {LISTENER: 3, "BROKERS": 1}


@pytest.mark.parametrize("limit", [0.0, -1.0, math.nan, math.inf, 0.5])
def test_invalid_quota_in_the_metadata_log_leaves_the_old_one(limit: float) -> None:
    rates = Rates()
    rates.set_address("10.0.0.1", 2)
    rates.set_address("10.0.0.1", limit)
    rates.set_address("no-address", 2)
    assert [rates.connect() for _ in range(3)] == [0, 0, 500]


def test_ignored_quota_does_not_limit() -> None:
    rates = Rates(ignored=("connection_creation_rate",))
    rates.set_address("10.0.0.1", 1)
    assert [rates.connect() for _ in range(9)] == [0] * 9
