"""The exceptions of clients, and the classification of the protocol's error codes (Errors.java, KIP-1050)."""

from copy import copy

from broker.client.error_explanations import EXPLANATIONS
from broker.printable import printable
from metadata.protocol import RETRIABLE, STALE_COORDINATOR, STALE_METADATA, ErrorCode, KafkaError

__all__ = [
    "AuthenticationFailed",
    "ClientError",
    "ClientFailed",
    "ClosedError",
    "ConfigError",
    "ConnectionLost",
    "KafkaError",
    "MismatchedEndpointType",
    "ProducerFailed",
    "ProducerFenced",
    "TimedOut",
    "TransactionAbortable",
    "TransactionAborted",
    "TransactionError",
    "TransactionStateError",
    "UnsupportedByBroker",
    "WrongValue",
    "check",
    "copy_to_raise",
    "is_retriable",
    "is_stale_coordinator",
    "is_stale_metadata",
]


class ClientError(Exception):
    """The base class of a client's own errors. The message says what can be done about it.

    `retriable` is True if the same call may succeed later without a change.
    """

    retriable = False


class ConnectionLost(ClientError):
    """The connection broke, or a response was overdue: the broker may or may not have executed the request."""

    retriable = True


class MismatchedEndpointType(ConnectionLost):
    """The bootstrap servers are controllers, which serve no clients (KIP-919). Nothing was sent.

    A retry does not help: the client needs the address of a broker, or an Admin with `bootstrap_controllers`.
    """

    retriable = False


class AuthenticationFailed(ConnectionLost):
    """The broker refuses this client, or cannot prove who it is: a certificate, or credentials. Nothing was sent.

    A retry does not help: the client needs other credentials, other trusted authorities, or another port.
    """

    retriable = False


class TimedOut(ClientError):
    """A call did not succeed in time. `__cause__` is the last failure, if there was one."""

    retriable = True


class UnsupportedByBroker(ClientError):
    """The broker does not serve an API, a version of it, or a field that the call needs."""


class ConfigError(ClientError, ValueError):
    """A config key that does not exist or does not apply to this client, or a value that is out of range."""


class WrongValue(ClientError, ValueError):
    """An argument of the right type that is out of range, or that the protocol cannot carry. Nothing was sent."""


class ClosedError(ClientError):
    """The client is closed; a new one is needed."""


class ClientFailed(ClosedError):
    """A task of the client failed: `__cause__` is its error, of a callback of the application, or of this library.

    The client is closed. Other clients of the process are not concerned.
    """


class TransactionError(ClientError):
    """The base class of what transactions raise; `__cause__` is what went wrong, often a KafkaError."""


class TransactionStateError(TransactionError):
    """The call does not fit the state of the transaction, and has changed nothing."""


class TransactionAbortable(TransactionError):
    """The transaction can only be aborted; after that the producer can begin another one."""


class TransactionAborted(TransactionError):
    """The record is not written, or never visible to read_committed consumers: its transaction was aborted."""


class ProducerFailed(TransactionError):
    """The transactional producer cannot go on. Close it and open another one, which ends the open transaction."""


class ProducerFenced(ProducerFailed):
    """A newer producer with the same transactional id has begun, or the coordinator has aborted the transaction."""


def is_retriable(code: int) -> bool:
    """True if the same request may succeed later (Kafka's RetriableException)."""
    return code in RETRIABLE


def is_stale_metadata(code: int) -> bool:
    """True if the client's metadata is out of date (Kafka's InvalidMetadataException): refresh it before retrying."""
    return code in STALE_METADATA


def is_stale_coordinator(code: int) -> bool:
    """True if the coordinator has to be looked up again before retrying."""
    return code in STALE_COORDINATOR


def copy_to_raise(error: Exception) -> Exception:
    """A copy of an error that is raised several times: each raise adds its traceback to what it raises."""
    copied = copy(error)
    copied.__cause__ = error.__cause__
    return copied


def check(code: int, message: str | None = None) -> None:
    """Raises KafkaError if `code` is not NONE; without a message of the broker it carries an explanation of ours.

    A code from a newer broker is reported as UNKNOWN_SERVER_ERROR.
    """
    if code == ErrorCode.NONE:
        return
    try:
        known = ErrorCode(code)
    except ValueError:
        known = ErrorCode.UNKNOWN_SERVER_ERROR
        message = f"error code {code}, which this client does not know: {message or ''}"
    # The message ends up in logs and on terminals of applications, too.
    raise KafkaError(known, printable(message or "") or EXPLANATIONS.get(known, ""))
