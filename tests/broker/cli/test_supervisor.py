"""Reports about processes of `kraft cluster start` that have ended."""

import pytest

from broker.cli.supervisor import describe_end


@pytest.mark.parametrize(
    ("code", "description"),
    [(0, "exit code 0"), (1, "exit code 1"), (-9, "SIGKILL"), (-40, "signal 40"), (-127, "signal 127")],
)
def test_end_by_any_signal_is_described(code: int, description: str) -> None:
    """Python has no names for most real-time signals. Without one, the report ended the command and all nodes."""
    assert describe_end(code) == description
