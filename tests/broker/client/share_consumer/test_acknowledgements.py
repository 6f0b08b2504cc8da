"""The outcomes of records as requests carry them (KIP-932)."""

from hypothesis import given
from hypothesis import strategies as st

from broker.client.share_consumer.acknowledgements import Outcome, acknowledgement_batches
from broker.wire.api.share_fetch import AcknowledgementBatch
from metadata.protocol import AcknowledgeType

ACCEPT, RELEASE, GAP = AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE, AcknowledgeType.GAP
MANY = 20


def batches(*outcomes: tuple[int, int, AcknowledgeType]) -> list[tuple[int, int, list[int]]]:
    made = acknowledgement_batches([Outcome(*each) for each in outcomes], AcknowledgementBatch)
    return [(each.first_offset, each.last_offset, each.acknowledge_types) for each in made]


def test_offsets_in_a_row_are_one_batch_with_one_type_or_one_for_each() -> None:
    assert batches((0, 0, ACCEPT), (1, 1, ACCEPT)) == [(0, 1, [1])]
    assert batches((0, 1, ACCEPT), (2, 2, RELEASE), (3, 3, GAP)) == [(0, 3, [1, 1, 2, 0])]
    assert batches((0, 0, ACCEPT), (2, 2, ACCEPT)) == [(0, 0, [1]), (2, 2, [1])]


def test_many_offsets_with_one_outcome_are_a_batch_of_their_own() -> None:
    long = (1, MANY, GAP)
    assert batches((0, 0, ACCEPT), long, (MANY + 1, MANY + 1, RELEASE)) == [
        (0, 0, [1]),
        (1, MANY, [0]),
        (MANY + 1, MANY + 1, [2]),
    ]


@given(st.dictionaries(st.integers(0, 90), st.sampled_from(list(AcknowledgeType)), min_size=1))
def test_batches_say_the_outcome_of_each_offset_and_of_no_other(outcomes: dict[int, AcknowledgeType]) -> None:
    said: dict[int, int] = {}
    before = -1
    for first, last, types in batches(*((offset, offset, kind) for offset, kind in outcomes.items())):
        assert before < first <= last
        before = last
        each_type = types * (last - first + 1) if len(types) == 1 else types
        said.update(zip(range(first, last + 1), each_type, strict=True))
    assert said == outcomes
