"""`python -m broker.cli`: the `kraft` command, for callers that have an interpreter rather than a PATH."""

import sys

from broker.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
