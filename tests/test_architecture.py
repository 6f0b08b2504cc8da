"""Checks the rules of docs/architecture.md on every file's syntax tree."""

import re

import pytest

from tests.support.architecture_rules import (
    FORBIDDEN_NAMES,
    broken_directions,
    import_cycle,
    impurities,
    mutable_globals,
    package_content,
    package_of,
    repeated_enumerations,
    repeated_exceptions,
    set_iterations,
)
from tests.support.source_code import (
    ROOT,
    functions,
    imported_module,
    imports,
    is_within,
    project_files,
    read_modules,
)

MODULES = read_modules()

IN_EVERY_GROUP = (
    "broker.coordinator.group.config",
    "broker.coordinator.group.group_kind",
    "broker.coordinator.group.partition_sets",
    "broker.coordinator.group.record_formats",
    "broker.coordinator.group.topics_hash",
    "broker.coordinator.runtime",
    "broker.wire",
    "metadata.image",
)

# Extends attrs, and imports nothing of the project.
ANYWHERE = ("kraft.checksums", "kraft.lazy_attrs")

# The project imports that each package may have, besides its own modules. The most specific entry counts.
DIRECTIONS: dict[str, tuple[str, ...]] = {
    "kraft": (),
    "metadata": ("kraft",),
    # Kafka's error codes and enumerations, for the controller and for clients.
    "metadata.protocol": (),
    "metadata.records": (),
    "metadata.image": ("kraft", "metadata.configuration", "metadata.protocol", "metadata.records"),
    "metadata.configuration": ("metadata.protocol", "metadata.regex"),
    "metadata.regex": (),
    "metadata.request_context": (),
    "metadata.controller": ("kraft", "metadata"),
    "metadata.snapshot_generator": ("kraft", "metadata.image", "metadata.records"),
    "broker.wire": ("metadata.protocol",),
    "broker.net": ("broker.wire",),
    "broker.storage": ("broker.wire", "kraft.env", "metadata.configuration"),
    "broker": (),
    # Any package may render what it prints, logs or puts on a page.
    "broker.printable": (),
    "broker.config": ("broker.storage.log_config", "kraft", "metadata"),
    "broker.controller_client": (
        "broker.client",
        "broker.config",
        "broker.storage",
        "broker.wire",
        "kraft",
        "metadata",
    ),
    "broker.replication": (
        "broker.client",
        "broker.config.effective",
        # A follower's connection to its leader is a pump, like those of clients.
        "broker.net.connection_drivers",
        "broker.net.driven_connection",
        "broker.net.receive_buffer",
        "broker.net.reply",
        "broker.net.tls_stream",
        "broker.storage",
        "broker.wire",
        "kraft",
        "metadata",
    ),
    "broker.security": (),
    "broker.security.acls": ("broker.config", "broker.server.authorizer", "broker.server.session", "metadata"),
    # Mechanisms are the same for servers and clients.
    "broker.security.sasl": ("metadata.protocol",),
    "broker.security.oauth": ("broker.printable", "broker.security.regular_files", "broker.security.sasl"),
    "broker.security.regular_files": (),
    "broker.security.tls": (
        "broker.net.listener_security",
        "broker.net.tls_stream",
        "broker.security.regular_files",
        "metadata.regex",
    ),
    "broker.security.delegation_tokens": ("broker.security.sasl", "metadata.image", "metadata.protocol"),
    "broker.quota": ("broker.net.admission", "broker.replication.throttles", "broker.server", "kraft.env", "metadata"),
    "broker.log_levels": ("kraft.events", "metadata.controller", "metadata.protocol"),
    "broker.telemetry": ("broker.metrics.exposition", "broker.net.connection", "broker.wire", "kraft.env", "metadata"),
    "broker.metrics": (),
    "broker.metrics.collectors": (
        "broker.client",
        "broker.coordinator",
        "broker.metrics",
        "broker.net",
        "broker.quota",
        "broker.replication",
        "broker.server.session",
        "broker.share_partitions",
        "broker.storage",
        "broker.telemetry",
        "broker.wire",
        "kraft",
        "metadata",
    ),
    # Declares the events of other packages. Only the event log, the documentation and the tests import it.
    "broker.events": ("kraft.events", "metadata.events"),
    # Independent of the kinds of coordinators.
    "broker.coordinator.runtime": (
        "broker.net.completion",
        "broker.net.deadlines",
        "broker.replication",
        "broker.storage",
        "broker.wire",
        "kraft",
        "metadata.image",
    ),
    # The group packages share the modules of IN_EVERY_GROUP. Only `mixed` imports both protocols.
    "broker.coordinator.group.assignors": ("broker.coordinator.group.partition_sets",),
    "broker.coordinator.group.classic": IN_EVERY_GROUP,
    "broker.coordinator.group.consumer": (*IN_EVERY_GROUP, "broker.coordinator.group.assignors", "metadata.regex"),
    "broker.coordinator.group.mixed": (
        *IN_EVERY_GROUP,
        "broker.coordinator.group.classic",
        "broker.coordinator.group.consumer",
    ),
    "broker.coordinator.group.offsets": IN_EVERY_GROUP,
    "broker.coordinator.group.share": (*IN_EVERY_GROUP, "broker.coordinator.group.assignors"),
    "broker.coordinator": (
        "broker.client",
        "broker.config",
        "broker.coordinator.group",
        "broker.coordinator.runtime",
        "broker.net.completion",
        "broker.net.deadlines",
        "broker.replication",
        "broker.storage",
        "broker.wire",
        "kraft",
        "metadata.configuration",
        "metadata.image",
        "metadata.regex",
        "metadata.request_context",
    ),
    "broker.share_partitions": (
        "broker.config",
        "broker.coordinator.runtime.completion",
        "broker.coordinator.share.share_state",
        "broker.net.completion",
        "broker.net.deadlines",
        "broker.net.reply",
        "broker.replication",
        "broker.storage",
        "broker.wire",
        "kraft.background_tasks",
        "kraft.env",
        "metadata.configuration",
        "metadata.image",
        "metadata.protocol",
    ),
    "broker.server": (
        "broker.config",
        "broker.controller_client",
        "broker.coordinator",
        "broker.log_levels",
        "broker.net",
        "broker.replication",
        "broker.security.sasl",
        "broker.share_partitions",
        "broker.storage",
        "broker.telemetry",
        "broker.wire",
        "kraft",
        "metadata",
    ),
    "broker.handlers": ("broker", "kraft", "metadata"),
    "broker.node": ("broker", "kraft", "metadata"),
    "broker.cli": ("broker", "kraft", "metadata"),
    # `kraft spark check` runs the checkers of the fault suites on stored histories.
    "broker.cli.commands.spark_check": ("broker", "jepsen", "kraft", "metadata"),
    # `kraft test-server` runs a cluster for tests, whose faults no node of production has.
    "broker.cli.commands.test_server": ("broker", "jepsen", "kraft", "metadata"),
    "broker.client": (
        "broker.wire",
        "broker.net",
        "broker.printable",
        "broker.security.oauth",
        "broker.security.sasl",
        "broker.security.tls",
        "metadata.protocol",
    ),
    "broker.spark": ("broker.client", "broker.printable"),
    "pyspark_kraft": ("broker.spark",),
    "jepsen": ("broker", "kraft", "metadata"),
    # Benchmarks and fault suites share the processes, the links between them and the clients.
    "benchmarks": ("broker", "jepsen", "kraft", "metadata"),
}
HANDLERS_KNOWN_TO = {
    # Import them before a node is counted, or forked.
    "benchmarks.counted_node",
    "jepsen.testing.preparation",
    "broker.node.broker_role",
    "broker.node.controller_role",
    # Send every API the largest request that its handler takes.
    "benchmarks.bench_loop_holds",
}
ROOTS_KNOWN_TO = {"broker.cli", "jepsen", "benchmarks"}

# Packages that use no clock, socket, random numbers or disk, and their modules that are exempt.
PURE: dict[str, frozenset[str]] = {
    "kraft.core": frozenset(),
    "metadata.protocol": frozenset(),
    "metadata.records": frozenset(),
    # Yields to other tasks between the portions of a snapshot.
    "metadata.image": frozenset({"metadata.image.metadata_loader"}),
    "metadata.configuration": frozenset(),
    "metadata.controller": frozenset({"metadata.controller.controller", "metadata.controller.request_queue"}),
    "metadata.regex": frozenset(),
    "metadata.request_context": frozenset(),
    # Compares addresses of memory, to find where a view begins in its buffer.
    "broker.wire": frozenset({"broker.wire.records.partial_check"}),
    # Wait for the share coordinator.
    "broker.coordinator.group": frozenset({"broker.coordinator.group.share_states"}),
    # They write markers, send requests to other brokers, and wait for timeouts.
    "broker.coordinator.transaction": frozenset(
        {
            "broker.coordinator.transaction.coordinator",
            "broker.coordinator.transaction.marker_sender",
            "broker.coordinator.transaction.marker_writer",
            "broker.coordinator.transaction.verification",
        }
    ),
    # They wait for timeouts, and send requests to other brokers.
    "broker.coordinator.share": frozenset(
        {
            "broker.coordinator.share.coordinator",
            "broker.coordinator.share.state_client",
        }
    ),
    "broker.quota": frozenset(),
    # They write to other brokers, and wait before the next attempt.
    "broker.share_partitions": frozenset(
        {
            "broker.share_partitions.dead_letter_batch",
            "broker.share_partitions.dead_letter_queue",
        }
    ),
    "broker.security.acls": frozenset(),
    "broker.security.sasl": frozenset(),
    # They fetch keys and tokens from identity providers.
    "broker.security.oauth": frozenset(
        {
            "broker.security.oauth.http_exchange",
            "broker.security.oauth.key_source",
            "broker.security.oauth.login",
        }
    ),
    "broker.log_levels": frozenset(),
    "broker.telemetry": frozenset(),
    "broker.client.consumer": frozenset(
        {
            "broker.client.consumer.consumer",
            "broker.client.consumer.engine",
            "broker.client.consumer.obstacles",
            "broker.client.consumer.fetcher",
            "broker.client.consumer.group.assignment_changes",
            "broker.client.consumer.group.classic.driver",
            "broker.client.consumer.group.consumer.driver",
            "broker.client.consumer.group.context",
            "broker.client.consumer.group.heartbeat_times",
            "broker.client.consumer.group.member",
            "broker.client.consumer.group.offsets",
            "broker.client.consumer.group.polls",
            "broker.client.consumer.group.protocols",
            "broker.client.consumer.group.signal",
            "broker.client.consumer.leader_updates",
            "broker.client.consumer.offsets",
            "broker.client.consumer.position_updates",
            "broker.client.consumer.range_reader",
        }
    ),
    "broker.client.share_consumer": frozenset(
        {
            "broker.client.share_consumer.engine",
            "broker.client.share_consumer.leader",
            "broker.client.share_consumer.member",
            "broker.client.share_consumer.share_consumer",
            "broker.client.share_consumer.share_fetcher",
            "broker.client.share_consumer.share_responses",
        }
    ),
    "broker.client.producer": frozenset(
        {
            "broker.client.producer.delivery",
            "broker.client.producer.unread_failures",
            "broker.client.producer.producer",
            "broker.client.producer.sender",
            "broker.client.producer.transaction_calls",
            "broker.client.producer.transaction_requests",
        }
    ),
    "broker.controller_client.lifecycle_protocol": frozenset(),
    "broker.spark.options": frozenset(),
    "broker.spark.sink.decisions": frozenset(),
}

# Tables that are filled while modules are imported, and constant afterwards.
REGISTRIES = {"metadata.records.record": ("_CLASSES",)}

# The lines of the longest file and of the longest function (without docstring) of each package that exceeds the limit.
# The numbers may only fall: a change that shortens the longest one lowers its number, down to SIZES_MAX.
SIZES_MAX = (400, 30)
SIZES: dict[str, tuple[int, int]] = {
    "broker.wire": (400, 56),
    "broker.storage": (430, 43),
    "broker.replication": (400, 31),
    "broker.handlers": (400, 40),
}
# How far a package may be below its recorded number before the number must be lowered.
SLACK = (25, 5)


def test_packages_import_only_lower_ones() -> None:
    allowed = {package: (*others, *ANYWHERE) for package, others in DIRECTIONS.items()}
    assert broken_directions(MODULES, allowed) == []


def test_only_the_composition_root_imports_handlers() -> None:
    outside = {name: module for name, module in MODULES.items() if not is_within(name, "broker.handlers")}
    importers = [name for name in outside if _imports_from(name, "broker.handlers")]
    assert set(importers) == HANDLERS_KNOWN_TO


def test_nothing_below_it_imports_the_composition_root() -> None:
    importers = {name for name in MODULES if not is_within(name, "broker.node") and _imports_from(name, "broker.node")}
    assert not [name for name in importers if not any(is_within(name, root) for root in ROOTS_KNOWN_TO)]


def test_there_are_no_cycles_of_imports() -> None:
    assert import_cycle(MODULES) == []


def test_enumerations_and_exceptions_are_defined_once() -> None:
    product = [module for name, module in MODULES.items() if name.partition(".")[0] in ("kraft", "metadata", "broker")]
    assert repeated_enumerations(product) == []
    assert repeated_exceptions(product) == []


@pytest.mark.parametrize("package", PURE)
def test_pure_packages_are_pure(package: str) -> None:
    inside = [module for name, module in MODULES.items() if is_within(name, package)]
    impure = {module.name for module in inside if impurities(module)}
    assert impure == PURE[package], [problem for module in inside for problem in impurities(module)]


def test_init_files_only_document_and_reexport() -> None:
    assert [problem for module in MODULES.values() if module.is_package for problem in package_content(module)] == []


def test_modules_keep_no_state() -> None:
    def is_registry(problem: str) -> bool:
        module = problem.partition(":")[0]
        return any(re.search(rf" {name} is changed$", problem) for name in REGISTRIES.get(module, ()))

    problems = [problem for module in MODULES.values() for problem in mutable_globals(module)]
    assert [problem for problem in problems if not is_registry(problem)] == []


def test_nothing_depends_on_the_order_of_a_set() -> None:
    assert [problem for module in MODULES.values() for problem in set_iterations(module)] == []


def test_every_concern_has_a_name() -> None:
    names = [path.stem for package in ("tests", *DIRECTIONS) for path in (ROOT / package).rglob("*")]
    assert [name for name in names if FORBIDDEN_NAMES.fullmatch(name)] == []


def test_names_of_files_are_plain_on_every_system() -> None:
    parts = {part for path in project_files() for part in path.parts}
    assert [part for part in sorted(parts) if not re.fullmatch(r"[\w.@+-]+", part, re.ASCII)] == []


@pytest.mark.parametrize("package", DIRECTIONS)
def test_files_and_functions_do_not_grow_beyond_the_longest_of_their_package(package: str) -> None:
    bounds = zip(SIZES.get(package, SIZES_MAX), SIZES_MAX, SLACK, strict=True)
    for (size, name), (recorded, wanted, slack) in zip(_sizes(package), bounds, strict=True):
        assert size <= recorded, f"{name} has grown to {size} lines"
        assert recorded - max(size, wanted) <= slack, (
            f"record that {name} is the longest of {package}, with {size} lines"
        )


def _imports_from(name: str, package: str) -> bool:
    return any(is_within(imported_module(imported, MODULES), package) for imported in imports(MODULES[name]))


def _sizes(package: str) -> tuple[tuple[int, str], tuple[int, str]]:
    """The longest file and the longest function of a package, each with its name."""
    inside = [module for module in MODULES.values() if package_of(module.name, DIRECTIONS) == package]
    files = [(module.text.count("\n"), module.name) for module in inside]
    lengths = [(each.lines, f"{module.name}.{each.name}") for module in inside for each in functions(module)]
    return max(files, default=(0, "")), max(lengths, default=(0, ""))
