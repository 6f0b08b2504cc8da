"""A bank: tellers move amounts between accounts in transactions, and an auditor reads all accounts.

A record is a posting with the account's balance before and after it. All tellers share a transactional id, so a teller
that begins fences the others, which know older balances and must not commit any more. It writes a record to each
partition and reads up to it. Then it knows all balances, and they change only by its own transactions.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from random import Random
from typing import Final

from broker.client import ClientError, Consumer, ConsumerRecord, KafkaError, TopicPartition
from jepsen.values import OPENING_BALANCE, Polling, Posting, Transaction
from jepsen.workloads.client import Client
from jepsen.workloads.committed_reader import read_committed_up_to
from jepsen.workloads.transactional_producer import ProducerOver, Transactions, open_producer

_ACCOUNTS: Final = 6
_AMOUNT_MAX: Final = 20
# The chances per transaction that a teller makes room for another one, and per read that the auditor starts again.
_TELLER_ENDS: Final = 0.05
_AUDIT_ENDS: Final = 0.01
_BETWEEN_SECONDS: Final = 3.0
_POLL_RECORDS_MAX: Final = 50
_POLL_SECONDS: Final = 1.0
_REQUEST_TIMEOUT_MS: Final = 3_000
# Long, because an idle consumer asks all brokers again after this time.
_FETCH_WAIT_MS: Final = 2_000


async def move_amounts(
    client: Client, transactional_id: str, partitions: Sequence[tuple[str, int]], per_second: float
) -> None:
    """Move amounts between accounts until cancelled, with one producer after the other."""
    ledger = _Ledger(client, partitions)
    sessions = 0
    while True:
        sessions += 1
        try:
            async with open_producer(client, transactional_id) as producer:
                transactions = Transactions(client, producer, transactional_id, sessions)
                await ledger.open(transactions)
                await _move(ledger, transactions, per_second)
        except (ProducerOver, KafkaError, ClientError):
            pass
        await client.pause(1 / _BETWEEN_SECONDS)


async def _move(ledger: "_Ledger", transactions: Transactions, per_second: float) -> None:
    """Move amounts until another teller's turn. Raises ProducerOver, KafkaError, ClientError."""
    client = transactions.client
    while client.rng.random() >= _TELLER_ENDS:
        await client.pause(per_second)
        name, postings = transactions.next_name(), ledger.transfer(client.rng)
        records = sorted((*ledger.partition(each.account), (each.value(name),)) for each in postings)
        if await transactions.run(Transaction(transactions.transactional_id, name, tuple(records))):
            ledger.apply(postings)


class _Ledger:
    """The balances as a teller knows them."""

    def __init__(self, client: Client, partitions: Sequence[tuple[str, int]]) -> None:
        self._client = client
        self._partitions = partitions
        self._balances = dict.fromkeys(range(_ACCOUNTS), OPENING_BALANCE)
        self._read_up_to = dict.fromkeys(partitions, 0)

    def partition(self, account: int) -> tuple[str, int]:
        return self._partitions[account % len(self._partitions)]

    async def open(self, transactions: Transactions) -> None:
        """Fence all other tellers, and read all balances. Raises ProducerOver, KafkaError, ClientError."""
        name = transactions.next_name()
        values = {(topic, index): f"{name}/{topic}-{index}/opening" for topic, index in self._partitions}
        records = tuple((topic, index, (value,)) for (topic, index), value in values.items())
        value = Transaction(transactions.transactional_id, name, records)
        if not await transactions.run(value, commits=1.0):
            raise ProducerOver
        for partition, opening in values.items():
            records_read = await read_committed_up_to(self._client, *partition, self._read_up_to[partition], opening)
            self.apply(posting for _, each in records_read if (posting := Posting.of(each)) is not None)
            self._read_up_to[partition] = records_read[-1][0] + 1

    def transfer(self, rng: Random) -> Sequence[Posting]:
        """Postings that move an amount from one account to another."""
        payer = rng.choice([account for account, balance in self._balances.items() if balance > 0])
        payee = rng.choice([account for account in self._balances if account != payer])
        amount = rng.randint(1, min(_AMOUNT_MAX, self._balances[payer]))
        return [self._posting(payer, -amount), self._posting(payee, amount)]

    def _posting(self, account: int, amount: int) -> Posting:
        return Posting(account, self._balances[account], self._balances[account] + amount)

    def apply(self, postings: Iterable[Posting]) -> None:
        for posting in postings:
            self._balances[posting.account] = posting.after


async def audit_accounts(client: Client, partitions: Sequence[tuple[str, int]]) -> None:
    """Read all accounts from offset zero with a consumer of committed records, and again from there after a failure."""
    while True:
        try:
            async with Consumer(
                client.bootstrap_servers,
                config=client.configs,
                client_id=client.name,
                environment=client.environment,
                isolation_level="read_committed",
                auto_offset_reset="earliest",
                request_timeout_ms=_REQUEST_TIMEOUT_MS,
                fetch_max_wait_ms=_FETCH_WAIT_MS,
                metadata_max_age_ms=10_000,
            ) as consumer:
                consumer.assign(TopicPartition(*partition) for partition in partitions)
                await _audit(client, consumer)
        except (KafkaError, ClientError):
            await client.back_off()


async def _audit(client: Client, consumer: Consumer) -> None:
    """Read until it is time to start again. Raises KafkaError, ClientError."""
    history, positions = client.history, dict[tuple[str, int], int]()
    while client.rng.random() >= _AUDIT_ENDS:
        began = history.now()
        for partition, records in by_partition(await consumer.fetch(_POLL_RECORDS_MAX, _POLL_SECONDS)).items():
            polling = history.invoke(client.name, "poll", Polling(*partition, positions.get(partition, 0)), at=began)
            history.ok(polling, records)
            positions[partition] = records[-1][0] + 1


def by_partition(records: Iterable[ConsumerRecord]) -> dict[tuple[str, int], list[tuple[int, str]]]:
    """Pairs of offset and value, by topic and index."""
    found: dict[tuple[str, int], list[tuple[int, str]]] = defaultdict(list)
    for record in records:
        found[record.topic, record.partition].append((record.offset, (record.value or b"").decode()))
    return found
