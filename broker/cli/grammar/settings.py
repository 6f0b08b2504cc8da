"""Resolves a command's cluster and client configs from flags, files, variables and contexts."""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

import attrs

from broker.cli.grammar.contexts import load_contexts
from broker.cli.grammar.failures import WrongSettings
from broker.cli.grammar.given_settings import SERVERS_VARIABLE, GivenSettings
from broker.config.properties import parse_properties

SERVERS_KEY: Final = "bootstrap.servers"
CONTEXT_VARIABLE: Final = "KRAFT_CONTEXT"
# Where `kraft start` and `kraft cluster start` listen by default.
SERVERS_DEFAULT: Final = "localhost:9092"
CLIENT_ID: Final = "kraft"


@attrs.frozen
class ClusterSettings:
    """The cluster to ask. `configs` are Kafka's client configs, apart from `bootstrap.servers`."""

    bootstrap_servers: str
    configs: Mapping[str, str]


def resolve_settings(given: GivenSettings) -> ClusterSettings:
    """Merge what is given with the environment and the contexts. Raises CommandFailed.

    The servers come from the first of: the flag, the file of --command-config, the context of --context,
    KRAFT_BOOTSTRAP_SERVERS, the current context (KRAFT_CONTEXT, or the one in the file), localhost:9092. Other configs
    come from the context, overridden by the file, overridden by -X.
    """
    from_context = _context(given)
    from_file = {} if given.command_config is None else read_command_config(given.command_config)
    configs = {"client.id": CLIENT_ID, **from_context, **from_file, **parse_settings(given.properties)}
    context_servers = from_context.get(SERVERS_KEY)
    candidates = (
        given.bootstrap_servers,
        from_file.get(SERVERS_KEY),
        context_servers if given.context is not None else None,
        os.environ.get(SERVERS_VARIABLE) or None,
        context_servers,
        SERVERS_DEFAULT,
    )
    configs.pop(SERVERS_KEY, None)
    return ClusterSettings(next(servers for servers in candidates if servers is not None), configs)


def _context(given: GivenSettings) -> Mapping[str, str]:
    contexts = load_contexts()
    name = given.context if given.context is not None else os.environ.get(CONTEXT_VARIABLE) or contexts.current
    return {} if name is None else contexts.get(name)


def read_command_config(path: str) -> dict[str, str]:
    """The configs in a properties file. Raises WrongSettings."""
    try:
        return parse_properties(Path(path).read_bytes())
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or error
        raise WrongSettings(f"--command-config {path} cannot be read: {reason}") from error


def parse_settings(settings: Iterable[str]) -> dict[str, str]:
    """`key=value` texts as a mapping; of a key given twice, the last value counts. Raises WrongSettings."""
    pairs = {}
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not (equals and key.strip()):
            raise WrongSettings(f"{setting!r} is not a setting; write key=value")
        pairs[key.strip()] = value
    return pairs
