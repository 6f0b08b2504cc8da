"""Changes of SCRAM credentials (KIP-554)."""

from collections import Counter
from collections.abc import Sequence
from typing import Final, NamedTuple

import attrs

from kraft import lazy_attrs
from metadata.controller.decision import Decision
from metadata.controller.feature_levels import METADATA_VERSION, SCRAM_RECORDS, SCRAM_SINCE
from metadata.controller.known_records import check_nodes_know
from metadata.image import MetadataImage
from metadata.protocol import ErrorCode, KafkaError, ScramMechanism
from metadata.protocol.scram import ITERATIONS_MAX, ITERATIONS_MIN, credential_of
from metadata.records import MetadataRecord, RemoveUserScramCredentialRecord, UserScramCredentialRecord

# Kafka takes any. A user's name is in every request that forwards one of its own, and salts are sent to clients.
USER_NAME_LENGTH_MAX: Final = 1_000
_SALT_BYTES_MAX: Final = 1_000


@lazy_attrs.frozen
class ScramAlteration:
    """The change of one credential: a new one with this salt, salted password and iterations, or its deletion.

    `mechanism` is the number of a ScramMechanism. A deletion has no salted password.
    """

    user: str
    mechanism: int
    iterations: int = 0
    salt: bytes = attrs.field(default=b"", repr=False)
    salted_password: bytes | None = attrs.field(default=None, repr=False)


class ScramOutcome(NamedTuple):
    """The result for one user of a request; `error` is None if it succeeded."""

    user: str
    error: KafkaError | None


def alter_user_scram_credentials(
    image: MetadataImage, alterations: Sequence[ScramAlteration]
) -> Decision[list[ScramOutcome]]:
    """Change one credential of each user. Each user succeeds or fails independently.

    As in Kafka, a user that is named more than once fails, even with different mechanisms.

    Raises KafkaError UNSUPPORTED_VERSION while a registered node is of a release that does not know the records.
    """
    check_nodes_know(image, SCRAM_RECORDS, "SCRAM credentials")
    named = Counter(alteration.user for alteration in alterations)
    repeated = KafkaError(ErrorCode.DUPLICATE_RESOURCE, "A user credential cannot be altered twice in the same request")
    outcomes = [ScramOutcome(user, repeated) for user, times in named.items() if times > 1]
    records: list[MetadataRecord] = []
    for alteration in alterations:
        if named[alteration.user] > 1:
            continue
        try:
            records.append(_record(image, alteration))
            outcomes.append(ScramOutcome(alteration.user, None))
        except KafkaError as error:
            outcomes.append(ScramOutcome(alteration.user, error.with_traceback(None)))
    return Decision(records, outcomes)


def _record(image: MetadataImage, alteration: ScramAlteration) -> MetadataRecord:
    if image.features.get(METADATA_VERSION, 0) < SCRAM_SINCE:
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, "The current metadata.version does not support SCRAM")
    user, mechanism = alteration.user, ScramMechanism(alteration.mechanism)
    if not user:
        raise _unacceptable("Username must not be empty")
    if len(user) > USER_NAME_LENGTH_MAX:
        raise _unacceptable(f"Username must not have more than {USER_NAME_LENGTH_MAX} characters")
    if mechanism is ScramMechanism.UNKNOWN:
        raise KafkaError(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
    if alteration.salted_password is None:
        if mechanism not in image.scram.of(user):
            raise KafkaError(ErrorCode.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist")
        return RemoveUserScramCredentialRecord(name=user, mechanism=mechanism)
    _check_upsertion(alteration)
    salt, iterations = alteration.salt, alteration.iterations
    return scram_record(user, mechanism, alteration.salted_password, salt, iterations)


def scram_record(
    user: str, mechanism: ScramMechanism, salted: bytes, salt: bytes, iterations: int
) -> UserScramCredentialRecord:
    """The record that sets the credential of a user with this salted password."""
    credential = credential_of(mechanism, salted, salt, iterations)
    return UserScramCredentialRecord(
        name=user,
        mechanism=mechanism,
        salt=salt,
        stored_key=credential.stored_key,
        server_key=credential.server_key,
        iterations=iterations,
    )


def _check_upsertion(alteration: ScramAlteration) -> None:
    if alteration.iterations < ITERATIONS_MIN:
        raise _unacceptable("Too few iterations")
    if alteration.iterations > ITERATIONS_MAX:
        raise _unacceptable("Too many iterations")
    if len(alteration.salt) > _SALT_BYTES_MAX:
        raise _unacceptable(f"The salt must not have more than {_SALT_BYTES_MAX} bytes")
    # An HMAC with an empty key is defined, and Java refuses it.
    if not alteration.salted_password:
        raise _unacceptable("The salted password must not be empty")


def _unacceptable(message: str) -> KafkaError:
    return KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, message)
