"""docs/client-reference.md and docs/client-reference agree with `broker.client`."""

import inspect
from typing import get_type_hints

import attrs

import broker.client
from broker.client.config import ClientConfig
from tests.support.client_config_reference import CLIENTS, KAFKA_DEFAULTS
from tests.support.client_reference import reference
from tests.support.source_code import ROOT

DOCS = ROOT / "docs"
PAGES = [DOCS / "client-reference.md", *sorted((DOCS / "client-reference").glob("*.md"))]


def test_the_reference_is_made_from_the_source() -> None:
    """To update it: `make docs`."""
    assert {str(page.relative_to(DOCS)): page.read_text() for page in PAGES} == reference()


def test_every_public_name_is_in_the_reference() -> None:
    lines = [line for page in PAGES for line in page.read_text().splitlines()]
    headings = {line.split()[1] for line in lines if line.startswith("## ")}
    assert set(broker.client.__all__) <= headings


def test_every_public_class_and_function_has_a_docstring() -> None:
    for name in broker.client.__all__:
        check_docstrings(name)


def check_docstrings(name: str) -> None:
    found = getattr(broker.client, name)
    if inspect.isclass(found) or inspect.isfunction(found):
        docstring = found.__doc__ or ""
        # attrs and NamedTuple generate a docstring from the fields if there is none.
        assert docstring, name
        assert not docstring.startswith((f"{name}(", "Method generated")), name
    if inspect.isclass(found):
        for member, value in vars(found).items():
            if inspect.isfunction(value) and not member.startswith("_"):
                assert value.__doc__ or name.endswith("erializer"), f"{name}.{member}"


def test_every_key_is_a_keyword_argument_with_a_type() -> None:
    for config, settings in CLIENTS.values():
        servers = {"bootstrap_servers"}
        assert set(attrs.fields_dict(config)) - servers == set(get_type_hints(settings)), config.__name__


def test_kafkas_differing_defaults_are_of_keys_that_exist() -> None:
    classes = {each.__name__: each for each in (ClientConfig, *ClientConfig.__subclasses__())}
    for name, keys in KAFKA_DEFAULTS.items():
        fields = attrs.fields_dict(classes[name])
        assert {key.replace(".", "_") for key in keys} <= set(fields), name
