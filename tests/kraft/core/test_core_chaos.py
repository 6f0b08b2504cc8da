"""Random runs of quorums under faults. `pytest --full` runs more seeds; a failing test names its seed."""

from collections.abc import Callable

import pytest

from tests.support.raft_chaos import Chaos

# (voters at first, observers that may become voters)
SHAPES = [(3, 0), (5, 0), (1, 2), (3, 2)]


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: f"{shape[0]}_voters_{shape[1]}_spares")
def test_raft_invariants_hold_under_random_faults(
    shape: tuple[int, int], full: bool, figure: Callable[[str], None]
) -> None:
    """Election safety, log matching, leader completeness, state machine safety: Raft's paper, figure 3."""
    virtual_ms, epochs, appends = 0.0, 0, 0
    seeds = 1_000 if full else 15
    for seed in range(seeds):
        chaos = Chaos(seed, *shape)
        try:
            chaos.run()
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error
        virtual_ms += chaos.harness.now_ms
        epochs += max(chaos.harness.invariants.leaders)
        appends += chaos.appended
    figure(f"{seeds} seeds, {virtual_ms / 3_600_000:.1f} virtual hours, {epochs} epochs, {appends} appends")
