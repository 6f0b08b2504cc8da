"""What jobs have done."""

import attrs


@attrs.frozen
class LoadSummary:
    """What a load has done. A rerun without new records has no runs. `files` and `bytes` are those that it wrote."""

    runs: int
    records: int
    quarantined: int
    files: int
    bytes: int
    compactions: int
    seconds: float


@attrs.frozen
class ReplaySummary:
    """What a replay has written."""

    records: int
    seconds: float
