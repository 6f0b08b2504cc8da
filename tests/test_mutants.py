"""The changes of `make test-mutations`, and the order in which its tests run."""

import ast
import re

import pytest

from tests.mutation.__main__ import PACKAGES, Unusable, of_lines, related_tests
from tests.mutation.mutants import mutants_of
from tests.support.source_code import ROOT


def changed_lines(body: str) -> list[str]:
    """The line that each mutant of a function with this line as its body has instead of it."""
    head = "def function(self, a, b):\n    "
    source = f"{head}{body}\n".encode()
    return [mutant.apply(source).decode().removeprefix(head).strip() for mutant in mutants_of("module.py", source)]


@pytest.mark.parametrize(
    ("body", "changed"),
    [
        ("return a < b", ["return (a <= b)"]),
        ("return a is None", ["return (a is not None)"]),
        ("return a and b", ["return (a)", "return (b)"]),
        ("return not a", ["return (a)"]),
        ("return a + 1", ["return (a - 1)", "return a + (2)"]),
        ("return min(a, b)", ["return (max(a, b))"]),
        ("return a if b else self", ["return (a)", "return (self)"]),
        ("self.count += a", ["pass", "self.count -= a"]),
        ("self.put(a, flag=True)", ["pass", "self.put(a, flag=(False))"]),
        ("if a: return", ["if (not a): return"]),
        ("self.a = b", ["pass"]),
        ("a = b", []),
        ('raise ValueError(f"{a < b}")', []),
        ('self.trace("kind", count=a + 1)', []),
        ('return f"{a + 1}"', []),
        ('assert a < b, "text"', []),
    ],
)
def test_mutants_of_a_line(body: str, changed: list[str]) -> None:
    assert sorted(changed_lines(body)) == sorted(changed)


def test_mutants_of_several_places_have_their_paths_and_lines() -> None:
    path = "broker/storage/damage.py"
    of_module = mutants_of(path, (ROOT / path).read_bytes())
    first, last = of_module[0], of_module[-1]
    places = [f"{path}:{last.line}", f"{path}:{first.line}"]
    found = list(of_lines(places))
    assert found[0].line == last.line
    assert sorted(found) == sorted(each for each in of_module if each.line in (first.line, last.line))


@pytest.mark.parametrize(
    ("place", "reason"),
    [
        ("kraft/core/elections.py", "not a module's path, a colon and the number of a line"),
        ("kraft/core/no_such_module.py:1", "not a module's path, a colon and the number of a line"),
        ("broker/wire/uuids.py:1", "modules of these packages only: kraft/core, metadata/controller, "),
        ("kraft/core/elections.py:1", "this line has no mutants"),
    ],
)
def test_place_without_mutants_is_refused(place: str, reason: str) -> None:
    with pytest.raises(Unusable, match=re.escape(f"{place}: {reason}")):
        list(of_lines([place]))


def test_constructor_keeps_its_assignments() -> None:
    assert mutants_of("module.py", b"class A:\n    def __init__(self, a):\n        self.a = a + 1\n") == []


def test_offsets_are_bytes() -> None:
    source = 'def function(a):\n    return ("é", a < 1)\n'.encode()
    assert [mutant.apply(source).decode().splitlines()[1].strip() for mutant in mutants_of("m", source)] == [
        'return ("é", (a <= 1))',
        'return ("é", a < (2))',
    ]


@pytest.mark.parametrize("package", PACKAGES)
def test_mutants_are_python(package: str) -> None:
    """A syntax error would count as noticed."""
    for path in sorted((ROOT / package).rglob("*.py"))[::3]:
        source = path.read_bytes()
        for mutant in mutants_of(path.name, source)[::7]:
            ast.parse(mutant.apply(source))


def test_tests_that_name_the_module_run_first() -> None:
    tests = related_tests("broker/storage/damage.py")
    naming = ["broker.storage.damage" in (ROOT / each).read_text() for each in tests]
    assert naming == sorted(naming, reverse=True)
    assert any(naming)
    assert not all(naming)
