"""The client's request that causes a decision of the controller or of a coordinator."""

from collections.abc import Callable
from typing import Final, Protocol, TypeAlias

# The limit of characters of a client id in an event.
_CLIENT_ID_MAX: Final = 100


class RequestContext(Protocol):
    """A request's origin and deadline; see Kafka's ControllerRequestContext and AuthorizableRequestContext.

    Decisions may use it in addition to the state, for authorization and for quotas on changes. Events name it as the
    cause of a decision. `client_host` is an address. `deadline` is a time of Trio's clock, inf if the client set no
    timeout. The client does not wait for a later decision.
    """

    @property
    def principal(self) -> str: ...
    @property
    def client_host(self) -> str: ...
    @property
    def client_id(self) -> str | None: ...
    @property
    def api_name(self) -> str: ...
    @property
    def api_version(self) -> int: ...
    @property
    def correlation_id(self) -> int: ...
    @property
    def deadline(self) -> float: ...
    @property
    def topic_filter(self) -> Callable[[str], bool] | None:
        """True for the names of topics that the client may describe; None if it may describe all."""
        ...

    def charge_mutations(self, count: int) -> None:
        """Charge the client for `count` partitions that are created or deleted (KIP-599).

        Raises KafkaError THROTTLING_QUOTA_EXCEEDED if the client has to repeat the request later.
        """
        ...


# None if the node itself makes the request, or a broker that is identified by its epoch.
Requester: TypeAlias = RequestContext | None


def charge_mutations(context: Requester, count: int) -> None:
    """Charge the client, if there is one, see `RequestContext.charge_mutations`."""
    if context is not None:
        context.charge_mutations(count)


def cause_of(api_name: str, context: Requester) -> str:
    """The request as text for events. A client id is arbitrary text, so it is quoted and truncated."""
    if context is None:
        return api_name
    client = f"client {context.client_id[:_CLIENT_ID_MAX]!r}" if context.client_id else "a client"
    return f"{api_name} of {context.principal}, {client} at {context.client_host}"
