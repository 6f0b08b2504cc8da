"""The numbers of connections by the software of their clients, which clients name as they like."""

from broker.metrics import Sample
from broker.metrics.collectors.clients import SOFTWARE_MAX, STEP_ITEMS, software_samples


def test_most_frequent_software_of_each_listener_is_listed() -> None:
    common = [("A", "java", "4")] * 3 + [("B", "rust", "1")] * 2
    rare = [("A", f"name-{number}", "1") for number in range(1000)]
    samples = [each for each in software_samples([*common, *rare]) if each is not None]
    assert len(samples) == SOFTWARE_MAX + 2
    assert Sample(("A", "java", "4"), 3) in samples
    assert Sample(("B", "rust", "1"), 2) in samples
    assert Sample(("A", "other", "other"), 1000 - (SOFTWARE_MAX - 1)) in samples


def test_connections_are_counted_in_short_steps() -> None:
    """10,000 connections, each with a software of its own, held the event loop for some 10 ms."""
    distinct = [("A", f"name-{number}", "1") for number in range(2000)]
    assert list(software_samples(distinct)).count(None) == 2 * (2000 // STEP_ITEMS)
