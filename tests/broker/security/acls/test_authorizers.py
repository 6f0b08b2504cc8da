"""`authorizer.class.name` names the authorizer of Kafka, or a class in Python."""

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from broker.security.acls import STANDARD_AUTHORIZER, StandardAuthorizer, find_authorizer
from broker.server.session import Session
from broker.server.shortcut_tables import ShortcutTables
from metadata.configuration import InvalidConfig
from metadata.protocol import AclOperation, ResourceType
from tests.support.running_node import node_config


class OwnAuthorizer:
    """Allows everything to the user that the node's file names."""

    uses_acls = False

    def __init__(self, properties: Mapping[str, str]) -> None:
        self._user = properties["own.user"]

    def allows(self, session: Session, operation: AclOperation, kind: ResourceType, name: str) -> bool:
        return session.principal == self._user

    def allows_any(self, session: Session, operation: AclOperation, kind: ResourceType) -> bool:
        return session.principal == self._user

    def when_changed(self, callback: Callable[[], None]) -> None:
        """Decisions never change."""


class FailingAuthorizer(OwnAuthorizer):
    """Fails to decide on replicas of the quorum, and on other nodes."""

    def allows(self, session: Session, operation: AclOperation, kind: ResourceType, name: str) -> bool:
        if operation is AclOperation.CLUSTER_ACTION:
            raise ZeroDivisionError
        return super().allows(session, operation, kind, name)


def session(principal: str) -> Session:
    return Session.authenticated(principal, "10.0.0.1", "PLAINTEXT", ShortcutTables())


def test_no_authorizer_by_default(tmp_path: Path) -> None:
    assert find_authorizer(node_config(tmp_path)) is None


def test_standard_authorizer_has_the_super_users_of_the_config(tmp_path: Path) -> None:
    config = node_config(
        tmp_path, authorizer_class_name=STANDARD_AUTHORIZER, super_users=" User:admin ;;User:CN=broker,O=a "
    )
    authorizer = find_authorizer(config)
    assert isinstance(authorizer, StandardAuthorizer)
    for principal in ("User:admin", "User:CN=broker,O=a"):
        assert authorizer.allows(session(principal), AclOperation.ALTER, ResourceType.CLUSTER, "kafka-cluster")


def test_class_in_python_gets_the_texts_of_the_file(tmp_path: Path) -> None:
    named = f"{__name__}:OwnAuthorizer"
    authorizer = find_authorizer(node_config(tmp_path, authorizer_class_name=named, own_user="User:me"))
    assert authorizer is not None
    assert authorizer.allows(session("User:me"), AclOperation.READ, ResourceType.TOPIC, "t")
    assert not authorizer.allows(session("User:you"), AclOperation.READ, ResourceType.TOPIC, "t")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"authorizer_class_name": "org.example.Authorizer"},
            f"authorizer.class.name can be {STANDARD_AUTHORIZER}, or module:Class of a class in Python, and not "
            "org.example.Authorizer",
        ),
        ({"authorizer_class_name": "no_module:X"}, "authorizer.class.name=no_module:X cannot be loaded: "),
        ({"authorizer_class_name": "json:Absent"}, "authorizer.class.name=json:Absent cannot be loaded: "),
        ({"authorizer_class_name": "os:sep"}, "authorizer.class.name=os:sep makes no authorizer: TypeError"),
        (
            {"authorizer_class_name": f"{__name__}:OwnAuthorizer"},
            f"authorizer.class.name={__name__}:OwnAuthorizer makes no authorizer: KeyError('own.user')",
        ),
        (
            {"authorizer_class_name": STANDARD_AUTHORIZER, "super_users": "User:a;bob"},
            "super.users: expected a string in format principalType:principalName but got bob",
        ),
    ],
)
def test_names_of_no_authorizer_are_refused(tmp_path: Path, settings: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidConfig) as refused:
        find_authorizer(node_config(tmp_path, **settings))
    assert refused.value.message.startswith(message)
