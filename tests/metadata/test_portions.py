"""Splitting of large requests to the controller (metadata/controller/portions.py)."""

from itertools import groupby

from hypothesis import given
from hypothesis import strategies as st

from metadata.controller.portions import PORTION_SIZE, in_portions, topics_in_portions

topics = st.lists(st.tuples(st.text(max_size=3), st.lists(st.integers(), max_size=3 * PORTION_SIZE)), max_size=200)


@given(topics)
def test_pieces_in_portions_name_each_partition_once_and_in_order(named: list[tuple[str, list[int]]]) -> None:
    portions = list(topics_in_portions(named))
    pieces = [piece for portion in portions for piece in portion]
    assert [(name, member) for name, members in pieces for member in members] == [
        (name, member) for name, members in named for member in members
    ]
    assert [name for name, _ in groupby(name for name, _ in pieces)] == [
        name for name, _ in groupby(name for name, _ in named)
    ]


@given(topics)
def test_portions_are_bounded(named: list[tuple[str, list[int]]]) -> None:
    portions = list(topics_in_portions(named))
    assert portions
    for portion in portions:
        assert sum(max(len(members), 1) for _, members in portion) <= PORTION_SIZE


def test_small_topics_share_a_portion_until_it_is_full() -> None:
    for size in (0, 1):  # a topic without partitions counts as one
        named = [(f"topic-{number}", list(range(size))) for number in range(PORTION_SIZE + 1)]
        assert [len(portion) for portion in topics_in_portions(named)] == [PORTION_SIZE, 1]


def test_empty_request_is_one_portion() -> None:
    assert list(topics_in_portions([])) == [[]]


def test_things_share_a_portion_until_it_is_full_and_a_larger_one_is_alone() -> None:
    numbers = range(2 * PORTION_SIZE + 1)
    assert [len(portion) for portion in in_portions(numbers, name=str)] == [PORTION_SIZE, PORTION_SIZE, 1]
    sizes = [1, PORTION_SIZE - 1, PORTION_SIZE + 1, 1]
    names = iter("abcd")
    portions = in_portions(list(zip(names, sizes, strict=True)), lambda each: each[0], lambda each: each[1])
    assert ["".join(name for name, _ in portion) for portion in portions] == ["ab", "c", "d"]
