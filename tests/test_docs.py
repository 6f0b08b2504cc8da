"""The claims of docs/compatibility.md, compared with the code."""

import re
from collections.abc import Callable

import pytest

from broker.handlers import CONTROLLER_HANDLERS, HANDLERS
from broker.replication import transitions as partition_transitions
from broker.wire.api.names import api_name
from kraft.core import transitions as quorum_transitions
from metadata.configuration import BROKER_CONFIGS, GROUP_CONFIGS
from tests.support import kafka_facts
from tests.support.config_reference import config_reference
from tests.support.metric_reference import metric_reference
from tests.support.source_code import ROOT, Module, is_within, read_modules

COMPATIBILITY = (ROOT / "docs" / "compatibility.md").read_text()
STATES_SERVED = ("works", "partly")

# Packages that mention KIPs without implementing them: configs without effect, and versions of message fields.
KIPS_IN_PASSING = ("broker.wire", "metadata.configuration")


def section(title: str) -> str:
    return COMPATIBILITY.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def rows(title: str) -> list[list[str]]:
    """The cells of a section's table, below its head."""
    lines = [line for line in section(title).splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def test_table_of_apis_has_every_api_of_kafka_with_its_versions() -> None:
    facts = {**kafka_facts.apis("controller"), **kafka_facts.apis("broker")}
    served = {
        handler.api_key: f"{handler.advertised_from}-{handler.max_version}"
        for handler in (*CONTROLLER_HANDLERS, *HANDLERS)
    }
    expected = []
    for key in range(max(facts) + 1):
        fact = facts.get(key)
        name = api_name(key).partition(" ")[0]
        versions = "none" if fact is None else f"{fact.min_version}-{fact.max_version}"
        expected.append((str(key), name, versions, key in served))
        assert served.get(key, versions) == versions, name
    documented = [(*row[:3], row[3] in STATES_SERVED) for row in rows("APIs")]
    assert documented == expected


def test_rows_of_apis_that_do_not_work_name_the_missing_part() -> None:
    for key, name, _, state, notes in rows("APIs"):
        assert state in (*STATES_SERVED, "gone" if int(key) in range(4, 8) else "not yet"), name
        assert state == "works" or notes, name


def test_the_page_of_configs_is_made_from_their_definitions() -> None:
    """To update it after a change of a key: `make docs`."""
    assert (ROOT / "docs" / "configs.md").read_text() == config_reference()


def test_metrics_document_is_up_to_date() -> None:
    assert (ROOT / "docs" / "metrics.md").read_text() == metric_reference()


def test_configs_that_are_named_exist() -> None:
    names = set(re.findall(r"`([a-z]+(?:\.[a-z]+)+)`", section("Configs"))) - {"net.core.somaxconn"}
    assert names <= BROKER_CONFIGS.keys.keys() | GROUP_CONFIGS.keys.keys()


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


@pytest.mark.parametrize("diagram", [quorum_transitions.diagram, partition_transitions.diagram])
def test_pictures_of_roles_are_drawn_from_their_tables(diagram: Callable[[], str]) -> None:
    assert f"```mermaid\n{diagram()}```" in (ROOT / "docs/architecture.md").read_text()


PAGES = sorted(str(each.relative_to(ROOT)) for each in (ROOT / "docs").rglob("*.md"))


def test_contributing_and_the_makefiles_head_have_each_target() -> None:
    makefile = (ROOT / "Makefile").read_text()
    phony = re.search(r"^\.PHONY:((?:.*\\\n)*.*)$", makefile, re.MULTILINE)
    assert phony is not None
    targets = set(phony[1].replace("\\", "").split()) - {"venv"}
    contributing = (ROOT / "CONTRIBUTING.md").read_text()
    assert len(targets) > 30
    assert sorted(targets - set(re.findall(r"`make ([a-z-]+)", contributing))) == []
    assert sorted(targets - set(re.findall(r"^#   make ([a-z-]+)", makefile, re.MULTILINE))) == []


@pytest.mark.parametrize("document", ["README.md", "CONTRIBUTING.md", *PAGES])
def test_links_lead_somewhere(document: str) -> None:
    path = ROOT / document
    for target in re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", path.read_text()):
        assert target.startswith("https://") or (path.parent / target).exists(), target


def test_every_page_is_in_the_list_of_pages() -> None:
    linked = set(re.findall(r"\]\(([\w-]+\.md)\)", (ROOT / "docs/README.md").read_text()))
    assert linked == {each.name for each in (ROOT / "docs").glob("*.md")} - {"README.md"}
