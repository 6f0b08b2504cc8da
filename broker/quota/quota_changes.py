"""The changes of quotas that a node can apply."""

from collections.abc import Collection, Mapping
from typing import Final, TypeAlias

from kraft.env import Tracer
from metadata.controller import check_quota
from metadata.image import MetadataDelta, MetadataImage
from metadata.protocol import KafkaError
from metadata.records import QuotaEntity

QuotaChanges: TypeAlias = Mapping[QuotaEntity, Mapping[str, float | None]]

# In `dynamic.configs.ignored`: all quotas.
_ALL: Final = "*"


def usable_changes(changed: QuotaChanges, ignored: Collection[str] = ()) -> QuotaChanges:
    """The changes that can be applied. After an invalid one the quota stays as it was; a removal is always valid.

    `ignored` are the keys of quotas that this node ignores (`dynamic.configs.ignored`), or *.
    """
    return {
        entity: {
            key: value
            for key, value in quotas.items()
            if not (key in ignored or _ALL in ignored) and (value is None or _error(entity, key, value) is None)
        }
        for entity, quotas in changed.items()
    }


class UnusableQuotas:
    """Traces the quotas that cannot be applied. A metadata publisher.

    The controller refuses them. They are in the metadata log if a controller of another release wrote them.
    """

    def __init__(self, trace: Tracer) -> None:
        self._trace = trace

    def publish(self, delta: MetadataDelta, image: MetadataImage) -> None:
        for entity, quotas in delta.client_quotas.changed.items():
            for key, value in quotas.items():
                error = None if value is None else _error(entity, key, value)
                if error is not None:
                    named = ", ".join(f"{kind} {'default' if name is None else name}" for kind, name in entity)
                    self._trace("quota_refused", entity=named, key=key, value=str(value), error=error)


def _error(entity: QuotaEntity, key: str, value: float) -> str | None:
    try:
        check_quota(entity, key, value)
    except KafkaError as error:
        return error.message
    return None
