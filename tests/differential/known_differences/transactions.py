"""The differences of the family of transactions."""

from collections.abc import Sequence
from typing import Final

from tests.differential.families.transactions.producers import Place
from tests.differential.known_differences.bare_groups import bare_groups
from tests.differential.known_differences.entries import KnownDifference

# The first version of Produce whose transactions have epochs of their own.
_OWN_EPOCHS_FROM: Final = 12
_PRODUCE: Final = r"responses\[0\]\.partition_responses\[0\]\."

TRANSACTIONS: Final[Sequence[KnownDifference]] = (
    KnownDifference(
        family="transactions",
        step="Produce",
        path=_PRODUCE + "error_message",
        kafka=None,
        ours=lambda message: isinstance(message, str),
        reason="says why a batch was refused where Kafka's response has the error code alone",
    ),
    KnownDifference(
        family="transactions",
        step="Produce",
        path=_PRODUCE + "log_append_time_ms",
        kafka=lambda time_ms: time_ms >= 0,
        ours=-1,
        reason="a duplicate has no append time where producers set the timestamps; Kafka puts the batch's largest"
        " timestamp there, which clients take for that of each record",
    ),
    KnownDifference(
        family="transactions",
        step="Produce",
        path=_PRODUCE + "error_code",
        kafka="TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
        ours=("UNKNOWN_TOPIC_OR_PARTITION", "UNKNOWN_TOPIC_ID"),
        reason="transactional batches without a transactional id are refused one by one, after a look at their topic;"
        " Kafka looks at all batches of each request first, which costs every producer time",
    ),
    KnownDifference(
        family="transactions",
        step="Produce",
        path=_PRODUCE + "(error_code|base_offset|log_start_offset)",
        kafka=("OUT_OF_ORDER_SEQUENCE_NUMBER", -1),
        ours=lambda value: value == "NONE" or isinstance(value, int),
        reason="a batch that belongs to no transaction is not compared with the sequence numbers of a transactional one"
        " that was refused before; no client sends both with one producer id",
        where=lambda step: not step.is_transactional,
        diverges=True,
    ),
    KnownDifference(
        family="transactions",
        step="Produce",
        path=_PRODUCE + "(error_code|base_offset)",
        kafka=lambda value: value == "NONE" or isinstance(value, int),
        ours=("OUT_OF_ORDER_SEQUENCE_NUMBER", -1),
        reason="the first batch of a transaction that has an epoch of its own begins with the sequence number 0; Kafka"
        " does not ask for it if an older Produce with an earlier epoch was refused while its transaction was verified",
        where=lambda step: step.is_transactional and step.version >= _OWN_EPOCHS_FROM and step.sequence is Place.GAP,
        diverges=True,
    ),
    *(
        KnownDifference(
            family="transactions",
            step=step,
            path=path,
            kafka=("TRANSACTION_ABORTABLE", "INVALID_TXN_STATE", *messages),
            ours=("TRANSACTION_ABORTABLE", "INVALID_TXN_STATE", *messages),
            reason="clients that know TRANSACTION_ABORTABLE are told it, and older ones INVALID_TXN_STATE; Kafka asks"
            " the coordinator for several clients at once, and then answers all of them as it would the first one",
            where=is_old,
        )
        for step, is_old, path, *messages in (
            ("CommitOffsets", lambda step: step.version < 5, r"topics\[\d+\]\.partitions\[\d+\]\.error_code"),
            (
                "Produce",
                lambda step: step.version < 12,
                _PRODUCE + "(error_code|error_message)",
                "Partition was not added to the transaction",
                "Unable to verify the partition has been added to the transaction. "
                "Underlying error: TRANSACTION_ABORTABLE",
            ),
        )
    ),
    *bare_groups("transactions"),
)
