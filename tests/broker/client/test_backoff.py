"""The pauses between attempts (KIP-144, KIP-580)."""

from random import Random

import pytest

from broker.client.backoff import Backoff


@pytest.mark.parametrize(
    ("failures", "expected_s"), [(0, 0.0), (1, 0.1), (2, 0.2), (3, 0.4), (4, 0.8), (5, 1.0), (9_999, 1.0)]
)
def test_pause_doubles_up_to_its_bound_give_or_take_a_fifth(failures: int, expected_s: float) -> None:
    backoff = Backoff(100, 1_000, Random(1))
    for _ in range(50):
        assert 0.8 * expected_s <= backoff.pause_s(failures) <= 1.2 * expected_s


def test_pause_is_never_bounded_below_the_first_one() -> None:
    assert Backoff(100, 10, Random(1)).pause_s(5) >= 0.08
