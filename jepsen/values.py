"""The values and results of operations. The docstring of each class names the functions that use it.

The classes do not depend on any client, so checkers and reports can read the history of every client.
"""

from typing import Final

import attrs

from metadata.image import AccessControlEntry
from metadata.protocol import AclOperation, ResourceType, ScramMechanism

# The longest time for which the network, or retrying brokers, may delay a request whose client has given up.
SETTLED_SECONDS: Final = 35.0

# The prefix of the names of topics that several clients create and delete.
SHARED_NAMES: Final = "shared-"


@attrs.frozen
class WantedTopic:
    """`create-topic`: a topic to create. The result is its topic id, as Kafka prints ids.

    `is_flushed` sets flush.messages=1, so that an acknowledged record is on the disk. `replication_factor` -1 means the
    cluster's default.
    """

    name: str
    partitions: int
    is_flushed: bool = False
    configs: tuple[tuple[str, str], ...] = ()
    replication_factor: int = -1


@attrs.frozen
class SeenTopic:
    """`list-topics`: one topic of the result, which maps names to the topics that Metadata returned."""

    topic_id: str
    partitions: int


@attrs.frozen
class Change:
    """`share-topic`, `grow-topic`, `drop-topic`: a change of a topic whose name several clients use.

    `partitions` is the number to create or to grow to. The result is the name of Kafka's error.
    """

    name: str
    partitions: int = 0


@attrs.frozen
class Sending:
    """`send`: one batch. The result is the offset of its first record.

    `session` and `sequence` define the producer's order: within a session, later records have higher sequences, and
    values are "<session>/<anything>/<sequence>". An empty session promises no order. With `goes_on`, the producer
    continues its session after the partition has lost records of the session (KIP-360).

    Recorders of applications give other values, and know the partition by the answer: it is -1 before, and the result
    in the file is (partition, offset). A send of a `transaction` is acknowledged by the commit.
    """

    topic: str
    partition: int
    session: str
    sequence: int
    values: tuple[str, ...]
    goes_on: bool = False
    transaction: str = ""


@attrs.frozen
class Polling:
    """`poll`: a read from an offset on. The result has (offset, value) for each record."""

    topic: str
    partition: int
    offset: int


@attrs.frozen
class Ownership:
    """`assign`, `revoke`, `lose`: partitions that a member of a group gets or gives up, as (topic, index) pairs.

    `assign` is invoked when the member asks for its assignment, and completes when the assignment arrives. From then on
    the member owns these partitions and those that it owned before; for the latter only the generation changes.
    Ownership ends with the invocation of `revoke` (the member was asked to give up) or `lose` (the partitions were
    taken away). `generation` is the group's, or the member's epoch if it has one (KIP-848); -1 if unknown. `instance`
    names a static member, whatever its member id is (KIP-345).
    """

    group: str
    member: str
    generation: int
    partitions: tuple[tuple[str, int], ...]
    instance: str = ""


@attrs.frozen
class GroupPoll:
    """`poll-group`: a member's read of a partition that it owns. The result has (offset, value) for each record."""

    group: str
    member: str
    topic: str
    partition: int


@attrs.frozen
class Commit:
    """`commit`: (topic, index, offset) for each partition, from which the group will continue."""

    group: str
    member: str
    generation: int
    offsets: tuple[tuple[str, int, int], ...]


@attrs.frozen
class CommittedRead:
    """`fetch-committed`: the result has (topic, index, offset) for each requested partition; -1 if none is committed.

    `member` is empty if an administrator asks.
    """

    group: str
    member: str
    partitions: tuple[tuple[str, int], ...]


@attrs.frozen
class Transaction:
    """`transact`: a transaction, from its begin to the application's decision; see `Decision`.

    `name` is unique. `records` are (topic, index, values), and the values begin with the name, see `transaction_of`. A
    consume-transform-produce transaction also commits `offsets` of `group`, as (topic, index, offset of the next record
    to read).
    """

    transactional_id: str
    name: str
    records: tuple[tuple[str, int, tuple[str, ...]], ...]
    group: str = ""
    offsets: tuple[tuple[str, int, int], ...] = ()

    @property
    def values(self) -> tuple[str, ...]:
        return tuple(value for _, _, values in self.records for value in values)


@attrs.frozen
class Decision:
    """`end-transaction`: the application commits or aborts the transaction of this name.

    A commit with outcome `OK` has happened, and one with `INFO` may have. An abort has happened whatever its outcome
    is, since nothing can commit the transaction any more.
    """

    name: str
    is_commit: bool


@attrs.frozen
class TransactionPoll:
    """`poll-transaction`: a read of a partition within the transaction of this name. The result has (offset, value)
    for each record.

    `transaction` is empty if partitions were assigned or revoked during the read: such a read ends the transaction, and
    belongs to none. `group` is the group that commits the offset after the records as part of the transaction; empty if
    the client assigns partitions to itself. `position` is the client's position before the read; -1 after a new
    assignment, which begins at the committed offset.
    """

    transaction: str
    group: str
    topic: str
    partition: int
    position: int = -1


# The balance of an account before its first posting.
OPENING_BALANCE: Final = 100
# The part of a value that tells a posting from other records.
_POSTING: Final = "account-"


@attrs.frozen
class Posting:
    """A change of an account's balance, which is a record of a transaction. The changes of a transaction add up to 0.

    Each account has one partition, whose order is the order of the account's balances.
    """

    account: int
    before: int
    after: int

    def value(self, transaction: str) -> str:
        """The record's value in the transaction of this name."""
        return f"{transaction}/{_POSTING}{self.account}:{self.before}:{self.after}"

    @classmethod
    def of(cls, value: str) -> "Posting | None":
        """The posting in a record's value; None for a record of another kind."""
        _, _, posting = value.partition("/")
        if not posting.startswith(_POSTING):
            return None
        account, before, after = posting.removeprefix(_POSTING).split(":")
        return cls(int(account), int(before), int(after))


@attrs.frozen
class GroupOffsets:
    """`final-offsets`: the offsets that a group has committed, after recovery, for (topic, index) pairs.

    The result has (topic, index, offset), with offset 0 where nothing was committed. Members of the group have written
    an output for each record that they consumed, see `transformed`.
    """

    group: str
    partitions: tuple[tuple[str, int], ...]


def transformed(transaction: str, group: str, value: str) -> str:
    """The value that an application of `group` writes for `value` in the transaction of this name."""
    return f"{transaction}>{group}<{value}"


def input_of(output: str) -> str:
    """The part of an output that is the same in each transaction that transforms the same record."""
    return output.partition(">")[2]


def source_of(value: str) -> str:
    """The value that was transformed, perhaps several times, to get this one. It is the value itself otherwise."""
    return value.rpartition("<")[2]


def transaction_of(value: str) -> str:
    """The name of the transaction that writes a value: "<name>/<anything>", or an output, see `transformed`."""
    return value.partition(">")[0].partition("/")[0]


@attrs.frozen
class ReplicaRead:
    """`read-replica`: the contents of a partition on a node's disk at the end of a run. The result is a
    `ReplicaLog`.
    """

    topic: str
    partition: int
    node: str


@attrs.frozen
class ReplicaLog:
    """`batches` are (base offset, offset after the last record, digest of all bytes), in order.

    `high_watermark` is the replica's high watermark.
    """

    high_watermark: int
    batches: tuple[tuple[int, int, str], ...]


@attrs.frozen
class Healing:
    """`heal`: lasts from the end of the last fault until `what` is restored, which must take at most
    `within_seconds`.
    """

    what: str
    within_seconds: float


@attrs.frozen
class QuotaUser:
    """`paced-produce`, `paced-fetch`: a client that sends one request after the other, with its quota.

    `limit` is in bytes per second, None without a quota. A client that `waits` sends its next request only after the
    throttle time in the response. The result is (bytes that count for the quota, throttle time in ms).
    """

    client_id: str
    key: str
    limit: float | None
    waits: bool
    pause_seconds: float = 0.0

    @property
    def entity(self) -> tuple[tuple[str, str | None], ...]:
        """The entity of the quota, as the metadata has it: sorted by type."""
        return (("client-id", self.client_id),)


@attrs.frozen
class AclChange:
    """`change-acl`: an administrator adds or removes an entry. With `OK`, the change is committed."""

    entry: AccessControlEntry
    is_added: bool


@attrs.frozen
class CredentialChange:
    """`change-credential`: an administrator sets a user's password for one mechanism, or removes it (None).

    Each password is set with one number of iterations only, and never again after another one.
    """

    user: str
    mechanism: ScramMechanism
    password: str | None
    iterations: int = 0


@attrs.frozen
class SeenCredentials:
    """The result of `see-credentials`, a read of all credentials at the broker that is the operation's value.

    `mark` is the number of the last `mark` that the broker knows. The administrator sets these numbers one after the
    other, so the broker also knows all that was committed before that `mark` was invoked. `iterations` has those of
    each other user's mechanisms.
    """

    mark: int
    iterations: tuple[tuple[str, ScramMechanism, int], ...]


@attrs.frozen
class LogIn:
    """`log-in`: a client authenticates, over a connection whose name is unique, as `user`.

    `previous_user` is empty for a connection that has not authenticated. With `token_id`, the password is that of a
    delegation token of the user. A session lasts `lifetime_ms_max` at most; 0 if it has no end. `FAIL` means that the
    broker has refused the credentials.
    """

    connection: str
    broker: str
    user: str
    mechanism: ScramMechanism
    password: str
    lifetime_ms_max: int
    previous_user: str = ""
    token_id: str = ""


@attrs.frozen
class LoggedIn:
    """The result of `log-in`: the iterations that the broker has asked for, and the time that the session lasts."""

    iterations: int
    lifetime_ms: int


@attrs.frozen
class Right:
    """A right to an operation on a resource."""

    operation: AclOperation
    resource_type: ResourceType
    name: str


@attrs.frozen
class Access:
    """`access`: a request that needs one of `rights`. The result is True if it was authorized, and False if not.

    `user` is empty if the client has not authenticated, and `address` is that of its machine. The active controller
    authorizes a request that is `forwarded`; the broker authorizes others. `effect` is the topic that the request
    creates, or the record that it writes; empty for other requests.
    """

    connection: str
    broker: str
    user: str
    address: str
    rights: tuple[Right, ...]
    is_forwarded: bool = False
    effect: str = ""


@attrs.frozen
class OwnToken:
    """`create-token`: the client with the principal `user` asks for a delegation token of its own."""

    user: str


@attrs.frozen
class IssuedToken:
    """The result of `create-token`."""

    owner: str
    token_id: str
    password: str
