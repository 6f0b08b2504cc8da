"""Writes the references that have several pages: those of the commands and of the client library."""

from broker.cli.grammar import reference as commands
from tests.support import client_reference
from tests.support.source_code import ROOT


def main() -> None:
    for place, text in {**commands.reference(), **client_reference.reference()}.items():
        path = ROOT / "docs" / place
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)


if __name__ == "__main__":
    main()
