"""The user's contexts are kept in a TOML file, and read back as they were written."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.cli.grammar import WrongSettings
from broker.cli.grammar.contexts import Contexts, contexts_path, load_contexts, save_contexts

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


@pytest.fixture(scope="module", autouse=True)
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file that the tests use instead of the user's."""
    path = tmp_path_factory.mktemp("contexts") / "kraft" / "config.toml"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KRAFT_CONFIG", str(path))
        yield path  # type: ignore[misc]


@given(st.dictionaries(TEXT, st.dictionaries(TEXT, TEXT, max_size=3), max_size=3), st.none() | TEXT)
def test_contexts_are_read_as_they_were_written(by_name: dict[str, dict[str, str]], current: str | None) -> None:
    contexts = Contexts(current, by_name)
    save_contexts(contexts)
    assert load_contexts() == contexts


def test_only_the_user_may_read_the_file(path: Path) -> None:
    save_contexts(Contexts())
    assert path.stat().st_mode & 0o777 == 0o600


def test_the_file_lies_where_the_desktop_standard_says(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("KRAFT_CONFIG")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert contexts_path() == tmp_path / "kraft" / "config.toml"
    monkeypatch.delenv("XDG_CONFIG_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert contexts_path() == tmp_path / ".config" / "kraft" / "config.toml"


@pytest.mark.parametrize(
    "content",
    [
        "current =",
        "current = 1",
        "contexts = 1",
        "[contexts]\na = 1",
        "[contexts.a.bootstrap]\nservers = 1",
        "a = " + "[" * 5000,
    ],
)
def test_a_file_that_is_wrong_is_named_with_the_reason(path: Path, content: str) -> None:
    path.write_text(content)
    with pytest.raises(WrongSettings, match=r"config\.toml cannot be read: .*; correct it, or remove it"):
        load_contexts()
