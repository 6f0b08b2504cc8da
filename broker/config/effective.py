"""The configuration in force: the node's file, the dynamic configs that override it, and the configs of topics."""

from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple, TypeVar

from broker.config.kafka_config import KafkaConfig
from broker.storage.log_config import LogConfig
from kraft import lazy_attrs
from kraft.env import Tracer
from metadata.configuration import GROUP_CONFIGS, TOPIC_CONFIGS, ConfigDef, InvalidConfig, unusable, usable
from metadata.configuration.synonyms import is_secret
from metadata.image import MetadataDelta, MetadataImage
from metadata.protocol import ConfigResourceType

T = TypeVar("T")

_ALL: Final = "*"


@lazy_attrs.frozen
class ThrottledReplicas:
    """The partitions of a topic that are throttled at this broker: all of them, or those in `indexes`."""

    are_all: bool = False
    indexes: frozenset[int] = frozenset()

    @classmethod
    def parse(cls, entries: Iterable[str], broker_id: int) -> "ThrottledReplicas":
        """Read a topic's list, which is `*` or consists of `partition:broker` pairs."""
        texts = [entry.strip() for entry in entries]
        if "".join(texts) == _ALL:
            return cls(are_all=True)
        pairs = [text.split(":") for text in texts if text]
        return cls(indexes=frozenset(int(index) for index, broker in pairs if int(broker) == broker_id))

    def __contains__(self, index: int) -> bool:
        return self.are_all or index in self.indexes


NO_REPLICAS = ThrottledReplicas()


@lazy_attrs.frozen
class TopicConfig:
    """The settings of a topic: those of its logs, and those that the leaders of its partitions use.

    Share groups may write to it as their dead-letter topic if it `takes_dead_letters`.
    """

    log: LogConfig
    min_insync_replicas: int
    throttled_as_leader: ThrottledReplicas = NO_REPLICAS
    throttled_as_follower: ThrottledReplicas = NO_REPLICAS
    takes_dead_letters: bool = False


@lazy_attrs.frozen
class DynamicConfigsIgnored:
    """The dynamic configs that this node ignores, by `dynamic.configs.ignored`: all, or those with these names."""

    are_all: bool
    names: frozenset[str]

    @classmethod
    def of(cls, config: KafkaConfig) -> "DynamicConfigsIgnored":
        names = config.dynamic_configs_ignored
        return cls(_ALL in names, frozenset(names))

    def without(self, configs: Mapping[str, T]) -> Mapping[str, T]:
        """The configs that are not ignored."""
        if self.are_all:
            return {}
        return {name: value for name, value in configs.items() if name not in self.names} if self.names else configs


class _Change(NamedTuple):
    """A new value of a dynamic config, of all brokers or of this one; None removes it."""

    per_broker: bool
    name: str
    text: str | None


class EffectiveConfig:
    """`config` is the configuration in force on this node now. Topics with the same configs share one TopicConfig.

    A config that cannot be applied never ends the node: its old value stays, or at the start its default, and an event
    names it. The others are applied. The controller refuses most of such values. They are in the metadata log if a
    controller of another release wrote them, or if they contradict this node's file.
    """

    def __init__(self, config: KafkaConfig, trace: Tracer) -> None:
        self.config = config
        self._trace = trace
        self._schema = config.schema()
        self._ignored = DynamicConfigsIgnored.of(config)
        self._topics: dict[tuple[tuple[str, str], ...], TopicConfig] = {}
        self._kept: dict[str, dict[str, str]] = {}  # of topics with unusable configs, the values that stay
        self._listeners: list[Callable[[KafkaConfig], None]] = []
        self._checks: list[Callable[[KafkaConfig], None]] = []
        self._reported: dict[_Change, None] = {}
        self._ignored_names: dict[bool, str] = {}

    def add_listener(
        self, listener: Callable[[KafkaConfig], None], check: Callable[[KafkaConfig], None] | None = None
    ) -> None:
        """Call `listener` with the new config after every change. It must not block.

        If it raises, the change is not applied, and it is called again with the config as it was. `check` raises
        InvalidConfig for a config that the listener would refuse, and changes nothing.
        """
        self._listeners.append(listener)
        if check is not None:
            self._checks.append(check)

    def check(self, changes: Mapping[str, str | None], *, per_broker: bool) -> None:
        """Check values that clients want to give to dynamic configs; None removes one.

        Raises InvalidConfig if this node could not apply them.
        """
        texts = {name: text for name, text in changes.items() if text is not None}
        self._schema.validate_broker_keys(texts, per_broker=per_broker)
        before = self.config
        layers: tuple[dict[str, str], ...] = (dict(before.layers.cluster), dict(before.layers.broker))
        for name, text in self._ignored.without(changes).items():
            _put(layers[per_broker], name, text)
        config = before.with_dynamic(*layers)
        for check in self._checks:
            check(config)

    def publish(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Apply changes of the dynamic configs of all brokers and of this one.

        A metadata publisher. It is registered before the publishers that read the config.
        """
        changed = delta.configs.changed
        for resource in changed:
            if resource.type == ConfigResourceType.TOPIC:
                self._keep_usable(resource.name, delta.configs.base.topic(resource.name), image)
            elif resource.type == ConfigResourceType.GROUP:
                self._report_unusable(f"group {resource.name}", GROUP_CONFIGS, image.configs.of(resource))
        if any(resource.type == ConfigResourceType.BROKER for resource in changed):
            self._apply(image)

    def topic(self, name: str, overrides: Mapping[str, str]) -> TopicConfig:
        """The config of the topic `name`, which sets `overrides`."""
        kept = self._kept.get(name)
        if kept is not None:
            overrides = kept
        key = tuple(sorted(overrides.items()))
        config = self._topics.get(key)
        if config is None:
            topic = self.config.topic(overrides)
            node_id = self.config.node_id
            config = self._topics[key] = TopicConfig(
                LogConfig.of(topic),
                topic.min_insync_replicas,
                ThrottledReplicas.parse(topic.leader_replication_throttled_replicas, node_id),
                ThrottledReplicas.parse(topic.follower_replication_throttled_replicas, node_id),
                topic.errors_deadletterqueue_group_enable,
            )
        return config

    def _keep_usable(self, topic: str, before: Mapping[str, str], image: MetadataImage) -> None:
        """Remember the values that stay in place of unusable ones."""
        before = self._kept.pop(topic, before)
        overrides = image.configs.topic(topic)
        if self._report_unusable(f"topic {topic}", TOPIC_CONFIGS, overrides):
            usable_before = usable(TOPIC_CONFIGS, before)
            kept = {name: text for name, text in usable_before.items() if name in overrides}
            self._kept[topic] = {**kept, **usable(TOPIC_CONFIGS, overrides)}

    def _report_unusable(self, resource: str, definition: ConfigDef, texts: Mapping[str, str]) -> bool:
        errors = unusable(definition, texts)
        for name, error in errors.items():
            self._report(resource, name, texts[name], error)
        return bool(errors)

    def _apply(self, image: MetadataImage) -> None:
        changes: list[_Change] = []
        refused: list[tuple[_Change, Exception]] = []
        for per_broker, before, wanted in (
            (False, self.config.layers.cluster, image.configs.all_brokers()),
            (True, self.config.layers.broker, image.configs.broker(self.config.node_id)),
        ):
            used = self._ignored.without(wanted)
            self._report_ignored(per_broker, [name for name in wanted if name not in used])
            for name in {**before, **used}:
                change = _Change(per_broker, name, used.get(name))
                if change.text == before.get(name):
                    continue
                invalid = self._error(change)
                if invalid is None:
                    changes.append(change)
                else:
                    refused.append((change, invalid))
        refused += self._apply_changes(changes)
        reported, self._reported = self._reported, {change: None for change, _ in refused}
        for change, error in refused:
            if change not in reported:
                self._report(self._resource(change.per_broker), change.name, change.text, error)

    def _resource(self, per_broker: bool) -> str:
        return f"broker {self.config.node_id}" if per_broker else "broker default"

    def _report_ignored(self, per_broker: bool, names: list[str]) -> None:
        text = " ".join(sorted(names))
        if text != self._ignored_names.get(per_broker, ""):
            self._ignored_names[per_broker] = text
            if text:
                self._trace("dynamic_configs_ignored", resource=self._resource(per_broker), configs=text)

    def _error(self, change: _Change) -> InvalidConfig | None:
        """The reason for which the value is invalid by itself."""
        if change.text is not None:
            try:
                self._schema.validate_broker_keys({change.name: change.text}, per_broker=change.per_broker)
            except InvalidConfig as error:
                return error
        return None

    def _apply_changes(self, changes: list[_Change]) -> list[tuple[_Change, Exception]]:
        """Apply as many changes as possible; returns the others. One may be possible only after another."""
        refused = self._apply_halves(changes)
        while refused:
            again = self._apply_halves([change for change, _ in refused])
            if len(again) == len(refused):
                break
            refused = again
        return refused

    def _apply_halves(self, changes: list[_Change]) -> list[tuple[_Change, Exception]]:
        """Apply the changes together, or else each half by itself: most often one of many cannot be applied."""
        error = self._try(changes) if changes else None
        if error is None:
            return []
        if len(changes) == 1:
            return [(changes[0], error)]
        middle = len(changes) // 2
        return self._apply_halves(changes[:middle]) + self._apply_halves(changes[middle:])

    def _try(self, changes: list[_Change]) -> Exception | None:
        """Apply all changes, or none: returns the error then."""
        before = self.config
        layers: tuple[dict[str, str], ...] = (dict(before.layers.cluster), dict(before.layers.broker))
        for per_broker, name, text in changes:
            _put(layers[per_broker], name, text)
        try:
            self._put_in_force(before.with_dynamic(*layers))
        except Exception as error:  # noqa: BLE001 - a value that some part of the node cannot take must not end it
            self._put_in_force(before)
            return error
        return None

    def _put_in_force(self, config: KafkaConfig) -> None:
        self._topics.clear()
        self.config = config
        for listener in self._listeners:
            listener(config)

    def _report(self, resource: str, name: str, text: str | None, error: Exception) -> None:
        self._trace(
            "dynamic_config_refused",
            resource=resource,
            config=name,
            value="removed" if text is None else "[hidden]" if is_secret(name) else text,
            error=str(error) if isinstance(error, InvalidConfig) else repr(error),
        )


def _put(layer: dict[str, str], name: str, text: str | None) -> None:
    if text is None:
        layer.pop(name, None)
    else:
        layer[name] = text
