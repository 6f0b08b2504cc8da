"""The public names of `broker.client` are listed once and imported on first use."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import broker.client
from tests.support.source_code import ROOT


@pytest.mark.parametrize(
    "name", ["ConsumerConfig", "ErrorCode", "PartitionMetadata", "ProducerConfig", "TimestampType"]
)
def test_types_of_signatures_and_config_keys_are_public(name: str) -> None:
    assert name in broker.client.__all__
    assert getattr(broker.client, name).__name__ == name


def test_dir_lists_the_public_names() -> None:
    assert dir(broker.client) == broker.client.__all__


def test_a_name_that_is_not_public_raises_attribute_error() -> None:
    with pytest.raises(AttributeError, match=r"'broker\.client' has no attribute 'Prodcuer'"):
        _ = broker.client.Prodcuer  # type: ignore[attr-defined]


def test_in_an_archive_a_name_imports_its_own_module_alone(tmp_path: Path) -> None:
    """Spark ships Python packages to its workers as archives."""
    archive = tmp_path / "packages.zip"
    with zipfile.ZipFile(archive, "w") as opened:
        for path in (ROOT / "broker").rglob("*.py"):
            opened.write(path, path.relative_to(ROOT))
    code = (
        f"import sys; sys.path.insert(0, {str(archive)!r})\n"
        "from broker.client import TopicPartition, __file__\n"
        "print(__file__, *(name for name in sys.modules if name.startswith('broker.client.producer')))"
    )
    found = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert found.stdout.split() == [f"{archive}/broker/client/__init__.py"]


def test_errors_say_whether_the_same_call_may_succeed_later() -> None:
    client = broker.client
    assert client.KafkaError(client.ErrorCode.NOT_ENOUGH_REPLICAS).retriable
    assert not client.KafkaError(client.ErrorCode.MESSAGE_TOO_LARGE).retriable
    assert client.TimedOut("").retriable
    assert client.ConnectionLost("").retriable
    assert not client.ClosedError("").retriable
