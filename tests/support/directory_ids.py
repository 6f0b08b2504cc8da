"""Directory ids that are readable."""

_CHARACTERS = 22


def directory_id(name: str) -> str:
    """A UUID as text that begins with `name`."""
    return name.ljust(_CHARACTERS, "A")
