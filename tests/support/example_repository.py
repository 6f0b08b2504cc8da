"""The repositories of documents such as docs/testing-examples.md. Python blocks begin with the name of their file.

python -m tests.support.example_repository DIRECTORY [DOCUMENT]
"""

import sys
from pathlib import Path

from tests.support.document_examples import examples

_DOCUMENT = "docs/testing-examples.md"
SIMULATION = "docs/testing-simulation.md"


def write_repository(directory: Path, document: str = _DOCUMENT) -> None:
    """Write the files of the repository. Blocks without a name are no files."""
    for _, code, _ in examples(document):
        first = code.partition("\n")[0]
        if first.startswith("# ") and first.endswith(".py"):
            path = directory / first.removeprefix("# ")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(code)


if __name__ == "__main__":
    write_repository(Path(sys.argv[1]), *sys.argv[2:])
