"""The part of the suite that runs on another version of Python than the whole suite."""

from collections import Counter
from collections.abc import Iterable
from typing import Final

import pytest

# The first of them run the same lines as the others, with other values.
_PARAMETERS_MAX: Final = 2
# The session of Spark. Spark itself is Java; these modules read and write in its Python workers.
_SPARK: Final = "spark"
_SPARK_MODULES: Final = ("test_registration.py", "test_sink.py")


def divide_for_other_interpreter(items: Iterable[pytest.Item]) -> tuple[list[pytest.Item], list[pytest.Item]]:
    """The tests that can fail because of the version of Python, and the others.

    A version differs in its syntax, its standard library and the compiled packages: a line that is run once shows it.
    So each test runs with its first parameters, and the tests that take Spark's session are left out, but for two
    modules that read and write.
    """
    kept, others = [], []
    runs = Counter[str]()
    for item in items:
        function = item.nodeid.partition("[")[0]
        runs[function] += 1
        fixtures: list[str] = getattr(item, "fixturenames", [])
        takes_spark = _SPARK in fixtures and item.path.name not in _SPARK_MODULES
        (others if takes_spark or runs[function] > _PARAMETERS_MAX else kept).append(item)
    return kept, others
