"""AlterUserScramCredentials (key 51): set and remove SCRAM credentials of users (KIP-554)."""

from typing import Final

from broker.handlers.response_errors import code_of, message_of
from broker.server.context import ControllerContext
from broker.server.handler import Handler
from broker.server.scheduler import Work, in_task
from broker.server.slices import Steps, each
from broker.wire.api.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from broker.wire.errors import ErrorCode, KafkaError
from metadata.controller import ScramAlteration, ScramOutcome
from metadata.protocol import AclOperation

# As many records as Kafka's controller writes for one request.
ALTERATIONS_MAX: Final = 10_000


def alter_user_scram_credentials(
    context: ControllerContext, request: AlterUserScramCredentialsRequest
) -> Work[AlterUserScramCredentialsResponse]:
    if len(request.deletions) + len(request.upsertions) > ALTERATIONS_MAX:
        raise KafkaError(ErrorCode.POLICY_VIOLATION, f"A request alters {ALTERATIONS_MAX} credentials at most.")
    deletions = yield from each(_deletion, request.deletions)
    upsertions = yield from each(_upsertion, request.upsertions)
    security = context.services.controller.security
    outcomes = yield from in_task(security.alter_user_scram_credentials([*deletions, *upsertions], context=context))
    return AlterUserScramCredentialsResponse(results=(yield from each(_result, outcomes)))


def _deletion(deletion: ScramCredentialDeletion) -> ScramAlteration:
    return ScramAlteration(deletion.name, deletion.mechanism)


def _upsertion(upsertion: ScramCredentialUpsertion) -> ScramAlteration:
    salt, salted_password = bytes(upsertion.salt), bytes(upsertion.salted_password)
    return ScramAlteration(upsertion.name, upsertion.mechanism, upsertion.iterations, salt, salted_password)


def _result(outcome: ScramOutcome) -> AlterUserScramCredentialsResult:
    error = outcome.error
    return AlterUserScramCredentialsResult(
        user=outcome.user, error_code=code_of(error), error_message=message_of(error)
    )


def refused(
    context: ControllerContext, request: AlterUserScramCredentialsRequest, error: KafkaError
) -> Steps[AlterUserScramCredentialsResponse]:
    names = [deletion.name for deletion in request.deletions]
    names += [upsertion.name for upsertion in request.upsertions]
    users = dict.fromkeys(names)

    def result(user: str) -> AlterUserScramCredentialsResult:
        return _result(ScramOutcome(user, error))

    results = yield from each(result, list(users))
    return AlterUserScramCredentialsResponse(results=results)


HANDLER = Handler(
    AlterUserScramCredentialsRequest,
    alter_user_scram_credentials,
    refused=refused,
    forwarded=True,
    operation=AclOperation.ALTER,
)
