"""A node whose clock is wrong: `python -m tests.support.shifted_clock SECONDS start ...` runs `kraft start ...`."""

import sys
import time
from typing import Never


def _main() -> Never:
    shift_s, *arguments = sys.argv[1:]
    seconds, nanoseconds = time.time, time.time_ns
    time.time = lambda: seconds() + int(shift_s)
    time.time_ns = lambda: nanoseconds() + int(shift_s) * 10**9
    # Only now, as modules may keep the functions.
    import broker.cli

    sys.argv = ["kraft", *arguments]
    sys.exit(broker.cli.main())


if __name__ == "__main__":
    _main()
