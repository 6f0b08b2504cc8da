"""`python -m broker.cli`: the `kraft` command, for who has an interpreter rather than a path."""

import sys

from broker.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
