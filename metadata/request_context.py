"""The client's request that a decision of the controller or of a coordinator is made for."""

from typing import Final, Protocol, TypeAlias

# Characters of a client id in an event.
_CLIENT_ID_MAX: Final = 100


class RequestContext(Protocol):
    """A request's origin and deadline; see Kafka's ControllerRequestContext and AuthorizableRequestContext.

    Deciding functions may get it in addition to the state, for authorization and for quotas on changes. Events of what
    was decided name it as the cause. `client_host` is an address. `deadline` is of Trio's clock, inf if the client set
    no timeout: the client does not wait for a decision that is made later.
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


# None if the node asks for itself, or a broker that is known by its epoch.
Requester: TypeAlias = RequestContext | None


def cause_of(api_name: str, context: Requester) -> str:
    """The request in words, for the events of what was decided. A client id is any text, so it is quoted and cut."""
    if context is None:
        return api_name
    client = f"client {context.client_id[:_CLIENT_ID_MAX]!r}" if context.client_id else "a client"
    return f"{api_name} of {context.principal}, {client} at {context.client_host}"
