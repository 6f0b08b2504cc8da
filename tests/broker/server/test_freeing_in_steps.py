"""Large messages are freed in steps, however their elements are nested."""

from typing import Any

import pytest

from broker.server.slices import freed
from broker.wire.api.describe_configs import (
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)

# The number of structs that one step may free: twice the intended number.
STEP_MAX = 600


def _response(resources: int, configs: int, synonyms: int) -> DescribeConfigsResponse:
    return DescribeConfigsResponse(
        results=[
            DescribeConfigsResult(
                configs=[
                    DescribeConfigsResourceResult(synonyms=[DescribeConfigsSynonym() for _ in range(synonyms)])
                    for _ in range(configs)
                ]
            )
            for _ in range(resources)
        ]
    )


def _count(message: Any) -> int:
    count = 1
    for spec in message.__fields__:
        value = getattr(message, spec.name)
        if isinstance(value, list):
            count += sum(map(_count, value))
    return count


@pytest.mark.parametrize("shape", [(2_000, 1, 0), (1, 2_000, 1), (1, 1, 2_000), (200, 40, 3), (40, 200, 3), (3, 2, 1)])
def test_each_step_frees_few_structs(shape: tuple[int, int, int]) -> None:
    """Before the fix, a step freed 256 resources at once, which had 40,000 structs."""
    response = _response(*shape)
    left = _count(response)
    for _ in freed(response):
        before, left = left, _count(response)
        assert before - left <= STEP_MAX
    assert left <= STEP_MAX
