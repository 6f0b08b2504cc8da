"""PersistentMap."""

import os
import subprocess
import sys
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from metadata.image.persistent_map import PersistentMap, place_bytes, place_number, place_text

CHANGES = st.lists(
    st.tuples(st.dictionaries(st.integers(0, 400), st.integers(), max_size=120), st.sets(st.integers(0, 400))),
    max_size=8,
)


@given(CHANGES)
def test_map_equals_a_dict_and_older_versions_stay_unchanged(
    changes: list[tuple[dict[int, int], set[int]]],
) -> None:
    versions: list[tuple[PersistentMap[int, int], dict[int, int]]] = [(PersistentMap(place_number), {})]
    for put, remove in changes:
        current, model = versions[-1]
        expected = {key: value for key, value in model.items() if key not in remove} | put
        versions.append((current.changed(put, sorted(remove)), expected))
    for current, model in versions:
        assert dict(current.items()) == model
        assert set(current) == set(model)
        assert sorted(current.values()) == sorted(model.values())
        assert len(current) == len(model)
        assert all(current[key] == current.get(key) == value and key in current for key, value in model.items())
        assert current.get(-1) is None
        assert -1 not in current
        assert current == PersistentMap(place_number, model)
        assert current != PersistentMap(place_number, {**model, -1: 0})


@given(st.lists(st.integers(1, 200), max_size=6))
def test_numbers_inserted_in_order_iterate_in_order(steps: list[int]) -> None:
    current: PersistentMap[int, str] = PersistentMap(place_number)
    for step in steps:
        count = len(current)
        current = current.changed(dict.fromkeys(range(count, count + step), "new"))
        current = current.changed({count // 2: "changed"})
        assert list(current) == list(range(count + step))


def test_a_change_copies_a_small_part() -> None:
    large = PersistentMap(place_text, {f"topic-{i}": i for i in range(10_000)})
    after = large.changed({"topic-77": -1})
    shared = sum(a is b for a, b in zip(large._buckets, after._buckets, strict=True))
    assert shared == len(large._buckets) - 1
    assert max(map(len, large._buckets)) < 100


def test_order_is_the_same_in_every_process() -> None:
    program = (
        "from metadata.image.persistent_map import *\n"
        "m = PersistentMap(place_text, {f'topic-{i}': i for i in range(500)}).changed({'x': 1}, ['topic-3'])\n"
        "b = PersistentMap(place_bytes, {bytes([i, 7]): i for i in range(200)})\n"
        "print(list(m), list(b))\n"
    )
    root = Path(__file__).parents[2]
    outputs = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(root)},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(outputs) == 1
    assert place_bytes(b"\x00\x07") >= 0
