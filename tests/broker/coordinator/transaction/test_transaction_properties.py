"""Properties of transactions for any actions of producers and the coordinator on one transactional id (Hypothesis)."""

from typing import Any

import attrs
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from broker.coordinator.runtime.decision import Decision
from broker.coordinator.transaction import requests
from broker.coordinator.transaction.record_formats import encode_transaction
from broker.coordinator.transaction.shard import TransactionShard
from broker.coordinator.transaction.transaction import (
    EPOCH_MAX,
    ProducerIdAndEpoch,
    ProducerIdNeeded,
    Transaction,
    TransactionState,
)
from broker.wire.errors import ErrorCode, KafkaError
from metadata.configuration import BrokerConfigs

ID = "id"
DAY_MS = 86_400_000
PARTITIONS = st.lists(st.integers(0, 3), min_size=1, max_size=2).map(
    lambda indexes: tuple(("topic", index) for index in indexes)
)


class NoTimers:
    def __getattr__(self, name: str) -> Any:
        return lambda *args: None


class Context:
    timers = NoTimers()


class Producers(RuleBasedStateMachine):
    """Two incarnations of a producer, and one coordinator that may be loaded again at any time.

    `given` has the producer ids and epochs that clients received, oldest first.
    """

    def __init__(self) -> None:
        super().__init__()
        self.version = 2
        self.now_ms = 1_700_000_000_000
        self.log: list[tuple[bytes, bytes | None]] = []
        self.next_id = 100
        self.given: list[ProducerIdAndEpoch] = []
        self._load()

    def _load(self) -> None:
        self.state = TransactionShard(Context(), BrokerConfigs({}), lambda: self.version)  # type: ignore[arg-type]
        for key, value in self.log:
            self.state.replay(key, value, 0)

    def _write(self, decide: Any, **fields: Any) -> Any:
        """The response, or the error code of a refusal."""
        before = dict(self.state.transactions)
        try:
            decision: Decision[Any] = decide(self.state, self.now_ms, **fields)
        except KafkaError as error:
            assert self.state.transactions == before, "a refusal changes nothing"
            return error.code
        for record in decision.records:
            self.log.append((record.key, record.value))
            self.state.replay(record.key, record.value, 0)
        if decision.apply is not None:
            decision.apply()
        return decision.response

    def _with_id(self, decide: Any, **fields: Any) -> Any:
        try:
            return self._write(decide, producer_id=None, **fields)
        except ProducerIdNeeded:
            self.next_id += 1
            return self._write(decide, producer_id=self.next_id, **fields)

    @property
    def current(self) -> Transaction | None:
        return self.state.transactions.get(ID)

    @rule(continues=st.booleans())
    def init_producer_id(self, continues: bool) -> None:
        expected = self.given[-1] if continues and self.given else None
        response = self._with_id(requests.init_producer_id, transactional_id=ID, timeout_ms=1_000, expected=expected)
        if isinstance(response, ErrorCode):
            assert response in (ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.PRODUCER_FENCED)
        elif response.aborted is None:
            if self.given and response.identity != self.given[-1]:
                assert response.identity not in self.given, "an identity is given to one incarnation"
            self.given.append(response.identity)

    @precondition(lambda self: self.given)
    @rule(partitions=PARTITIONS, back=st.integers(1, 3), version=st.sampled_from((0, 2)))
    def add_partitions(self, partitions: tuple[tuple[str, int], ...], back: int, version: int) -> None:
        producer = self.given[-min(back, len(self.given))]
        response = self._write(
            requests.add_partitions_to_transaction,
            transactional_id=ID,
            producer=producer,
            partitions=partitions,
            client_version=version,
        )
        current = self.current
        assert current is not None
        if response is None:
            assert current.state is TransactionState.ONGOING
            assert set(partitions) <= set(current.partitions)
            assert (current.producer_id, current.producer_epoch) == producer

    @precondition(lambda self: self.given)
    @rule(commit=st.booleans(), back=st.integers(1, 3), version=st.sampled_from((0, 2)))
    def end(self, commit: bool, back: int, version: int) -> None:
        producer = self.given[-min(back, len(self.given))]
        before = self.current
        response = self._with_id(
            requests.end_transaction, transactional_id=ID, producer=producer, is_commit=commit, client_version=version
        )
        if isinstance(response, ErrorCode):
            return
        if response.prepared is not None:
            assert before is not None
            assert (before.producer_id, before.producer_epoch) == producer, "only the current producer decides"
            assert response.prepared.is_commit == commit
            assert not commit or before.partitions, "only what was begun is committed"
        if version == 2 and response.identity not in self.given:
            self.given.append(response.identity)

    @rule()
    def complete(self) -> None:
        current = self.current
        if current is not None and self.state.prepared:
            self._write(requests.complete_transaction, transactional_id=ID, prepared=current)
            after = self.current
            assert after is not None
            assert after.state in (TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT)
            assert (after.state is TransactionState.COMPLETE_COMMIT) == current.is_commit
            assert after.partitions == ()

    @rule(elapsed_ms=st.sampled_from((1, 2_000)))
    def time_out(self, elapsed_ms: int) -> None:
        self.now_ms += elapsed_ms
        for transactional_id in requests.timed_out_transactions(self.state, self.now_ms):
            aborted = self._with_id(requests.abort_timed_out, transactional_id=transactional_id)
            assert aborted is not None
            assert not aborted.is_commit

    @rule()
    def use_up_epochs(self) -> None:
        """Skip epochs, because using them up one by one would take too long."""
        current = self.current
        if current is not None and current.state is TransactionState.EMPTY:
            last = attrs.evolve(current, producer_epoch=EPOCH_MAX - 1)
            record = encode_transaction(ID, last, self.version)
            self.log.append((record.key, record.value))
            self.state.replay(record.key, record.value or b"", 0)
            self.given.append(last.identity)

    @rule(version=st.sampled_from((0, 1, 2)))
    def change_transaction_version(self, version: int) -> None:
        """KIP-584: upgrade or downgrade the feature during transactions."""
        if self.current is None or self.current.next_producer_id < 0:
            self.version = version

    @rule()
    def load_again(self) -> None:
        before = dict(self.state.transactions)
        self._load()
        for transactional_id, known in before.items():
            loaded = self.state.transactions[transactional_id]
            assert (loaded.producer_id, loaded.producer_epoch, loaded.state, loaded.partitions) == (
                known.producer_id,
                known.producer_epoch,
                known.state,
                known.partitions,
            )

    @invariant()
    def epochs_are_in_range_and_sets_match_states(self) -> None:
        current = self.current
        if current is not None:
            assert 0 <= current.producer_epoch <= EPOCH_MAX
            assert (ID in self.state.ongoing) == (current.state is TransactionState.ONGOING)
            is_prepared = current.state in (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)
            assert (ID in self.state.prepared) == is_prepared
            assert current.state is TransactionState.ONGOING or is_prepared or not current.partitions


TestProducers = Producers.TestCase
TestProducers.settings = settings(max_examples=60, stateful_step_count=40)
