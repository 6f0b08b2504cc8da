"""Topics for the jobs to read from and to write to."""

import pytest

from tests.support.job_topics import JobTopics


@pytest.fixture(scope="session")
def topics(bootstrap: str) -> JobTopics:
    """Topics of one node, for all tests. Each test uses names of its own."""
    return JobTopics(bootstrap)
