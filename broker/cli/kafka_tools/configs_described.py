"""The output of kafka-configs --describe."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from broker.cli.kafka_tools.errors import message_of
from broker.cli.printing import print_text
from broker.client.admin import (
    Admin,
    ClientQuota,
    ConfigEntry,
    ConfigResource,
    ConfigResourceType,
    ConfigSource,
    QuotaMatch,
    ScramCredential,
)
from broker.client.errors import UnsupportedByBroker
from broker.printable import printable
from broker.wire.errors import ErrorCode, KafkaError

# The names of resource types in kafka-configs, and in the protocol.
RESOURCE_TYPES: Final = {
    "topics": ConfigResourceType.TOPIC,
    "brokers": ConfigResourceType.BROKER,
    "broker-loggers": ConfigResourceType.BROKER_LOGGER,
    "client-metrics": ConfigResourceType.CLIENT_METRICS,
    "groups": ConfigResourceType.GROUP,
}
# The sources as Kafka's admin client names them.
_SOURCES: Final[Mapping[ConfigSource, str]] = {
    ConfigSource.TOPIC: "DYNAMIC_TOPIC_CONFIG",
    ConfigSource.BROKER: "DYNAMIC_BROKER_CONFIG",
    ConfigSource.DEFAULT_BROKER: "DYNAMIC_DEFAULT_BROKER_CONFIG",
    ConfigSource.STATIC_BROKER: "STATIC_BROKER_CONFIG",
    ConfigSource.DEFAULT: "DEFAULT_CONFIG",
    ConfigSource.BROKER_LOGGER: "DYNAMIC_BROKER_LOGGER_CONFIG",
    ConfigSource.CLIENT_METRICS: "DYNAMIC_CLIENT_METRICS_CONFIG",
    ConfigSource.GROUP: "DYNAMIC_GROUP_CONFIG",
}
# Without --all, only configs of this source are shown; of loggers all.
_DYNAMIC: Final = {
    "topics": ConfigSource.TOPIC,
    "brokers": ConfigSource.BROKER,
    "client-metrics": ConfigSource.CLIENT_METRICS,
    "groups": ConfigSource.GROUP,
}
QUOTA_TYPES: Final = {"users": "user", "clients": "client-id", "ips": "ip"}
_SHOWN_QUOTA_TYPES: Final = {"user": "user-principal", "client-id": "client-id", "ip": "ip"}


async def describe_configs(admin: Admin, types: Sequence[str], names: Sequence[str], *, has_all: bool) -> None:
    """Prints the configs of one entity, or of all of a type where there is no name. Raises KafkaError, ClientError."""
    kind = types[0]
    if kind in QUOTA_TYPES:
        await _describe_quotas(admin, types, names)
        return
    if names and not has_all and names[0] and names[0] not in await _existing(admin, kind):
        print_text(f"The {kind[:-1]} '{printable(names[0])}' doesn't exist and doesn't have dynamic config.")
        return
    entities = list(names[:1])
    if not names:
        entities = [*await _existing(admin, kind), *([""] if kind in ("brokers", "broker-loggers") else [])]
    for name in entities:
        await _describe(admin, kind, name, has_all)


async def _describe(admin: Admin, kind: str, name: str, has_all: bool) -> None:
    if name:
        print_text(f"{'All' if has_all else 'Dynamic'} configs for {kind[:-1]} {printable(name)} are:")
    else:
        print_text(f"Default configs for {kind} in the cluster are:")
    resource = ConfigResource(RESOURCE_TYPES[kind], name)
    entries = (await admin.describe_configs([resource], include_synonyms=True)).value(resource)
    source = _DYNAMIC.get(kind)
    if kind == "brokers" and not name:
        source = ConfigSource.DEFAULT_BROKER
    for key in sorted(entries):
        if has_all or source is None or entries[key].source == source:
            print_text(_line(entries[key]))


def _line(entry: ConfigEntry) -> str:
    synonyms = ", ".join(
        f"{_SOURCES.get(each.source, each.source.name)}:{each.name}={_shown(each.value)}" for each in entry.synonyms
    )
    sensitive = str(entry.is_sensitive).lower()
    return printable(f"  {entry.name}={_shown(entry.value)} sensitive={sensitive} synonyms={{{synonyms}}}")


async def _existing(admin: Admin, kind: str) -> list[str]:
    """The names of all entities of a type."""
    match kind:
        case "topics":
            return [topic.name for topic in await admin.list_topics(include_internal=True)]
        case "brokers" | "broker-loggers":
            return [str(node.id) for node in (await admin.describe_cluster()).nodes]
        case "groups":
            listed = (await admin.list_groups()).raise_first()
            groups = [group.group_id for of_broker in listed.values() for group in of_broker]
            return list(dict.fromkeys([*groups, *await _configured(admin, ConfigResourceType.GROUP)]))
        case _:
            return await _configured(admin, RESOURCE_TYPES[kind])


async def _configured(admin: Admin, kind: ConfigResourceType) -> list[str]:
    """The resources with configs; none where the brokers cannot list them, or may not (KIP-1142)."""
    try:
        return [resource.name for resource in await admin.list_config_resources([kind])]
    except UnsupportedByBroker:
        return []
    except KafkaError as error:
        if error.code != ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
            raise
        return []


async def _describe_quotas(admin: Admin, types: Sequence[str], names: Sequence[str]) -> None:
    matches: dict[str, str | QuotaMatch] = {}
    for index, kind in enumerate(types):
        name = names[index] if index < len(names) else QuotaMatch.ANY
        matches[QUOTA_TYPES[kind]] = QuotaMatch.DEFAULT if name == "" else name
    for quota in await admin.describe_client_quotas(matches, strict=True):
        print_text(_quota_line(quota))
    if "clients" in types or "ips" in types or "" in names:
        return
    credentials = await admin.describe_user_scram_credentials(names or None)
    for name, outcome in credentials.items():
        user = printable(name)
        if isinstance(outcome, KafkaError) and outcome.code == ErrorCode.RESOURCE_NOT_FOUND:
            continue
        if isinstance(outcome, Exception):
            print_text(f"Error retrieving SCRAM credential configs for user-principal '{user}': {message_of(outcome)}")
        else:
            print_text(f"SCRAM credential configs for user-principal '{user}' are {_credentials(outcome)}")


def _quota_line(quota: ClientQuota) -> str:
    entities = ", ".join(
        f"the default {shown}" if quota.entity[kind] is None else f"{shown} '{quota.entity[kind]}'"
        for kind, shown in _SHOWN_QUOTA_TYPES.items()
        if kind in quota.entity
    )
    values = ", ".join(f"{key}={value}" for key, value in quota.values.items())
    return printable(f"Quota configs for {entities} are {values}")


def _credentials(credentials: Iterable[ScramCredential]) -> str:
    return ", ".join(f"{each.mechanism.name.replace('_', '-')}=iterations={each.iterations}" for each in credentials)


def _shown(value: str | None) -> str:
    return "null" if value is None else value
