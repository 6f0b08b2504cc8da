"""Contexts: named clusters in a file of the user, as rpk's and kaf's profiles.

    current = "staging"

    [contexts.staging]
    "bootstrap.servers" = "host1:9092,host2:9092"
    "client.id" = "deploy"

A context is a set of Kafka's client configs. The file is `$KRAFT_CONFIG`, or `kraft/config.toml` in the directory for
configuration (`$XDG_CONFIG_HOME`, `~/.config`).
"""

import json
import os
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import attrs

from broker.cli.grammar.failures import CommandFailed, Exit, WrongSettings
from broker.cli.private_files import write_private

NAME: Final = re.compile(r"[A-Za-z0-9._-]+")


@attrs.frozen
class Contexts:
    """The file's content: configs by context, and the name of the one that is used; None for none."""

    current: str | None = None
    by_name: Mapping[str, Mapping[str, str]] = attrs.field(factory=dict)

    def get(self, name: str) -> Mapping[str, str]:
        """The configs of a context. Raises CommandFailed."""
        if name not in self.by_name:
            known = f"the contexts are {', '.join(self.by_name)}" if self.by_name else "there are none"
            raise CommandFailed(f"No context {name!r}: {known}; `kraft context add` makes one", Exit.NOT_FOUND)
        return self.by_name[name]

    def used(self, name: str) -> "Contexts":
        """Returns a copy with this context as the current one. Raises CommandFailed."""
        self.get(name)
        return attrs.evolve(self, current=name)

    def added(self, name: str, configs: Mapping[str, str]) -> "Contexts":
        """Returns a copy with this context added or replaced. The first context becomes the current one."""
        by_name = {**self.by_name, name: dict(configs)}
        return Contexts(name if self.current is None else self.current, by_name)

    def removed(self, name: str) -> "Contexts":
        """Returns a copy without this context. Raises CommandFailed."""
        self.get(name)
        by_name = {each: configs for each, configs in self.by_name.items() if each != name}
        return Contexts(None if self.current == name else self.current, by_name)


def contexts_path() -> Path:
    """The path of the file with the contexts."""
    if path := os.environ.get("KRAFT_CONFIG"):
        return Path(path)
    directory = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(directory) / "kraft" / "config.toml"


def load_contexts() -> Contexts:
    """The contexts in the user's file; none where there is no file. Raises WrongSettings."""
    path = contexts_path()
    try:
        return _parse(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return Contexts()
    except (OSError, ValueError, RecursionError) as error:
        raise WrongSettings(f"{path} cannot be read: {error}; correct it, or remove it") from error


def save_contexts(contexts: Contexts) -> None:
    """Replace the user's file. Raises WrongSettings."""
    path = contexts_path()
    lines = [] if contexts.current is None else [f"current = {_quoted(contexts.current)}", ""]
    for name, configs in contexts.by_name.items():
        lines += [f"[contexts.{_quoted(name)}]", *(f"{_quoted(key)} = {_quoted(configs[key])}" for key in configs), ""]
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_private(str(path), "\n".join(lines).encode())  # a context may hold a password
    except OSError as error:
        raise WrongSettings(f"{path} cannot be written: {error}") from error


def _parse(text: str) -> Contexts:
    document = tomllib.loads(text)
    current, tables = document.get("current"), document.get("contexts", {})
    if not (current is None or isinstance(current, str)) or not isinstance(tables, dict):
        raise ValueError("`current` is a name, and `contexts` holds tables")
    by_name: dict[str, Mapping[str, str]] = {}
    for name, configs in tables.items():
        if not isinstance(configs, dict) or any(isinstance(value, dict | list) for value in configs.values()):
            raise ValueError(
                f'context {name!r} holds configs as "bootstrap.servers" = "localhost:9092", keys in quotes'
            )
        by_name[name] = {key: _text(value) for key, value in configs.items()}
    return Contexts(current, by_name)


def _text(value: object) -> str:
    """Returns a value as text, as in a properties file."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _quoted(text: str) -> str:
    """Quotes a string for TOML. JSON's escapes are valid in TOML, except that of DEL."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
