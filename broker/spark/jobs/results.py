"""The results of jobs, as commands print them, and the exception that ends a job."""

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


class JobFailed(Exception):
    """A job cannot go on. The message says why, and what to do about it."""
