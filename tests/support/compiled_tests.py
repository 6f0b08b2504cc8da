"""Divides the compilation of the test modules among the processes of a run.

pytest rewrites the assertions of a test module when it compiles it. Each process imports all test modules. In a clone
without compiled ones, all processes would rewrite each module at the same time.
"""

from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path

from _pytest.outcomes import Skipped

from tests.support.source_code import ROOT


def import_share(arguments: Sequence[str], number: int, count: int) -> list[str]:
    """Import every `count`-th test module from `number` on, of those that the arguments of pytest name.

    The processes import the others afterwards, in the order of collection, when another process has compiled them.
    Returns the names of the modules. One that cannot be imported is left to the collection, which reports it.
    """
    files: set[Path] = set()
    for argument in arguments:
        path = ROOT / argument.partition("::")[0]
        files.update(path.rglob("test_*.py") if path.is_dir() else [path])
    share = [".".join(file.relative_to(ROOT).with_suffix("").parts) for file in sorted(files)[number::count]]
    for name in share:
        with suppress(Exception, Skipped):
            import_module(name)
    return share
