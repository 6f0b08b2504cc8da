"""`python -m broker.cli.kafka_tools TOOL OPTION...`: what the launchers run."""

import sys

from broker.cli.kafka_tools.tools import main
from broker.cli.printing import print_exception

sys.excepthook = print_exception
sys.exit(main(sys.argv[1:]))
