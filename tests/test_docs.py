"""What docs/compatibility.md claims, held against the code."""

import re
from fnmatch import fnmatchcase

import pytest

from broker.config.honoured import HONOURED_BROKER_CONFIGS, HONOURED_TOPIC_CONFIGS
from broker.handlers import HANDLERS
from broker.wire.api import APIS
from kraft.core.transitions import diagram
from metadata.configuration import GROUP_CONFIGS
from metadata.configuration.broker_keys import coordinators
from metadata.configuration.synonyms import TOPIC_SYNONYMS
from tests.support.source_code import ROOT, Module, is_within, read_modules

COMPATIBILITY = (ROOT / "docs" / "compatibility.md").read_text()
STATES = {"works", "partly"}

# They describe what others do with it: configs that nothing reads yet, fields of messages in versions they came with.
KIPS_IN_PASSING = ("broker.wire", "metadata.configuration")


def section(title: str) -> str:
    return COMPATIBILITY.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def rows(title: str) -> list[list[str]]:
    """The cells of a section's table, below its head."""
    lines = [line for line in section(title).splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def configs(title: str) -> set[str]:
    """The configs named in a paragraph of the section on configs, apart from what stands in parentheses."""
    paragraph = section("Configs").partition(f"**{title}.**")[2].partition("\n\n")[0]
    return set(re.findall(r"`([a-z0-9.]+)`", re.sub(r"\([^)]*\)", "", paragraph)))


def test_the_table_of_apis_is_what_a_node_advertises() -> None:
    advertised = {
        (
            str(handler.api_key),
            APIS[handler.api_key].name,
            f"{handler.min_version if handler.advertised_from is None else handler.advertised_from}"
            f"-{handler.max_version}",
        )
        for handler in HANDLERS
    }
    documented = [(key, name, versions) for key, name, versions, _, _ in rows("APIs")]
    assert set(documented) == advertised
    assert documented == sorted(documented, key=lambda row: int(row[0]))


def test_what_works_in_part_says_what_is_missing() -> None:
    for _, name, _, state, notes in rows("APIs"):
        assert state in STATES, name
        assert state == "works" or notes, name


def test_the_configs_are_those_that_are_honoured() -> None:
    defaults = {synonym.name for name in HONOURED_TOPIC_CONFIGS for synonym in TOPIC_SYNONYMS.get(name, ())}
    assert configs("Topics") == HONOURED_TOPIC_CONFIGS
    assert configs("Groups") == set(GROUP_CONFIGS.keys) - {"consumer.assignment.interval.ms"}
    assert HONOURED_BROKER_CONFIGS - defaults <= configs("Brokers") <= HONOURED_BROKER_CONFIGS


def test_the_configs_for_groups_that_are_not_honoured_are_named() -> None:
    paragraph = section("Configs").partition("Of the brokers' configs for groups")[2].partition("\n\n")[0]
    named = re.findall(r"`([a-z0-9.*]+)`", paragraph)
    about_groups = [key.name for key in coordinators.KEYS if key.name.startswith(("group.", "offset"))]
    without_effect = {name for name in about_groups if name not in HONOURED_BROKER_CONFIGS}
    assert without_effect == {name for name in about_groups for pattern in named if fnmatchcase(name, pattern)}
    assert all(any(fnmatchcase(name, pattern) for name in about_groups) for pattern in named)


def cites_for_itself(module: Module) -> bool:
    return not any(is_within(module.name, room) for room in KIPS_IN_PASSING)


def test_every_kip_that_the_code_follows_is_listed() -> None:
    listed = [row[0] for row in rows("KIPs")]
    cited = {
        kip
        for module in read_modules().values()
        if cites_for_itself(module)
        for kip in re.findall(r"KIP-\d+", module.text)
    }
    assert cited <= set(listed)
    assert len(listed) == len(set(listed))


def test_the_picture_of_roles_is_drawn_from_their_table() -> None:
    assert f"```mermaid\n{diagram()}```" in (ROOT / "docs/architecture.md").read_text()


@pytest.mark.parametrize(
    "document",
    [
        "README.md",
        "CONTRIBUTING.md",
        "docs/architecture.md",
        "docs/client.md",
        "docs/client-reference.md",
        "docs/compatibility.md",
        "docs/migration.md",
        "docs/terminal.md",
    ],
)
def test_links_lead_somewhere(document: str) -> None:
    path = ROOT / document
    for target in re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", path.read_text()):
        assert target.startswith("https://") or (path.parent / target).exists(), target
