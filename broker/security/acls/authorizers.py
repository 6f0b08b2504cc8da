"""Finds the authorizer that `authorizer.class.name` names."""

from collections.abc import Callable
from importlib import import_module
from typing import Any, Final

from broker.config import KafkaConfig
from broker.security.acls.standard_authorizer import StandardAuthorizer
from broker.server.authorizer import Authorizer
from metadata.configuration import InvalidConfig

# The name of Kafka's class, which files for Kafka have.
STANDARD_AUTHORIZER: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


def find_authorizer(config: KafkaConfig) -> Authorizer | None:
    """A new authorizer; None if the config names none: everything is allowed.

    Raises InvalidConfig for a name that is neither STANDARD_AUTHORIZER nor `module:Class` of a class in Python, which
    is called with the texts of the node's file and returns an `Authorizer`.
    """
    name = config.authorizer_class_name
    if not name:
        return None
    if name == STANDARD_AUTHORIZER:
        return StandardAuthorizer(
            _super_users(config.super_users), allows_without_acls=config.allow_everyone_if_no_acl_found
        )
    module, colon, attribute = name.partition(":")
    if not colon:
        raise InvalidConfig(
            f"authorizer.class.name can be {STANDARD_AUTHORIZER}, or module:Class of a class in Python, and not {name}"
        )
    made = _load(name, module, attribute)
    try:
        authorizer: Authorizer = made(dict(config.layers.static))
    except Exception as error:
        raise InvalidConfig(f"authorizer.class.name={name} makes no authorizer: {error!r}") from error
    return authorizer


def _load(name: str, module: str, attribute: str) -> Callable[[dict[str, str]], Any]:
    try:
        made: Callable[[dict[str, str]], Any] = getattr(import_module(module), attribute)
        return made
    except (ImportError, AttributeError, ValueError) as error:
        raise InvalidConfig(f"authorizer.class.name={name} cannot be loaded: {error}") from error


def _super_users(text: str) -> list[str]:
    """The principals in `super.users`, separated by semicolons. Raises InvalidConfig."""
    principals = [principal for each in text.split(";") if (principal := each.strip())]
    for principal in principals:
        if not all(principal.partition(":")):
            raise InvalidConfig(
                f"super.users: expected a string in format principalType:principalName but got {principal}"
            )
    return principals
