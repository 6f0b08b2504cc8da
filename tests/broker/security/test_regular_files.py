"""Files that configs name are read only if that cannot hold the node."""

import os
from pathlib import Path

import pytest

from broker.security.oauth.documents import read_small_file
from broker.security.oauth.http_exchange import EndpointFailed
from broker.security.regular_files import read_regular_file
from broker.security.tls.files import read_store
from broker.security.tls.settings import TlsConfigError


def test_a_file_is_read_up_to_the_bound_also_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"0123456789")
    (tmp_path / "link").symlink_to(tmp_path / "file")
    assert read_regular_file(str(tmp_path / "file"), 100) == b"0123456789"
    assert read_regular_file(str(tmp_path / "link"), 4) == b"0123"


@pytest.mark.parametrize("path", ["/dev/zero", "/dev/null"])
def test_a_device_is_refused(path: str) -> None:
    with pytest.raises(OSError, match="it is not a regular file"):
        read_regular_file(path, 100)


def test_a_pipe_without_a_writer_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    pipe = str(tmp_path / "pipe")
    os.mkfifo(pipe)
    with pytest.raises(TlsConfigError, match=r"ssl.keystore.location=\S+ cannot be read: it is not a regular file"):
        read_store(pipe, "ssl.keystore.location")
    with pytest.raises(EndpointFailed, match="cannot be read: it is not a regular file"):
        read_small_file(pipe)


def test_a_directory_and_a_missing_file_are_refused(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="Is a directory"):
        read_regular_file(str(tmp_path), 100)
    with pytest.raises(OSError, match="No such file"):
        read_regular_file(str(tmp_path / "none"), 100)
    with pytest.raises(ValueError, match=r"null (byte|character)"):
        read_regular_file("a\0b", 100)
