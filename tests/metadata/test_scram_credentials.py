"""AlterUserScramCredentials: validation as in Kafka's ScramControlManager, and the records that change the image."""

import attrs
import pytest

from metadata.controller import SUPPORTED_FEATURES, ScramAlteration
from metadata.controller.scram import alter_user_scram_credentials
from metadata.protocol import KafkaError, ScramMechanism
from metadata.protocol.scram import credential_of
from tests.support.metadata import Cluster, refusal

SHA_256, SHA_512 = ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512
TWICE = ("DUPLICATE_RESOURCE", "A user credential cannot be altered twice in the same request")


def alter(cluster: Cluster, *alterations: ScramAlteration) -> dict[str, tuple[str, str] | None]:
    """The refusal of each user, or None."""
    outcomes = cluster.decide(alter_user_scram_credentials(cluster.image, alterations))
    assert len({outcome.user for outcome in outcomes}) == len(outcomes)
    return {outcome.user: refusal(outcome.error) for outcome in outcomes}


def upsertion(user: str, mechanism: int = SHA_256, iterations: int = 4096) -> ScramAlteration:
    return ScramAlteration(user, mechanism, iterations, b"salt", b"salted password")


def test_credentials_are_set_changed_and_removed_one_by_one() -> None:
    cluster = Cluster()
    assert alter(cluster, upsertion("alice"), upsertion("bob")) == {"alice": None, "bob": None}
    assert alter(cluster, upsertion("alice", SHA_512, 8192)) == {"alice": None}
    assert cluster.image.scram.of("alice") == {
        SHA_256: credential_of(SHA_256, b"salted password", b"salt", 4096),
        SHA_512: credential_of(SHA_512, b"salted password", b"salt", 8192),
    }
    assert alter(cluster, ScramAlteration("alice", SHA_256), upsertion("bob", iterations=5000)) == {
        "alice": None,
        "bob": None,
    }
    assert list(cluster.image.scram.of("alice")) == [SHA_512]
    assert cluster.image.scram.of("bob")[SHA_256].iterations == 5000
    assert alter(cluster, ScramAlteration("alice", SHA_512)) == {"alice": None}
    assert list(cluster.image.scram.users) == ["bob"]


@pytest.mark.parametrize(
    ("alteration", "expected"),
    [
        (upsertion(""), ("UNACCEPTABLE_CREDENTIAL", "Username must not be empty")),
        (ScramAlteration("", 1), ("UNACCEPTABLE_CREDENTIAL", "Username must not be empty")),
        (upsertion("u" * 1001), ("UNACCEPTABLE_CREDENTIAL", "Username must not have more than 1000 characters")),
        (upsertion("alice", 0), ("UNSUPPORTED_SASL_MECHANISM", "Unknown SCRAM mechanism")),
        (upsertion("alice", 3), ("UNSUPPORTED_SASL_MECHANISM", "Unknown SCRAM mechanism")),
        (ScramAlteration("alice", -1), ("UNSUPPORTED_SASL_MECHANISM", "Unknown SCRAM mechanism")),
        (upsertion("alice", iterations=4095), ("UNACCEPTABLE_CREDENTIAL", "Too few iterations")),
        (upsertion("alice", iterations=16_385), ("UNACCEPTABLE_CREDENTIAL", "Too many iterations")),
        (
            attrs.evolve(upsertion("alice"), salt=bytes(1001)),
            ("UNACCEPTABLE_CREDENTIAL", "The salt must not have more than 1000 bytes"),
        ),
        (
            attrs.evolve(upsertion("alice"), salted_password=b""),
            ("UNACCEPTABLE_CREDENTIAL", "The salted password must not be empty"),
        ),
        (
            ScramAlteration("alice", SHA_512),
            ("RESOURCE_NOT_FOUND", "Attempt to delete a user credential that does not exist"),
        ),
    ],
)
def test_refusals(alteration: ScramAlteration, expected: tuple[str, str]) -> None:
    cluster = Cluster()
    alter(cluster, upsertion("alice"))
    before = cluster.image.scram
    assert alter(cluster, alteration, upsertion("bob", iterations=16_384)) == {alteration.user: expected, "bob": None}
    assert cluster.image.scram.of("alice") == before.of("alice")


def test_a_repeated_user_keeps_its_credentials_as_in_kafka() -> None:
    cluster = Cluster()
    assert alter(cluster, upsertion("a", SHA_256), upsertion("a", SHA_512), upsertion("b")) == {"a": TWICE, "b": None}
    assert alter(cluster, ScramAlteration("b", SHA_256), upsertion("b", SHA_512)) == {"b": TWICE}
    assert list(cluster.image.scram.of("b")) == [SHA_256]


def test_no_credentials_before_metadata_version_3_5() -> None:
    cluster = Cluster()
    features = {**cluster.image.features, "metadata.version": 10}
    image = attrs.evolve(cluster.image, features=features)
    [outcome] = alter_user_scram_credentials(image, [upsertion("alice")]).response
    assert refusal(outcome.error) == ("UNSUPPORTED_VERSION", "The current metadata.version does not support SCRAM")


def test_no_credentials_while_a_node_of_an_earlier_release_is_registered() -> None:
    cluster = Cluster()
    cluster.join(1)
    broker = attrs.evolve(cluster.image.cluster.brokers[1], features=SUPPORTED_FEATURES)
    image = attrs.evolve(cluster.image, cluster=attrs.evolve(cluster.image.cluster, brokers={1: broker}))
    with pytest.raises(KafkaError, match="Broker 1 is of a release that does not know SCRAM credentials"):
        alter_user_scram_credentials(image, [upsertion("alice")])


def test_no_secret_is_in_a_representation() -> None:
    [record] = alter_user_scram_credentials(Cluster().image, [upsertion("alice")]).records
    assert "salt" not in repr(record) + repr(upsertion("alice"))
