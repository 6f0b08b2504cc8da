"""Directory ids that can be read."""

_CHARACTERS = 22


def directory_id(name: str) -> str:
    """The text of a UUID that begins with `name`."""
    return name.ljust(_CHARACTERS, "A")
