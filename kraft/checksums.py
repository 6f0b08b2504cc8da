"""CRC-32C, from the extension module of the package crc32c."""

from collections.abc import Callable
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from crc32c import crc32c as crc32c

_EXTENSION: Final = "_crc32c"


def _load() -> Callable[..., int]:
    """Load the extension module without the package around it.

    The package reads its own version from its metadata when it is imported. That imports a parser for e-mails and one
    for command lines, which would take 15 ms of the CPU time of each start, and 2 MB.
    """
    package = PathFinder.find_spec("crc32c")
    places = None if package is None else package.submodule_search_locations
    spec = None if places is None else PathFinder.find_spec(_EXTENSION, list(places))
    if spec is None or spec.loader is None:  # another release of the package may be divided in another way
        import crc32c as whole

        return whole.crc32c
    extension: Any = module_from_spec(spec)
    spec.loader.exec_module(extension)
    return extension.crc32c  # type: ignore[no-any-return]


if not TYPE_CHECKING:
    crc32c = _load()
