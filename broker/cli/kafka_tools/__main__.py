"""`python -m broker.cli.kafka_tools TOOL OPTION...`: what the launchers run."""

import sys

from broker.cli.kafka_tools.tools import main

sys.exit(main(sys.argv[1:]))
