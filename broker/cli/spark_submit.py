"""`kraft spark ...` as a script for Spark's launcher: `spark-submit $(kraft spark script) load orders --to DIR`.

The commands are the same. The cluster that runs the job, and its Java, are those of spark-submit.
"""

import sys

from broker.cli.main import main

if __name__ == "__main__":
    raise SystemExit(main(["spark", *sys.argv[1:]]))
