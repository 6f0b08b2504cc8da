"""Writes the references of the commands, the client library and the control port of test clusters."""

from broker.cli.grammar import reference as commands
from jepsen.testing import openapi
from jepsen.testing.control_routes import ROUTES
from tests.support import client_reference
from tests.support.source_code import ROOT


def main() -> None:
    pages = {**commands.reference(), **client_reference.reference(), "testing-api.json": openapi.text(ROUTES)}
    for place, text in pages.items():
        path = ROOT / "docs" / place
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)


if __name__ == "__main__":
    main()
