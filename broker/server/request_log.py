"""Logs the requests of some clients, or about some topics, while an operator asks for it.

`request.log.client.ids` and `request.log.topics` name them, and can be changed while the node runs. A line has the
request's header and size, and no content of records. The log bounds the lines of a minute (`EventPrinter`). While the
log is on, requests take no shortcut, because only a decoded request shows its topics.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final

from broker.server.context import Context, Message
from broker.wire.api import APIS
from broker.wire.uuids import ZERO_UUID
from kraft import lazy_attrs
from metadata.image import MetadataImage

# The fields of requests with topics, or with structs that have such fields.
_LISTS: Final = ("topics", "topic_data", "topic_names", "v3_and_below_topics", "groups", "transactions")
_NAMES: Final = ("name", "topic", "topic_name")
# Matching topics that a line names.
_TOPICS_MAX: Final = 10


@lazy_attrs.frozen
class RequestLog:
    """The clients and topics whose requests are logged. A request that matches either of them is."""

    client_ids: frozenset[str]
    topics: frozenset[str]

    @classmethod
    def of(cls, client_ids: Iterable[str], topics: Iterable[str]) -> "RequestLog | None":
        """The log; None if it is off."""
        log = cls(frozenset(filter(None, client_ids)), frozenset(filter(None, topics)))
        return log if log.client_ids or log.topics else None

    def log(self, context: Context[Any], request: Message) -> None:
        """Log a request that was decoded, if it matches."""
        topics = self._matching(context.services.loader.image, request) if self.topics else []
        if not topics and context.client_id not in self.client_ids:
            return
        session = context.session
        context.services.env.trace(
            "request_logged",
            api=APIS[context.codec.api_key].name,
            version=context.api_version,
            correlation_id=context.correlation_id,
            client=context.client_id,
            software=" ".join(session.client_software),
            principal=session.principal,
            peer=session.client_host,
            listener=session.listener,
            bytes=context.request_bytes,
            topics=topics,
        )

    def _matching(self, image: MetadataImage, request: Message) -> list[str]:
        found = dict.fromkeys(name for name in _topics(image, request) if name in self.topics)
        return list(found)[:_TOPICS_MAX]


def _topics(image: MetadataImage, struct: Any) -> Iterator[str]:
    """The topics that a request names, directly or by id."""
    for list_name in _LISTS:
        for element in getattr(struct, list_name, None) or ():
            if isinstance(element, str):
                yield element
                continue
            for field in _NAMES:
                if name := getattr(element, field, None):
                    yield name
            topic_id = getattr(element, "topic_id", ZERO_UUID)
            if topic_id != ZERO_UUID and (topic := image.topics.by_id.get(topic_id)) is not None:
                yield topic.name
            yield from _topics(image, element)
