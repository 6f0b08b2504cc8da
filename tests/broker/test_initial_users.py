"""The users of `kraft format --add-scram` (KIP-900): Kafka's syntax, and the credentials that come of it."""

from base64 import b64encode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.node.initial_users import InvalidUser, initial_user, parse_user
from metadata.protocol import ScramMechanism
from metadata.protocol.scram import credential_of, salted_password
from metadata.records import UserScramCredentialRecord

SALT = b"salt" * 8


def parse(text: str, content: bytes = b"") -> UserScramCredentialRecord:
    """Reads a user; every file has this content, and every salt is `SALT`."""
    return parse_user(text, lambda path: content, lambda count: SALT[:count])


def test_kip_900_password_becomes_a_credential_with_a_random_salt() -> None:
    record = parse("SCRAM-SHA-512=[name=alice,password=secret]")
    salted = salted_password(ScramMechanism.SCRAM_SHA_512, "secret", SALT, 4096)
    expected = credential_of(ScramMechanism.SCRAM_SHA_512, salted, SALT, 4096)
    assert (record.name, record.mechanism, record.salt, record.iterations) == ("alice", 2, SALT, 4096)
    assert (record.stored_key, record.server_key) == (expected.stored_key, expected.server_key)


def test_salted_password_and_password_give_the_same_credential() -> None:
    salt = b"own salt"
    salted = salted_password(ScramMechanism.SCRAM_SHA_256, "secret", salt, 8192)
    common = f"name=bob,iterations=8192,salt={b64encode(salt).decode()}"
    by_password = parse(f"SCRAM-SHA-256=[{common},password=secret]")
    assert parse(f'SCRAM-SHA-256=[{common},saltedpassword="{b64encode(salted).decode()}"]') == by_password


def test_password_may_come_from_a_file_whose_line_end_is_left_out() -> None:
    assert parse("SCRAM-SHA-256=[name=a,passwordfile=f]", b"secret\r\n") == parse(
        "SCRAM-SHA-256=[name=a,password=secret]"
    )


def test_user_of_a_local_cluster_is_the_one_of_the_option() -> None:
    made = initial_user("SCRAM-SHA-512", "admin", "secret", lambda count: SALT[:count])
    assert made == parse("SCRAM-SHA-512=[name=admin,password=secret]")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("SCRAM-SHA-256", "Failed to find equals sign in the SCRAM argument"),
        ("SCRAM-SHA-1=[name=a,password=b]", "The add-scram mechanism SCRAM-SHA-1 is not supported."),
        ("SCRAM-SHA-256=name=a,password=b]", "Expected configuration string to start with ["),
        ("SCRAM-SHA-256=[name=a,password=b", "Expected configuration string to end with ]"),
        ("SCRAM-SHA-256=[password=b]", "You must supply 'name' to add-scram"),
        ("SCRAM-SHA-256=[name=,password=b]", "The name of a user must have 1 to 1000 characters"),
        ("SCRAM-SHA-256=[name=a]", "You must supply one of 'password' or 'saltedpassword' to add-scram"),
        ("SCRAM-SHA-256=[name=a,saltedpassword=AA==]", "You must supply 'salt' with 'saltedpassword' to add-scram"),
        ("SCRAM-SHA-256=[name=a,password=b,salt=%]", "Failed to decode given salt"),
        ("SCRAM-SHA-256=[name=a,saltedpassword=%,salt=AA==]", "Failed to decode given saltedpassword"),
        ("SCRAM-SHA-256=[name=a,password=b,iterations=x]", "Failed to parse iterations count: x"),
        (
            "SCRAM-SHA-256=[name=a,password=b,iterations=4095]",
            "The 'iterations' value must be >= 4096 for add-scram using SCRAM-SHA-256",
        ),
        (
            "SCRAM-SHA-512=[name=a,password=b,iterations=16385]",
            "The 'iterations' value must be <= 16384 for add-scram using SCRAM-SHA-512",
        ),
        ("SCRAM-SHA-256=[name=a,password=b,c=d,b=e]", "Unknown SCRAM configurations: b, c"),
        ("SCRAM-SHA-256=[name=a,password=s,ecret]", "No equals sign found in a SCRAM component"),
    ],
)
def test_invalid_user_is_refused_with_the_reason(text: str, reason: str) -> None:
    with pytest.raises(InvalidUser) as refused:
        parse(text)
    assert str(refused.value) == reason


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["name", "salt", "iterations", "password", "passwordfile", "saltedpassword", "x"]),
            st.text(max_size=8),
        ),
        max_size=5,
    )
)
def test_any_settings_make_a_user_or_are_refused(settings: list[tuple[str, str]]) -> None:
    text = ",".join(f"{key}={value}" for key, value in settings)
    try:
        record = parse(f"SCRAM-SHA-256=[{text}]")
    except InvalidUser:
        return
    assert record.name
    assert 4096 <= record.iterations <= 16384
