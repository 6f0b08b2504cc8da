"""The catalogue of events is complete: every traced event is declared with its fields, and docs/events.md lists it."""

import re
import string
from functools import cache

import pytest

from broker.events import ALL_CATALOGUES, EVENT_KINDS
from kraft.events import EventCatalogue
from tests.support.event_reference import event_reference
from tests.support.source_code import ROOT, Module, is_within, read_modules
from tests.support.traced_events import EmittedEvent, Wrapper, emitted_events

NODE_PACKAGES = ("kraft", "metadata", "broker")
# Kinds that the log itself prints.
OF_THE_LOG = {"events_suppressed"}


@cache
def of_a_node() -> tuple[list[EmittedEvent], list[Wrapper], list[str]]:
    return emitted_events(
        {
            name: module
            for name, module in read_modules().items()
            if any(is_within(name, package) for package in NODE_PACKAGES)
            and not is_within(name, "broker.client")
            and not is_within(name, "broker.spark")
        }
    )


def catalogue_of(kind: str) -> EventCatalogue:
    (catalogue,) = [each for each in ALL_CATALOGUES if kind in each.kinds]
    return catalogue


def wrong(event: EmittedEvent) -> str | None:
    """The mistake in an event, if there is one."""
    declared = EVENT_KINDS.get(event.kind)
    if declared is None:
        return "is not declared"
    catalogue = catalogue_of(event.kind)
    if not is_within(event.module, catalogue.package):
        return f"is declared for {catalogue.package}"
    wrappers = [wrapper for wrapper in of_a_node()[1] if is_within(wrapper.module, catalogue.package)]
    added = {field for wrapper in wrappers for field in wrapper.fields}
    missing = set(declared.fields) - event.fields - added
    unknown = event.fields - set(declared.fields)
    return f"lacks {missing}, has undeclared {unknown}" if missing or unknown else None


def test_every_call_of_a_tracer_names_its_kind_and_fields() -> None:
    events, _, unclear = of_a_node()
    assert unclear == []
    assert len(events) > 60


def test_every_event_is_declared_with_its_fields_by_its_package() -> None:
    events = of_a_node()[0]
    assert [f"{event.module}:{event.line} {event.kind} {why}" for event in events if (why := wrong(event))] == []


def test_every_declared_event_is_emitted() -> None:
    assert set(EVENT_KINDS) - {event.kind for event in of_a_node()[0]} == OF_THE_LOG


def test_kinds_are_declared_once_and_in_snake_case() -> None:
    kinds = [kind for catalogue in ALL_CATALOGUES for kind in catalogue.kinds]
    assert len(set(kinds)) == len(kinds)
    assert [kind for kind in kinds if not re.fullmatch(r"[a-z]+(_[a-z]+)*", kind)] == []


def test_a_sentence_uses_declared_fields_only() -> None:
    for kind, declared in EVENT_KINDS.items():
        used = {name for _, name, _, _ in string.Formatter().parse(declared.sentence or "") if name is not None}
        assert used <= set(declared.fields), kind
        assert not (declared.sentence or "").endswith("."), kind


def test_the_reference_is_made_from_the_catalogue() -> None:
    assert (ROOT / "docs" / "events.md").read_text() == event_reference(), "make docs"


def module_of(text: str) -> dict[str, Module]:
    return {"room": Module("room", text)}


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ('env.trace("begun", node=1)', {"begun": {"node"}}),
        ('self._trace(\n    "begun",\n    node=1,\n)', {"begun": {"node"}}),
        (
            "class A:\n def __call__(self, kind, /, **more): self._tracer(kind, **more)\n"
            ' def b(self): self("begun", x=1)',
            {"begun": {"x"}},
        ),
        (
            "class A:\n def tell(self, kind, **more): self._trace(kind, x=1, **more)\n"
            ' def b(self): self.tell("begun", y=1)',
            {"begun": {"y"}},
        ),
    ],
)
def test_rule_events(text: str, kinds: dict[str, set[str]]) -> None:
    events, _, unclear = emitted_events(module_of(text))
    assert ({event.kind: set(event.fields) for event in events}, unclear) == (kinds, [])


def test_rule_events_finds_calls_that_hide_their_fields() -> None:
    assert emitted_events(module_of('trace("begun", **fields)'))[2] == ["room:1 trace('begun', **fields)"]
