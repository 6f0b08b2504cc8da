"""The syntax of `sasl.jaas.config`, as Kafka reads it."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.security.sasl.jaas import PLAIN_MODULE, SCRAM_MODULE, JaasError, login_module, login_modules

SERVER_PLAIN = f'{PLAIN_MODULE} required username="admin" password="p w" user_admin="p w" user_alice=\'a"b\';'


def test_options_users_and_credentials() -> None:
    module = login_module(SERVER_PLAIN)
    assert module.name == PLAIN_MODULE
    assert module.credentials() == ("admin", "p w")
    assert module.users == {"admin": "p w", "alice": 'a"b'}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("secret", "secret"),
        ("a-b_c$d.e1", "a-b_c$d.e1"),
        ('"semi;colon"', "semi;colon"),
        (r'"quote\"d"', 'quote"d'),
        (r'"back\\slash"', "back\\slash"),
        (r'"\101\60x"', "A0x"),
        (r'"tab\tnew\n"', "tab\tnew\n"),
        ('"// no comment"', "// no comment"),
        ('""', ""),
    ],
)
def test_values(value: str, expected: str) -> None:
    assert login_module(f"{SCRAM_MODULE} REQUIRED password={value} ;").options == {"password": expected}


def test_comments_lines_and_several_modules() -> None:
    text = "/* first\n */ one.Module optional a=b ; // then\n\n two.Module sufficient\n\tc='d'\n;"
    assert [(module.name, dict(module.options)) for module in login_modules(text)] == [
        ("one.Module", {"a": "b"}),
        ("two.Module", {"c": "d"}),
    ]


def test_token_login() -> None:
    assert login_module(f'{SCRAM_MODULE} required tokenauth="True" username=id password=hmac;').is_token_login
    assert not login_module(f"{SCRAM_MODULE} required username=id password=hmac;").is_token_login


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "Login module not specified"),
        ("// nothing", "Login module not specified"),
        (PLAIN_MODULE, "control flag not specified"),
        (f"{PLAIN_MODULE};", "control flag not specified"),
        (f"{PLAIN_MODULE} always;", "Invalid login module control flag"),
        (f"{PLAIN_MODULE} required username=;", "Value not specified"),
        (f"{PLAIN_MODULE} required hunter2;", "Value not specified"),
        (f"{PLAIN_MODULE} required hunter2", "Value not specified"),
        (f"{PLAIN_MODULE} required password=hunter2", "not terminated by semi-colon"),
        (f"{PLAIN_MODULE} required password=2hunter;", "Unexpected character at position"),
        (f'{PLAIN_MODULE} required password="hunter2;', "Unexpected character at position"),
        (f"{SERVER_PLAIN} {SERVER_PLAIN}", "contains 2 login modules"),
        ("com.sun.security.auth.module.Krb5LoginModule required;", "none of Kafka's"),
    ],
)
def test_errors_that_name_no_secret(text: str, message: str) -> None:
    with pytest.raises(JaasError, match=message) as caught:
        login_module(text)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("options", ["", "username=a", "password=a", 'username="" password=a'])
def test_a_client_needs_username_and_password(options: str) -> None:
    with pytest.raises(JaasError):
        login_module(f"{PLAIN_MODULE} required {options};").credentials()


def test_options_are_not_in_the_representation() -> None:
    assert "p w" not in repr(login_module(SERVER_PLAIN))


@given(st.text(max_size=60) | st.text(st.sampled_from("a=;'\"\\/* \n1required"), max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    with suppress(JaasError):
        login_modules(text)
