"""The repository of docs/testing-examples.md. Its Python blocks begin with the name of their file.

python -m tests.support.example_repository DIRECTORY
"""

import sys
from pathlib import Path

from tests.support.document_examples import examples

_DOCUMENT = "docs/testing-examples.md"


def write_repository(directory: Path) -> None:
    """Write the files of the repository."""
    for _, code, _ in examples(_DOCUMENT):
        path = directory / code.partition("\n")[0].removeprefix("# ")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(code)


if __name__ == "__main__":
    write_repository(Path(sys.argv[1]))
