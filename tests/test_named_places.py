"""Files, modules and classes that documents for newcomers and the source's own text name must exist."""

import importlib
import re
from collections.abc import Iterator

import pytest

from metadata.configuration import BROKER_CONFIGS
from tests.support.source_code import ROOT, read_modules

DOCUMENTS = (
    "docs/architecture.md",
    "docs/debugging.md",
    "docs/glossary.md",
    "docs/how-to-add.md",
    "docs/requests.md",
    "docs/test-harnesses.md",
    "docs/where-is-what.md",
)
TREES = ("kraft", "metadata", "broker", "jepsen", "benchmarks", "tests", "docs")
# Names that begin as those of packages: Kafka's features, a config of clients, and the command line's file of contexts.
OTHER_NAMES = frozenset({"kraft.version", "metadata.version", "metadata.max.idle.ms", "kraft/config.toml"})
_QUOTED = re.compile(r"`([^`\s]+)`")
_LINK = re.compile(r"\]\(([^)#]+?)(?:#[^)]*)?\)")
_PATH = re.compile(rf"(?:{'|'.join(TREES)})(?:/[\w.]+)*/?")
_NAME = re.compile(rf"(?:{'|'.join(TREES)})(?:\.\w+)+")


def named_places(text: str) -> Iterator[str]:
    """Paths and dotted names in a document; names that are patterns, such as `<name>`, are left out."""
    for quoted in _QUOTED.findall(text):
        if _PATH.fullmatch(quoted) or (_NAME.fullmatch(quoted) and quoted not in BROKER_CONFIGS.keys):
            yield quoted


def exists(place: str) -> bool:
    return (ROOT / place).exists() or (_NAME.fullmatch(place) is not None and _resolves(place))


def _resolves(name: str) -> bool:
    """True if a module has this name, or a class or function in one."""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        module = ROOT.joinpath(*parts[:length])
        if module.is_dir() or module.with_suffix(".py").exists():
            found: object = importlib.import_module(".".join(parts[:length]))
            for attribute in parts[length:]:
                found = getattr(found, attribute, None)
            return found is not None
    return False


@pytest.mark.parametrize("document", DOCUMENTS)
def test_each_named_place_exists(document: str) -> None:
    text = (ROOT / document).read_text()
    places = list(named_places(text))
    assert places
    assert [place for place in places if not exists(place)] == []
    links = [link for link in _LINK.findall(text) if not link.startswith("https://")]
    assert [link for link in links if not (ROOT / "docs" / link).exists()] == []


def test_each_place_that_the_source_names_exists() -> None:
    places = {
        (module.name, place)
        for module in read_modules().values()
        for place in named_places(module.text)
        if place not in OTHER_NAMES
    }
    assert len(places) > 100
    assert sorted((module, place) for module, place in places if not exists(place)) == []


def test_thirty_questions_have_places_as_answers() -> None:
    text = (ROOT / "docs/where-is-what.md").read_text()
    answers = re.split(r"^\d+\. ", text, flags=re.MULTILINE)[1:]
    assert len(answers) >= 30
    assert [answer for answer in answers if "?**" not in answer or not list(named_places(answer))] == []


def test_the_architecture_stays_short() -> None:
    assert len((ROOT / "docs/architecture.md").read_text().splitlines()) <= 250


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        ("kraft/env.py", True),
        ("kraft.env.Env", True),
        ("kraft/no_such_file.py", False),
        ("kraft.env.NoSuchClass", False),
        ("kraft.no_such_module.Env", False),
    ],
)
def test_rule_places(place: str, *, expected: bool) -> None:
    assert list(named_places(f"see `{place}`")) == [place]
    assert exists(place) == expected
