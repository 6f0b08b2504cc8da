"""The topics of a share group's members, counted as members come and go (KIP-932)."""

from types import SimpleNamespace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from broker.coordinator.group.share.subscribed_topics import SubscribedTopics

NAMES = "abcdef"


class CountedTopics(dict[str, Any]):
    """Topics by name. `lookups` counts the names that were looked up."""

    lookups = 0

    def get(self, name: str, default: Any = None) -> Any:
        self.lookups += 1
        return super().get(name, default)


def image_of(names: str) -> Any:
    """The metadata with these topics, each of which stands for itself."""
    return SimpleNamespace(topics=SimpleNamespace(by_name=CountedTopics(zip(names, names, strict=True))))


subsets = st.sets(st.sampled_from(NAMES))


@given(st.lists(st.tuples(st.integers(0, 3), subsets, st.none() | subsets)))
def test_existing_topics_are_those_that_any_member_names(changes: list[tuple[int, set[str], set[str] | None]]) -> None:
    subscribed, image, members = SubscribedTopics(), image_of("ab"), dict[int, set[str]]()
    for member, names, topics in changes:
        if topics is not None:
            image = image_of("".join(topics))
        former = members.get(member, set())
        foreseen = subscribed.existing_after(former, names, image)
        members[member] = names
        subscribed.replace(former, names)
        wanted = set().union(*members.values())
        assert set(subscribed.names) == wanted
        assert set(foreseen) == set(subscribed.existing(image)) == wanted & set(image.topics.by_name)


def test_a_change_looks_up_the_names_of_its_member_only() -> None:
    subscribed, image = SubscribedTopics(), image_of("a")
    subscribed.replace((), [f"unknown-{number}" for number in range(1000)])
    subscribed.existing(image)
    image.topics.by_name.lookups = 0
    assert set(subscribed.existing_after((), "ab", image)) == {"a"}
    subscribed.replace((), "ab")
    assert set(subscribed.existing(image)) == {"a"}
    assert image.topics.by_name.lookups == 4
