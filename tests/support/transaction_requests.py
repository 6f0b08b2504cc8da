"""Raw requests to a transaction coordinator, and their responses as lines: `end 5 commit @3: NONE P0@4`.

Producer ids are P0, P1, ... in the order in which they appear, so that the lines of two servers can be compared.
"""

from typing import Any, Final

import trio

from broker.wire.api.add_offsets_to_txn import AddOffsetsToTxnRequest
from broker.wire.api.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from broker.wire.api.describe_transactions import DescribeTransactionsRequest
from broker.wire.api.end_txn import EndTxnRequest
from broker.wire.api.find_coordinator import FindCoordinatorRequest
from broker.wire.api.init_producer_id import InitProducerIdRequest
from broker.wire.api.list_transactions import ListTransactionsRequest
from broker.wire.api.metadata import MetadataRequest, MetadataRequestTopic
from broker.wire.api.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from broker.wire.errors import ErrorCode
from broker.wire.uuids import ZERO_UUID
from tests.support.wire_client import WireClient, only

_WITHIN_S: Final = 60
_NO_TOPIC: Final = b"x" * 16
_TRANSACTION: Final = 1
# The versions from which on brokers, and not clients, add partitions.
_BROKERS_FROM: Final = 4

Identity = tuple[int, int]


class Requests:
    """Sends requests to one node, and adds a line for each to `lines`."""

    def __init__(self, client: WireClient) -> None:
        self.lines: list[str] = []
        self._client = client
        self._names: dict[int, str] = {-1: "-"}

    async def find(self, *keys: str, key_type: int = _TRANSACTION) -> None:
        """Wait until the node coordinates these transactional ids, or groups."""
        request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=list(keys))
        with trio.fail_after(_WITHIN_S):
            while any(each.error_code for each in (await self._client.call(request, 6)).coordinators):
                await trio.sleep(0.05)

    async def init(
        self,
        name: str | None,
        expected: Identity = (-1, -1),
        *,
        version: int = 5,
        timeout_ms: int = 60_000,
        two_phase: bool = False,
        keep: bool = False,
    ) -> Identity:
        """The producer id and epoch of the response."""
        request = InitProducerIdRequest(
            transactional_id=name,
            transaction_timeout_ms=timeout_ms,
            producer_id=expected[0],
            producer_epoch=expected[1],
            enable2_pc=two_phase,
            keep_prepared_txn=keep,
        )
        response = await self._retried(request, version)
        given = (response.producer_id, response.producer_epoch)
        asked = "" if expected == (-1, -1) else f" {self._identity(expected)}"
        flags = f"{' two-phase' if two_phase else ''}{' keep' if keep else ''}"
        self._add(f"init {version}{asked}{flags}", response.error_code, self._identity(given))
        return given

    async def add(
        self,
        name: str,
        producer: Identity,
        *partitions: tuple[str, int],
        version: int = 3,
        verify: bool = False,
    ) -> None:
        topics = [AddPartitionsToTxnTopic(name=topic, partitions=[index]) for topic, index in partitions]
        if version < _BROKERS_FROM:
            request = AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=name,
                v3_and_below_producer_id=producer[0],
                v3_and_below_producer_epoch=producer[1],
                v3_and_below_topics=topics,
            )
        else:
            transaction = AddPartitionsToTxnTransaction(
                transactional_id=name,
                producer_id=producer[0],
                producer_epoch=producer[1],
                verify_only=verify,
                topics=topics,
            )
            request = AddPartitionsToTxnRequest(transactions=[transaction])
        response = await self._client.call(request, version)
        results = response.results_by_topic_v3_and_below
        if version >= _BROKERS_FROM:
            results = [topic for each in response.results_by_transaction for topic in each.topic_results]
        codes = sorted(
            f"{topic.name}-{each.partition_index}={ErrorCode(each.partition_error_code).name}"
            for topic in results
            for each in topic.results_by_partition
        )
        what = "verify" if verify else "add"
        self._add(f"{what} {version} {self._identity(producer)}", response.error_code, " ".join(codes))

    async def end(self, name: str, producer: Identity, outcome: str, *, version: int = 5) -> Identity:
        """The producer id and epoch of the response."""
        request = EndTxnRequest(
            transactional_id=name,
            producer_id=producer[0],
            producer_epoch=producer[1],
            committed=outcome == "commit",
        )
        response = await self._client.call(request, version)
        given = (response.producer_id, response.producer_epoch)
        self._add(f"end {version} {outcome} {self._identity(producer)}", response.error_code, self._identity(given))
        return given

    async def add_offsets(self, name: str, producer: Identity, group: str, *, version: int = 3) -> None:
        request = AddOffsetsToTxnRequest(
            transactional_id=name, producer_id=producer[0], producer_epoch=producer[1], group_id=group
        )
        response = await self._client.call(request, version)
        self._add(f"add-offsets {version} {self._identity(producer)}", response.error_code)

    async def commit_offsets(
        self,
        name: str,
        producer: Identity,
        group: str,
        topic: str,
        *,
        version: int = 5,
        generation: int = -1,
        member: str = "",
    ) -> None:
        request = TxnOffsetCommitRequest(
            transactional_id=name,
            group_id=group,
            producer_id=producer[0],
            producer_epoch=producer[1],
            generation_id_or_member_epoch=generation,
            member_id=member,
            topics=[
                TxnOffsetCommitRequestTopic(
                    name=topic,
                    topic_id=await self._topic_id(topic),
                    partitions=[TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=1)],
                )
            ],
        )
        response = await self._client.call(request, version)
        code = only(only(response.topics).partitions).error_code
        self._add(f"commit-offsets {version} {self._identity(producer)} generation {generation}", code)

    async def _topic_id(self, topic: str) -> bytes:
        """The topic's id, or one that no topic has."""
        request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
        topic_id: bytes = only((await self._client.call(request, 12)).topics).topic_id
        return _NO_TOPIC if topic_id == ZERO_UUID else topic_id

    async def list(self, **filters: Any) -> None:
        response = await self._client.call(ListTransactionsRequest(**filters), 2)
        names = sorted(each.transactional_id for each in response.transaction_states)
        given = " ".join(f"{key}={value}" for key, value in filters.items())
        self._add(f"list {given}", response.error_code, " ".join([*names, *response.unknown_state_filters]))

    async def describe(self, name: str) -> Identity:
        """The identity that the coordinator knows, once the transaction is not being ended."""
        request = DescribeTransactionsRequest(transactional_ids=[name])
        with trio.fail_after(_WITHIN_S):
            while (state := only((await self._client.call(request, 0)).transaction_states)).transaction_state in (
                "PrepareCommit",
                "PrepareAbort",
            ):
                await trio.sleep(0.01)
        known = (state.producer_id, state.producer_epoch)
        places = sorted(f"{topic.topic}-{index}" for topic in state.topics for index in topic.partitions)
        shown = f"{state.transaction_state} {self._identity(known)} timeout {state.transaction_timeout_ms}"
        self._add("describe", state.error_code, " ".join([shown, *places]))
        return known

    async def until_ended(self, name: str) -> Identity:
        """As `describe`, once no transaction is open."""
        request = DescribeTransactionsRequest(transactional_ids=[name])
        with trio.fail_after(_WITHIN_S):
            while only((await self._client.call(request, 0)).transaction_states).transaction_state == "Ongoing":
                await trio.sleep(0.05)
        return await self.describe(name)

    async def _retried(self, request: Any, version: int) -> Any:
        """The response, as soon as the coordinator has loaded and the controller has given producer ids."""
        passing = (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR)
        with trio.fail_after(_WITHIN_S):
            while (response := await self._client.call(request, version)).error_code in passing:
                await trio.sleep(0.05)
        return response

    def _identity(self, producer: Identity) -> str:
        known = self._names.setdefault(producer[0], f"P{len(self._names) - 1}")
        return f"{known}@{producer[1]}"

    def _add(self, what: str, code: int, *rest: str) -> None:
        self.lines.append(" ".join([f"{what}:", ErrorCode(code).name, *rest]).rstrip())
