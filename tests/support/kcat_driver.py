"""kcat, a command-line client. Records are passed through files and pipes.

Its command line limits the records: all records have the same headers; fields may be null but not empty; there are no
timestamps. Its output contains lengths before the bytes, and headers as text.
"""

import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping

from tests.support.driver import PASS_TIMEOUT_S
from tests.support.records import ClientRecord, Consumed, Headers, Shape, by_partition

# Random bytes that no record contains. kcat splits its input at them.
END_OF_RECORD = b"\x1e--5f1d0c7e--\x1e"
END_OF_KEY = b"\x1f--9a3b6e21--\x1f"

OUTPUT_HEAD = re.compile(rb"(-?\d+) (-?\d+) (-?\d+) (-?\d+)\n")


def kcat_path() -> str | None:
    return shutil.which("kcat") or shutil.which("kafkacat")


class KcatDriver:
    name = "kcat"
    shape = Shape(empty_fields=False, headers_per_record=False, binary_headers=False, timestamps=False)

    def produce(self, bootstrap: str, topic: str, records: list[ClientRecord], compression: str) -> None:
        for partition, of_partition in by_partition(records).items():
            with tempfile.NamedTemporaryFile() as file:
                file.write(END_OF_RECORD.join(map(_input, of_partition)))
                file.flush()
                self._run(
                    bootstrap,
                    ["-P", "-t", topic, "-p", str(partition), "-Z", "-l"],
                    ["-X", f"compression.codec={compression}", "-X", "acks=all"],
                    ["-D", _escaped(END_OF_RECORD), "-K", _escaped(END_OF_KEY)],
                    [part for name, value in of_partition[0].headers for part in ("-H", _header(name, value))],
                    [file.name],
                )

    def consume(self, bootstrap: str, topic: str, counts: Mapping[int, int]) -> dict[int, list[Consumed]]:
        pattern = "%o %T %K %S\\n%k%s%h" + _escaped(END_OF_RECORD)
        return {
            partition: _parse(
                self._run(
                    bootstrap,
                    ["-C", "-t", topic, "-p", str(partition), "-o", "beginning", "-e", "-q"],
                    ["-X", "check.crcs=true", "-X", "fetch.wait.max.ms=20", "-f", pattern],
                ),
                partition,
            )
            for partition in counts
        }

    @staticmethod
    def _run(bootstrap: str, *arguments: list[str]) -> bytes:
        path = kcat_path()
        assert path is not None
        # An empty configuration file replaces the user's.
        line = [path, "-F", "/dev/null", "-b", bootstrap, *(part for some in arguments for part in some)]
        done = subprocess.run(line, capture_output=True, timeout=PASS_TIMEOUT_S, check=False)
        assert done.returncode == 0, f"{line}\n{done.stderr.decode(errors='replace')}"
        return done.stdout


def _input(record: ClientRecord) -> bytes:
    return (b"" if record.key is None else record.key) + END_OF_KEY + (record.value or b"")


def _header(name: str, value: bytes | None) -> str:
    return name if value is None else f"{name}={value.decode()}"


def _escaped(delimiter: bytes) -> str:
    return "".join(f"\\x{byte:02x}" for byte in delimiter)


def _parse(output: bytes, partition: int) -> list[Consumed]:
    consumed: list[Consumed] = []
    position = 0
    while position < len(output):
        head = OUTPUT_HEAD.match(output, position)
        assert head is not None, output[position : position + 100]
        offset, timestamp_ms, key_size, value_size = map(int, head.groups())
        key, position = _sized(output, head.end(), key_size)
        value, position = _sized(output, position, value_size)
        end = output.index(END_OF_RECORD, position)
        record = ClientRecord(partition, key, value, _headers(output[position:end]), timestamp_ms)
        consumed.append(Consumed(offset, record))
        position = end + len(END_OF_RECORD)
    return consumed


def _sized(output: bytes, position: int, size: int) -> tuple[bytes | None, int]:
    if size < 0:
        return None, position
    return output[position : position + size], position + size


def _headers(text: bytes) -> Headers:
    pairs = (pair.partition(b"=") for pair in text.split(b",") if pair)
    return tuple((name.decode(), None if value == b"NULL" else value) for name, _, value in pairs)
