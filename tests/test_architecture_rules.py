"""Tests the rules with which `tests/test_architecture.py` checks the source code."""

import subprocess
from pathlib import Path

import pytest

from tests.support.architecture_rules import (
    FORBIDDEN_NAMES,
    broken_directions,
    import_cycle,
    impurities,
    mutable_globals,
    package_content,
    repeated_enumerations,
    repeated_exceptions,
    set_iterations,
    system_access,
)
from tests.support.small_modules import PackageSize, importers, size_of
from tests.support.source_code import Module, functions, project_files


def modules(**texts: str) -> dict[str, Module]:
    """Modules by name, with "__" for the dot. A name that contains other modules is a package."""
    names = {name.replace("__", "."): text for name, text in texts.items()}
    return {
        name: Module(name, text, any(other.startswith(name + ".") for other in names)) for name, text in names.items()
    }


def module(text: str) -> Module:
    return Module("m", text)


@pytest.mark.parametrize(
    "text",
    [
        "import b.inner",
        "from b import inner",
        "from b.inner import name",
        "def f():\n    from b import inner",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import b.inner",
    ],
)
def test_rule_directions(text: str) -> None:
    found = modules(a=text, b="", b__inner="", c="")
    assert len(broken_directions(found, {"a": (), "b": (), "c": ()})) == 1
    assert broken_directions(found, {"a": ("b",), "b": (), "c": ()}) == []
    assert len(broken_directions(found, {"a": ("b.other",), "b": (), "b.inner": (), "c": ()})) == 1
    assert broken_directions(found, {"a": ("b",), "b": ()}) == ["c belongs to no package"]


def test_rule_enumerations() -> None:
    few = "class A(IntEnum):\n    READ = 3\n    WRITE = 4"
    more = "class B(OpenEnum):\n    UNKNOWN = 0\n    READ = 3\n    WRITE = 4"
    assert repeated_enumerations(modules(a=few, b=more).values()) == ["a.A is b.B"]
    assert repeated_enumerations(modules(a=few, b=more.replace("4", "5")).values()) == []
    assert repeated_enumerations(modules(a=few, b=more.replace("OpenEnum", "Enum")).values()) == []


def test_rule_exceptions() -> None:
    derived = "class Base(ValueError): ...\nclass Lost(Base): ..."
    assert repeated_exceptions(modules(a=derived, b="class Lost(Exception): ...").values()) == ["Lost is in a and b"]
    assert repeated_exceptions(modules(a=derived, b="class Base(Exception): ...").values()) == ["Base is in a and b"]
    assert repeated_exceptions(modules(a="class Lost: ...", b="class Lost: ...").values()) == []


@pytest.mark.parametrize("text", ["import time\ntime.time()", "from os import path\npath", "import kraft.env\nkraft"])
def test_rule_purity(text: str) -> None:
    assert len(impurities(module(text))) == 1


@pytest.mark.parametrize("text", ["from random import Random\ndef f(rng: Random) -> Random: ...", "import timeit"])
def test_rule_purity_knows_types_from_uses(text: str) -> None:
    assert impurities(module(text)) == []


def test_rule_system_access() -> None:
    assert system_access(
        module("import socket\nimport trio\nsocket.socket()\ntrio.to_thread.run_sync(f)\nopen(p)")
    ) == {
        "socket",
        "trio.to_thread.run_sync",
        "open",
    }
    assert system_access(module("import socket, trio\ndisk.open(p)\ndef f(s: socket.socket): trio.sleep(1)")) == set()


def test_rule_cycles() -> None:
    found = modules(a="import b", b="from c import d", c="", c__d="import a")
    assert import_cycle(found) == ["a", "b", "c.d", "a"]
    assert import_cycle(modules(a="import b", b="from c import d", c="", c__d="")) == []
    assert import_cycle(modules(a="import b", b="def f():\n    import a")) == ["a", "b", "a"]
    assert import_cycle(modules(a="import b", b="if TYPE_CHECKING:\n    import a")) == ["a", "b", "a"]


def test_rule_packages() -> None:
    assert package_content(module('"""Doc."""\nfrom a import b\n__all__ = ["b"]')) == []
    assert len(package_content(module("from a import b"))) == 1
    assert len(package_content(module('"""Doc."""\nX = 1\ndef f(): ...'))) == 2


@pytest.mark.parametrize(
    "text",
    [
        "cache = {}",
        "seen: set[int] = set()",
        "class A:\n    all = []",
        "TABLE = {}\ndef f():\n    TABLE[1] = 2",
        "TABLE: Final = []\ndef f():\n    TABLE.append(2)",
        "TABLE = {}\ndef f():\n    del TABLE[1]",
        "x = 1\ndef f():\n    global x",
    ],
)
def test_rule_globals(text: str) -> None:
    assert len(mutable_globals(module(text))) == 1


def test_rule_globals_lets_tables_be() -> None:
    assert mutable_globals(module("TABLE = {1: 2}\nnames: Final = [1]\nx = (1,)\ndef f():\n    own = []")) == []


@pytest.mark.parametrize(
    "text",
    [
        "for x in {1, 2}: ...",
        "[x for x in set(y)]",
        "list({x for x in y})",
        '",".join({"a"})',
        "def f(names: set[str]):\n    for name in names: ...",
        "class A:\n    def f(self):\n        self.all = set()\n        return tuple(self.all - other)",
        "f(*{1, 2})",
    ],
)
def test_rule_sets(text: str) -> None:
    assert len(set_iterations(module(text))) == 1


@pytest.mark.parametrize(
    "text",
    [
        "for x in sorted({1, 2}): ...",
        "{x for x in {1, 2}}",
        "any(x for x in {1, 2})",
        "x = {1}\nx = [1]\nlist(x)",
        "1 in {1}",
        "sorted(map(f, {1, 2}))",
    ],
)
def test_rule_sets_lets_order_be_made(text: str) -> None:
    assert set_iterations(module(text)) == []


def test_rule_names() -> None:
    assert FORBIDDEN_NAMES.fullmatch("wire_utils")
    assert FORBIDDEN_NAMES.fullmatch("helpers")
    assert not FORBIDDEN_NAMES.fullmatch("uncommon_ground")


def test_rule_sizes() -> None:
    text = 'def f():\n    """Two\n    lines."""\n    a = 1\n    return a\n'
    assert [(each.name, each.lines) for each in functions(module(text))] == [("f", 3)]


def test_small_modules_are_counted_with_their_importers() -> None:
    found = modules(p="import p.small\n", p__small="a = 1\n" * 59, p__long="from p import small\n" * 60)
    assert importers(found) == {"p": [], "p.small": ["p", "p.long"], "p.long": []}
    size = PackageSize(files=3, lines=120, small=1, small_with_one_importer=0)
    assert size_of(found.values(), importers(found)) == size
    assert size_of(found.values(), {"p.small": ["p.long"]}).small_with_one_importer == 1


def test_files_of_the_project_are_those_that_git_tracks_or_would_not_ignore(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_text("/data/\n*.egg-info/\n\n# of Python\n__pycache__/\n")
    for name in ("a.py", "p/b.py", "p/data/c.py", "p/__pycache__/b.pyc", "data/notes and more", "x.egg-info/SOURCES"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    files = [".gitignore", "a.py", "p/b.py", "p/data/c.py"]
    assert list(map(str, project_files(tmp_path))) == files
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    assert list(map(str, project_files(tmp_path))) == files, "a list that is empty is no list"
    subprocess.run(["git", "add", "."], cwd=tmp_path, check=True)
    (tmp_path / "my notes.txt").touch()
    assert list(map(str, project_files(tmp_path))) == files, "it is not tracked"
