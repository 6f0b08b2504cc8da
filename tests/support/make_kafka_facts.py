"""Writes `tests/kafka_facts` from Apache Kafka's own jars: `make kafka-facts`, or `KAFKA=4.5.0` for another release.

It fetches the jars from Maven Central, compiles the programs beside the facts with them, and asks a broker of that
release which values its configs accept, which takes a minute or two. Needs a JDK and mvn. `make kafka-facts ARGS=apis`
writes only the files that are named.
"""

import csv
import re
import subprocess
import sys
from typing import Final

from benchmarks import apache_kafka
from tests.support import config_values, kafka_facts

SHARE_STATE: Final = "share_state"
# The files that KafkaFacts.java and ShareStateFacts.java print.
PRINTED: Final = ("apis", "configs", "errors", "features", "messages", SHARE_STATE, "throttle_times")
CONFIG_VALUES: Final = "config_values"


def printed(kind: str) -> str:
    """The file `kind`, as the jars have it."""
    program = "ShareStateFacts.java" if kind == SHARE_STATE else "KafkaFacts.java"
    line = [*apache_kafka.java(str(kafka_facts.DIRECTORY / program)), kind]
    text = subprocess.run(line, stdout=subprocess.PIPE, text=True, check=True, timeout=300).stdout
    if kind != SHARE_STATE:
        return text
    # Kafka logs some refusals to standard output.
    return "".join(line for line in text.splitlines(keepends=True) if re.match(r"(sequence|\d),", line))


def main(kinds: list[str]) -> None:
    """Write these files, or all. `config_values` comes last, because it asks about the configs in `configs`."""
    known = (*PRINTED, CONFIG_VALUES)
    if unknown := [kind for kind in kinds if kind not in known]:
        sys.exit(f"There is no {unknown[0]}: the files are {', '.join(known)}")
    for kind in (each for each in known if not kinds or each in kinds):
        if kind == CONFIG_VALUES:
            with config_values.FILE.open("w", newline="") as output:
                csv.writer(output, lineterminator="\n").writerows(config_values.lines(config_values.kafka_rows()))
        else:
            (kafka_facts.DIRECTORY / f"{kind}.csv").write_text(printed(kind))
        print(f"{kind}: as in Apache Kafka {apache_kafka.KAFKA_VERSION}")


if __name__ == "__main__":
    main(sys.argv[1:])
