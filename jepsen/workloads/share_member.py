"""Members of share groups (KIP-932): they acquire records, accept, release, reject or renew them, or die with them."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Final
from zlib import crc32

import attrs
import trio

from broker.client import ConnectionLost
from broker.wire.api.metadata import MetadataRequest, MetadataRequestTopic
from broker.wire.api.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse
from broker.wire.errors import ErrorCode
from broker.wire.uuids import encode_uuid, new_uuid
from jepsen.workloads.client import METADATA_VERSION, Client
from jepsen.workloads.connection import Address
from jepsen.workloads.share_session import Batch, HeldRecord, SessionLost, ShareGroup, ShareSession, TopicPartition
from metadata.protocol import AcknowledgeType

_HEARTBEAT_VERSION: Final = 1
_LEAVING: Final = -1
_LEAVE_SECONDS: Final = 5.0
# Longer than the lock of a record.
_FREEZE_SECONDS_MAX: Final = 8.0
_RECORDS_MAX: Final = (1, 3, 20, 500)
# One record of so many is a poison one: no member ever accepts or rejects it.
_POISON_ONE_OF: Final = 12
_ENDS: Final = ("leave", "crash", "crash", "freeze")
# None keeps the record for the next turn.
_CHOICES: Final[Sequence[AcknowledgeType | None]] = (
    *(AcknowledgeType.ACCEPT,) * 12,
    *(AcknowledgeType.RELEASE,) * 3,
    AcknowledgeType.REJECT,
    AcknowledgeType.RENEW,
    *(None,) * 3,
)


def is_poison(value: str) -> bool:
    """True if members only ever release the record, so that it reaches the limit of deliveries."""
    return crc32(value.encode()) % _POISON_ONE_OF == 0


class ShareMember:
    """A member of a share group, which has a session with each broker that leads one of its partitions.

    It does one thing at a time. With `is_eager`, it accepts all records at once, apart from poison ones.
    """

    def __init__(self, client: Client, group: ShareGroup, *, is_eager: bool = False) -> None:
        self._client = client
        self._group = group
        self._is_eager = is_eager
        self._member_id = encode_uuid(new_uuid(client.rng.randbytes))
        self._coordinator = attrs.evolve(client)
        self._metadata = attrs.evolve(client)
        self._epoch = 0
        self._heartbeat_at = 0.0
        self._assigned: tuple[TopicPartition, ...] = ()
        self._leaders: dict[TopicPartition, Address] = {}
        self._sessions: dict[Address, ShareSession] = {}
        self._opened = 0

    async def run(self) -> None:
        """Take part in the group and process records until cancelled. The connections stay open."""
        while True:
            try:
                await self._take_part()
                await self._find_leaders()
            except ConnectionLost:
                await self._coordinator.aclose()
                await self._metadata.aclose()
                await self._client.back_off()
            led = self._by_leader()
            if not led:
                await self._client.back_off()
            for address, partitions in led:
                await self._process(address, partitions)

    async def leave(self) -> None:
        """End all sessions, which releases the records, and leave the group. Raises ConnectionLost."""
        for session in [each for each in self._sessions.values() if each.is_open]:
            try:
                await session.acknowledge({}, ends=True)
            except SessionLost:
                continue
        await self._heartbeat(_LEAVING)

    async def aclose(self) -> None:
        """Close all connections. The brokers then release the records."""
        await self._coordinator.aclose()
        await self._metadata.aclose()
        for session in self._sessions.values():
            await session.aclose()

    # The group

    async def _take_part(self) -> None:
        """Send a heartbeat if one is due. Raises ConnectionLost."""
        if trio.current_time() < self._heartbeat_at:
            return
        response = await self._heartbeat(self._epoch)
        code = ErrorCode(response.error_code)
        if code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH):
            self._epoch, self._assigned = 0, ()
            return
        if code is not ErrorCode.NONE:
            raise ConnectionLost(code.name)
        self._epoch = response.member_epoch
        self._heartbeat_at = trio.current_time() + response.heartbeat_interval_ms / 1000
        if response.assignment is not None:
            self._assigned = tuple(
                (self._group.topic_of(topic.topic_id), index)
                for topic in response.assignment.topic_partitions
                for index in topic.partitions
            )

    async def _heartbeat(self, epoch: int) -> ShareGroupHeartbeatResponse:
        """Raises ConnectionLost."""
        if not self._coordinator.is_connected:
            await self._coordinator.seek_coordinator(self._group.name)
        request = ShareGroupHeartbeatRequest(
            group_id=self._group.name,
            member_id=self._member_id,
            member_epoch=epoch,
            subscribed_topic_names=None if epoch else sorted(self._group.topics),
        )
        async with self._coordinator.connected() as connection:
            response: ShareGroupHeartbeatResponse = await connection.call(request, _HEARTBEAT_VERSION)
        return response

    async def _find_leaders(self) -> None:
        """Ask for the leaders of partitions without one. Raises ConnectionLost."""
        if all(partition in self._leaders for partition in self._assigned):
            return
        topics = [MetadataRequestTopic(name=name) for name in sorted(self._group.topics)]
        request = MetadataRequest(topics=topics, allow_auto_topic_creation=False)
        async with self._metadata.connected() as connection:
            response = await connection.call(request, METADATA_VERSION)
        await self._metadata.aclose()  # the next request goes to any broker
        addresses = {broker.node_id: (broker.host, broker.port) for broker in response.brokers}
        for topic in response.topics:
            for each in topic.partitions:
                if each.leader_id in addresses:
                    self._leaders[topic.name, each.partition_index] = addresses[each.leader_id]

    def _by_leader(self) -> list[tuple[Address, list[TopicPartition]]]:
        led: dict[Address, list[TopicPartition]] = {}
        for partition in self._assigned:
            if partition in self._leaders:
                led.setdefault(self._leaders[partition], []).append(partition)
        for address, session in self._sessions.items():
            if session.holds_records and address not in led:
                led[address] = []  # records of an earlier assignment
        return list(led.items())

    # Records

    async def _process(self, address: Address, partitions: Sequence[TopicPartition]) -> None:
        """Acquire records of these partitions, and acknowledge some."""
        session = self._sessions.get(address)
        if session is None:
            self._opened += 1
            name = f"{self._client.name}/{self._opened}"
            session = ShareSession(self._client, self._group, self._member_id, address, name)
            self._sessions[address] = session
        try:
            await self._take_turn(session, partitions)
        except (ConnectionLost, SessionLost):
            await session.aclose()
            del self._sessions[address]
            for partition in partitions:
                self._leaders.pop(partition, None)
            await self._client.back_off()
            return
        for partition in session.stale:
            self._leaders.pop(partition, None)
        session.stale.clear()

    async def _take_turn(self, session: ShareSession, partitions: Sequence[TopicPartition]) -> None:
        chosen = self._chosen(session)
        renewed = {each: [batch for batch in its if batch[2] is AcknowledgeType.RENEW] for each, its in chosen.items()}
        others = {each: [b for b in its if b[2] is not AcknowledgeType.RENEW] for each, its in chosen.items()}
        renewed, others = _without_empty(renewed), _without_empty(others)
        if renewed:
            await session.acknowledge(renewed, renews=True)
        if others and (not partitions or self._client.rng.random() < 0.5):
            await session.acknowledge(others)
            others = {}
        if partitions:
            await session.fetch(partitions, others, self._client.rng.choice(_RECORDS_MAX))
        else:
            await self._client.back_off()

    def _chosen(self, session: ShareSession) -> dict[TopicPartition, list[Batch]]:
        """The acknowledgements to send now. Records whose lock may be over are given up, or acknowledged too late."""
        now, chosen = trio.current_time(), {}
        for partition, held in session.held.items():
            late = [offset for offset, record in held.items() if record.locked_until <= now]
            if late and self._client.rng.random() < 0.7:
                for offset in late:
                    del held[offset]
            kinds = {offset: self._choice(record) for offset, record in sorted(held.items())}
            chosen[partition] = list(batches_of(kinds))
        return chosen

    def _choice(self, record: HeldRecord) -> AcknowledgeType | None:
        if self._is_eager:
            return AcknowledgeType.RELEASE if is_poison(record.value) else AcknowledgeType.ACCEPT
        choice = self._client.rng.choice(_CHOICES)
        if is_poison(record.value) and choice in (AcknowledgeType.ACCEPT, AcknowledgeType.REJECT):
            return AcknowledgeType.RELEASE
        return choice


def batches_of(kinds: Mapping[int, AcknowledgeType | None]) -> Iterator[Batch]:
    """The batches of neighbouring offsets with one type. Offsets of None are left out."""
    numbered = [(offset - at, offset, kind) for at, (offset, kind) in enumerate(kinds.items())]
    for (_, kind), same in groupby(numbered, key=lambda each: (each[0], each[2])):
        offsets = [offset for _, offset, _ in same]
        if kind is not None:
            yield offsets[0], offsets[-1], kind


def _without_empty(batches: dict[TopicPartition, list[Batch]]) -> dict[TopicPartition, list[Batch]]:
    return {partition: its for partition, its in batches.items() if its}


async def churn_share_members(client: Client, group: ShareGroup, lifetime_seconds: float) -> None:
    """Run one member after another until cancelled. Cancellation crashes the current member."""
    rng, serial = client.rng, 0
    while True:
        serial += 1
        member = ShareMember(attrs.evolve(client, name=f"{client.name}.{serial}"), group)
        try:
            with trio.move_on_after(rng.expovariate(1 / lifetime_seconds)):
                await member.run()
            match rng.choice(_ENDS):
                case "leave":
                    with trio.move_on_after(_LEAVE_SECONDS):
                        await _try_to_leave(member)
                case "freeze":
                    await trio.sleep(rng.uniform(0, _FREEZE_SECONDS_MAX))
        finally:
            await member.aclose()
        await trio.sleep(rng.choice((0.0, 0.0, 1.0, 8.0)) * rng.random())


async def _try_to_leave(member: ShareMember) -> None:
    try:
        await member.leave()
    except ConnectionLost:
        return


async def finish_records(client: Client, group: ShareGroup) -> None:
    """Run a member that accepts all records but poison ones, until cancelled."""
    member = ShareMember(client, group, is_eager=True)
    try:
        await member.run()
    finally:
        await member.aclose()
