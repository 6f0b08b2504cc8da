"""The base class of recorded clients, which stand in for an application's client."""

from typing import Any


class RecordedClient:
    """A client whose calls go to another one. `isinstance` takes it for that one.

    Derived classes have the methods that are recorded. All other attributes are those of the client.
    """

    def __init__(self, client: Any) -> None:
        self._recorded_client = client

    @property  # type: ignore[misc]
    def __class__(self) -> type[Any]:
        return type(self._recorded_client)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._recorded_client, name)

    def __repr__(self) -> str:
        return f"<recorded {self._recorded_client!r}>"

    def __bool__(self) -> bool:
        return bool(self._recorded_client)
