"""The cluster that a command uses: flags, files, variables and contexts, and their precedence."""

from pathlib import Path

import pytest

from broker.cli.grammar import CommandFailed, WrongSettings
from broker.cli.grammar.contexts import Contexts, save_contexts
from broker.cli.grammar.given_settings import GivenSettings
from broker.cli.grammar.settings import resolve_settings


@pytest.fixture(autouse=True)
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user without files and variables; returns the directory of the files."""
    monkeypatch.setenv("KRAFT_CONFIG", str(tmp_path / "config.toml"))
    monkeypatch.delenv("KRAFT_BOOTSTRAP_SERVERS", raising=False)
    monkeypatch.delenv("KRAFT_CONTEXT", raising=False)
    return tmp_path


def servers(**given: str | None) -> str:
    return resolve_settings(GivenSettings(**given)).bootstrap_servers  # type: ignore[arg-type]


def test_a_cluster_on_this_machine_is_asked_by_default() -> None:
    assert servers() == "localhost:9092"


def test_the_flag_wins_over_the_file_the_context_and_the_variable(user: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    contexts = Contexts(None, {"a": {"bootstrap.servers": "a:1"}, "b": {"bootstrap.servers": "b:1"}})
    save_contexts(contexts.used("a"))
    assert servers() == "a:1"
    monkeypatch.setenv("KRAFT_BOOTSTRAP_SERVERS", "variable:1")
    assert servers() == "variable:1"
    assert servers(context="b") == "b:1"
    (user / "client.properties").write_text("bootstrap.servers=file:1\n")
    path = str(user / "client.properties")
    assert servers(context="b", command_config=path) == "file:1"
    assert servers(context="b", command_config=path, bootstrap_servers="flag:1") == "flag:1"


def test_a_variable_chooses_the_context(monkeypatch: pytest.MonkeyPatch) -> None:
    save_contexts(Contexts("a", {"a": {"bootstrap.servers": "a:1"}, "b": {"bootstrap.servers": "b:1"}}))
    monkeypatch.setenv("KRAFT_CONTEXT", "b")
    assert servers() == "b:1"


def test_an_empty_context_is_not_the_current_one() -> None:
    save_contexts(Contexts("a", {"a": {"bootstrap.servers": "a:1"}}))
    with pytest.raises(CommandFailed, match="No context ''"):
        servers(context="")


def test_configs_of_the_file_win_over_the_context_and_properties_over_both(user: Path) -> None:
    save_contexts(Contexts("a", {"a": {"client.id": "context", "retry.backoff.ms": "1", "linger.ms": "1"}}))
    (user / "client.properties").write_text("retry.backoff.ms = 2\nlinger.ms = 2\n")
    given = GivenSettings(command_config=str(user / "client.properties"), properties=("linger.ms=3",))
    assert resolve_settings(given).configs == {"client.id": "context", "retry.backoff.ms": "2", "linger.ms": "3"}


def test_a_context_that_does_not_exist_is_refused_with_those_that_do() -> None:
    save_contexts(Contexts("a", {"a": {"bootstrap.servers": "a:1"}}))
    with pytest.raises(CommandFailed, match="No context 'b': the contexts are a;"):
        servers(context="b")


def test_a_file_that_cannot_be_read_is_named(user: Path) -> None:
    with pytest.raises(WrongSettings, match=r"--command-config \S+/none cannot be read"):
        servers(command_config=str(user / "none"))


@pytest.mark.parametrize("setting", ["", "linger.ms", "=1"])
def test_a_property_has_a_key_and_a_value(setting: str) -> None:
    with pytest.raises(WrongSettings, match="write key=value"):
        resolve_settings(GivenSettings(properties=(setting,)))
