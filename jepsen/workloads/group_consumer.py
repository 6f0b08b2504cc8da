"""Members of consumer groups (KIP-848): the coordinator assigns, and heartbeats acknowledge revocations."""

from typing import Any, Final

import trio

from broker.wire.api.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from broker.wire.errors import ErrorCode
from broker.wire.uuids import encode_uuid, new_uuid
from jepsen.workloads.client import Client
from jepsen.workloads.group_member import REBALANCE_MS, Group, GroupMember, TopicPartition

_VERSION: Final = 1
_LEAVING: Final = -1
_LEAVING_FOR_A_WHILE: Final = -2  # a static member that will return


class ConsumerMember(GroupMember):
    """See the module's docstring."""

    def __init__(self, client: Client, group: Group, instance: str | None = None, **chances: float) -> None:
        super().__init__(client, group, instance, **chances)
        self.member_id = encode_uuid(new_uuid(client.rng.randbytes))
        self.generation = 0
        self._heartbeat_at = 0.0
        self._says_all = True

    async def take_part(self) -> None:
        if trio.current_time() < self._heartbeat_at:
            return
        says_all, self._says_all = self._says_all, True  # sent in full again if this request fails
        asked_at = trio.current_time()
        response, incarnation = await self.ask(self._request(says_all=says_all), _VERSION)
        code = ErrorCode(response.error_code)
        if code is not ErrorCode.NONE:
            await self.handle_error(code)
            await self.client.back_off()
            return
        self._heartbeat_at = trio.current_time() + response.heartbeat_interval_ms / 1000
        await self._obey(response, incarnation, asked_at)

    async def leave(self) -> None:
        await self.commit()
        self.give_up("revoke")
        epoch = _LEAVING if self.instance is None or self.client.rng.random() < 0.3 else _LEAVING_FOR_A_WHILE
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.group.name, member_id=self.member_id, member_epoch=epoch, instance_id=self.instance
        )
        await self.ask(request, _VERSION)

    def refused(self, code: ErrorCode) -> None:
        self._heartbeat_at, self._says_all = 0.0, True
        if code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH):
            self.give_up("lose")
            self.generation = 0
        elif code is ErrorCode.FENCED_INSTANCE_ID:
            self.give_up("lose")
            self.is_over = True

    def fetch_identity(self) -> tuple[str | None, int]:
        return self.member_id, self.generation

    async def _obey(self, response: ConsumerGroupHeartbeatResponse, incarnation: int, asked_at: float) -> None:
        """Apply the epoch and the assignment of a heartbeat response. Raises ConnectionLost."""
        is_new, self.generation = response.member_epoch != self.generation, response.member_epoch
        wanted = dict(self.positions) if response.assignment is None else self._named(response.assignment)
        gone = [partition for partition in self.positions if partition not in wanted]
        added = [partition for partition in wanted if partition not in self.positions]
        if gone or added:
            self._heartbeat_at = 0.0  # the coordinator waits for the acknowledgement
        else:
            self._says_all = False
        if gone:
            try:
                await self.commit()
            finally:
                # Revoke even if the commit was refused. The refusal may already have given up all partitions.
                self.give_up("revoke", [partition for partition in gone if partition in self.positions])
        if added or (is_new and wanted):
            self.assigned(wanted if is_new else added, incarnation, asked_at)

    def _named(self, assignment: Any) -> dict[TopicPartition, None]:
        return {
            (self.group.topic_ids[each.topic_id], index): None
            for each in assignment.topic_partitions
            for index in each.partitions
        }

    def _request(self, *, says_all: bool) -> ConsumerGroupHeartbeatRequest:
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.group.name,
            member_id=self.member_id,
            member_epoch=self.generation,
            instance_id=self.instance,
        )
        if says_all:
            ids = {name: topic_id for topic_id, name in self.group.topic_ids.items()}
            owned: dict[str, TopicPartitions] = {}
            for topic, index in sorted(self.positions):
                owned.setdefault(topic, TopicPartitions(topic_id=ids[topic])).partitions.append(index)
            request.rebalance_timeout_ms = REBALANCE_MS
            request.subscribed_topic_names = sorted(self.group.topics)
            request.topic_partitions = list(owned.values())
        return request
