"""The steps by which the zygote builds parts of nodes, while it waits for requests, before it forks them.

A node imports handlers, makes its attrs classes and compiles its codecs at their first use, which takes two thirds of
the CPU time until it serves. A fork has all of it from the zygote, in pages that both share.
"""

import sys
from collections.abc import Iterator
from importlib import import_module
from typing import Final

from broker.cli.node_config import read_node_config
from kraft import lazy_attrs

_PACKAGES: Final = ("kraft", "metadata", "broker", "jepsen")
# The last ones are for names of hosts, and for compressed records.
_MODULES: Final = (
    "jepsen.testing.node_main",
    "broker.node.broker_role",
    "broker.node.controller_role",
    "broker.node.all_coordinators",
    "encodings.idna",
    "cramjam",
    "lz4.frame",
    "zstandard",
)
# The APIs by which a node joins a cluster and creates topics, in the order of their first requests.
_APIS_OF_A_START: Final = (62, 70, 63, 18, 3, 19, 56, 1, 58, 67, 0)
# Classes whose objects a start compares, by their modules. Other classes get their constructors only.
_COMPARED: Final = (
    ("broker.storage.meta_properties", "MetaProperties"),
    ("broker.storage.cleaner.cleaner", "CleanerConfig"),
    ("broker.storage.scrub.scrubber", "ScrubConfig"),
    ("kraft.replicated_log", "Leadership"),
    ("metadata.image.cluster", "BrokerImage"),
)


def prepare() -> Iterator[None]:
    """Steps of some milliseconds, between which the zygote can fork."""
    for module in _MODULES:
        import_module(module)
        yield
    read_node_config(None, ())  # compiles the patterns of addresses
    yield
    yield from _compile_codecs()
    yield from _make_classes()
    for module, name in _COMPARED:
        _ = getattr(import_module(module), name).__eq__
        yield
    yield from _import_handlers()
    yield from _make_classes()


def _compile_codecs() -> Iterator[None]:
    from broker.wire.api import APIS
    from broker.wire.codec import decoder, encoder, sliced_decoder, sliced_encoder

    for key in _APIS_OF_A_START:
        api = APIS[key]
        version = api.max_version
        for message in (api.request, api.response):
            for compiled in (decoder, encoder):
                compiled(message, version)
                yield
        sliced_decoder(api.request, version)
        sliced_encoder(api.response, version)
        yield


def _make_classes() -> Iterator[None]:
    for name in [name for name in sys.modules if name.partition(".")[0] in _PACKAGES]:
        lazy_attrs.complete(sys.modules[name])
        yield


def _import_handlers() -> Iterator[None]:
    from broker.handlers import CONTROLLER_HANDLERS, HANDLERS

    for entry in (*HANDLERS, *CONTROLLER_HANDLERS):
        _ = entry.handler
        yield
