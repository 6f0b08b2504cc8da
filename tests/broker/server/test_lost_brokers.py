"""Which dead brokers the next Metadata response to a client lists."""

import attrs
import trio
from trio.testing import MockClock

from broker.server.lost_brokers import LostBrokers
from broker.server.session import Session
from broker.server.shortcut_tables import ShortcutTables
from metadata.image import MetadataDelta, MetadataImage
from metadata.records import BrokerRegistrationChangeRecord, FencingChange, MetadataRecord, RegisterBrokerRecord


def session() -> Session:
    return Session("127.0.0.1", "PLAINTEXT", ShortcutTables())


def change(broker_id: int, fenced: FencingChange, *, shuts_down: bool = False) -> BrokerRegistrationChangeRecord:
    return BrokerRegistrationChangeRecord(
        broker_id=broker_id, broker_epoch=broker_id, fenced=fenced, in_controlled_shutdown=shuts_down
    )


@attrs.define
class Brokers:
    """Three brokers that are not fenced, and what follows."""

    lost: LostBrokers = attrs.field(factory=LostBrokers)
    image: MetadataImage = attrs.field(factory=MetadataImage)

    def __attrs_post_init__(self) -> None:
        for broker_id in (1, 2, 3):
            self.replay(RegisterBrokerRecord(broker_id=broker_id, incarnation_id=bytes(16), broker_epoch=broker_id))
            self.replay(change(broker_id, FencingChange.UNFENCE))

    def replay(self, record: MetadataRecord) -> None:
        delta = MetadataDelta(self.image)
        delta.replay([record])
        self.image = delta.apply(self.image.offset + 1)
        self.lost.publish(delta, self.image)

    def die(self, broker_id: int) -> None:
        self.replay(change(broker_id, FencingChange.FENCE))

    def come_back(self, broker_id: int) -> None:
        self.replay(change(broker_id, FencingChange.UNFENCE))

    def to_list(self, client: Session) -> list[int]:
        return list(self.lost.to_list(client, self.image.cluster))


async def test_dead_broker_is_listed_in_the_next_response_to_each_client(autojump_clock: MockClock) -> None:
    brokers, first, second = Brokers(), session(), session()
    assert brokers.to_list(first) == []
    brokers.die(2)
    assert (brokers.to_list(first), brokers.to_list(first)) == ([2], [])
    brokers.die(3)
    assert (brokers.to_list(first), brokers.to_list(second)) == ([3], [2, 3])


async def test_dead_broker_is_not_listed_a_second_later(autojump_clock: MockClock) -> None:
    brokers, client = Brokers(), session()
    brokers.die(2)
    await trio.sleep(1.1)
    assert brokers.to_list(client) == []


async def test_broker_that_is_back_is_not_listed_as_dead(autojump_clock: MockClock) -> None:
    brokers, client = Brokers(), session()
    brokers.die(2)
    brokers.come_back(2)
    assert brokers.to_list(client) == []


async def test_broker_that_has_shut_down_is_not_listed(autojump_clock: MockClock) -> None:
    brokers, client = Brokers(), session()
    brokers.replay(change(2, FencingChange.NONE, shuts_down=True))
    brokers.die(2)
    assert brokers.to_list(client) == []


async def test_broker_that_registers_again_before_it_was_fenced_is_listed(autojump_clock: MockClock) -> None:
    brokers, client = Brokers(), session()
    brokers.replay(RegisterBrokerRecord(broker_id=2, incarnation_id=b"\1" * 16, broker_epoch=9))
    assert brokers.to_list(client) == [2]


async def test_client_that_never_dropped_the_broker_is_not_told_of_a_second_death_soon(
    autojump_clock: MockClock,
) -> None:
    """Its pauses between attempts to connect to the broker have grown."""
    brokers, client, other = Brokers(), session(), session()
    brokers.die(2)
    assert (brokers.to_list(client), brokers.to_list(other)) == ([2], [2])
    assert brokers.to_list(other) == []  # it drops the broker
    brokers.come_back(2)
    assert (brokers.to_list(client), brokers.to_list(other)) == ([], [])
    await trio.sleep(24)
    brokers.die(2)
    assert (brokers.to_list(client), brokers.to_list(other)) == ([], [2])


async def test_client_is_told_of_a_later_death_of_the_same_broker(autojump_clock: MockClock) -> None:
    brokers, client = Brokers(), session()
    brokers.die(2)
    assert brokers.to_list(client) == [2]
    brokers.come_back(2)
    await trio.sleep(25)
    brokers.die(2)
    assert brokers.to_list(client) == [2]
