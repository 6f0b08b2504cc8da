"""The part of the suite that runs on another version of Python than the whole suite."""

from collections.abc import Iterable
from typing import Final

import pytest

# Tests that take a session of Spark, or run jobs of Spark on a cluster. Spark itself is Java; these modules read and
# write in its Python workers.
_SPARK: Final = "spark"
_SPARK_DIRECTORY: Final = "tests/broker/spark/"
_CLUSTER: Final = "cluster"
_SPARK_MODULES: Final = ("test_registration.py", "test_sink.py")


def divide_for_other_interpreter(items: Iterable[pytest.Item]) -> tuple[list[pytest.Item], list[pytest.Item]]:
    """The tests that can fail because of the version of Python, and the others.

    A version differs in its syntax, its standard library and the compiled packages: a line that is run once shows it.
    So each test runs with its first parameters only, and the tests that start Spark's JVM are left out, but for two
    modules that read and write.
    """
    kept, others = [], []
    seen: set[str] = set()
    for item in items:
        function = item.nodeid.partition("[")[0]
        fixtures: list[str] = getattr(item, "fixturenames", [])
        starts_spark = _SPARK in fixtures or (_CLUSTER in fixtures and function.startswith(_SPARK_DIRECTORY))
        is_left_out = function in seen or (starts_spark and item.path.name not in _SPARK_MODULES)
        seen.add(function)
        (others if is_left_out else kept).append(item)
    return kept, others
