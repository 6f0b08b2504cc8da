"""Apache Kafka's own tools, run on data that this project wrote.

    python -m benchmarks.kafka_tools dump-log DIR     Kafka's kafka-dump-log over every segment and index below DIR

The exit code is 0 if the tool reports no problem, or if it is not available here (with a message), and 1 otherwise.
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks import apache_kafka

SUFFIXES = (".log", ".index", ".timeindex", ".txnindex", ".snapshot")

# DumpLogSegments always ends with 0. It prints mismatches to its standard error, and these texts to its standard
# output.
_COMPLAINTS = ("isvalid: false", "invalid bytes at the end")
_GAPS = "Non-consecutive offsets in "
_FILES_AT_ONCE = 200


def data_files(directory: Path) -> list[Path]:
    """The files of all partitions in a data directory that Kafka's tool can read. `__cluster_metadata` is left out,
    because its log has this project's own format.
    """
    return sorted(
        path
        for path in directory.rglob("*")
        if path.suffix in SUFFIXES
        and path.stat().st_size
        and not any(part.startswith("__cluster_metadata") for part in path.relative_to(directory).parts)
    )


def complaints(files: list[Path]) -> list[str]:
    """The problems that Kafka's dump tool reports about these files. Each run of the tool gets several files."""
    found = []
    for start in range(0, len(files), _FILES_AT_ONCE):
        names = ",".join(str(path) for path in files[start : start + _FILES_AT_ONCE])
        command = apache_kafka.java("org.apache.kafka.tools.DumpLogSegments", "--deep-iteration", "--files", names)
        with (
            tempfile.TemporaryFile("w+") as errors,
            subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True) as tool,
        ):
            assert tool.stdout is not None
            found += [line.rstrip() for line in tool.stdout if any(words in line for words in _COMPLAINTS)]
            tool.wait()
            errors.seek(0)
            found += _without_first_offsets([line.rstrip() for line in errors])
            if tool.returncode:
                found.append(f"the tool ended with {tool.returncode}")
    return found


def _without_first_offsets(lines: list[str]) -> list[str]:
    """Remove the message that Kafka 4.4's tool prints for every segment that does not begin at offset 0.

    It compares a segment's first offset with -1: "Non-consecutive offsets in FILE", "  -1 is followed by 4869".
    """
    kept: list[str] = []
    for line in lines:
        if line.startswith("  -1 is followed by "):
            continue
        if kept and kept[-1].startswith(_GAPS) and not line.startswith("  "):
            kept.pop()
        kept.append(line)
    if kept and kept[-1].startswith(_GAPS):
        kept.pop()
    return kept


def dump_log(directory: Path) -> int:
    files = data_files(directory)
    if not files:
        print(f"no segment below {directory}")
        return 1
    try:
        found = complaints(files)
    except apache_kafka.Unavailable as why:
        print(f"skipped: {why}")
        return 0
    for line in found[:50]:
        print(line)
    print(f"Apache Kafka {apache_kafka.KAFKA_VERSION} read {len(files)} files and complained {len(found)} times")
    return 1 if found else 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.kafka_tools")
    commands = parser.add_subparsers(required=True)
    dump = commands.add_parser("dump-log", help="run Apache Kafka's dump tool over a data directory")
    dump.add_argument("directory", type=Path)
    return dump_log(parser.parse_args().directory)


if __name__ == "__main__":
    sys.exit(main())
