"""The results of jobs."""

import attrs


@attrs.frozen
class LoadSummary:
    """The result of a load. A rerun without new records has no runs. `files` and `bytes` count what it wrote."""

    runs: int
    records: int
    quarantined: int
    files: int
    bytes: int
    compactions: int
    seconds: float


@attrs.frozen
class ReplaySummary:
    """The result of a replay."""

    records: int
    seconds: float
