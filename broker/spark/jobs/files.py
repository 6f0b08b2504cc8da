"""The files of a job, in whichever file system Spark can write: local disks, HDFS, object stores.

They are reached through Hadoop's client in the driver's JVM, so that a path means the same here as in `df.write`.
"""

from collections.abc import Iterator
from typing import Any, Final

import attrs
from pyspark.sql import SparkSession

from broker.spark.jobs.results import JobFailed

# Spark and Hadoop skip files whose names begin so: markers, checksums.
_HIDDEN: Final = ("_", ".")


@attrs.frozen
class StoredFile:
    """`path` is relative to the root of the job's files; `size` in bytes."""

    path: str
    size: int


class JobFiles:
    """Files below `root`. All paths are relative to it."""

    def __init__(self, spark: SparkSession, root: str) -> None:
        context = spark.sparkContext
        self._jvm: Any = context._jvm
        self._gateway: Any = context._gateway
        self._configuration: Any = spark._jsparkSession.sessionState().newHadoopConf()
        given = self._hadoop.Path(root)
        self._fs: Any = given.getFileSystem(self._configuration)
        self._root: Any = self._fs.makeQualified(given)

    @property
    def _hadoop(self) -> Any:
        return self._jvm.org.apache.hadoop.fs

    @property
    def root(self) -> str:
        """The root as a whole URI."""
        return str(self._root.toString())

    def uri(self, path: str) -> str:
        """A path as a whole URI, for Spark's readers and writers."""
        return f"{self.root}/{path}"

    def exists(self, path: str) -> bool:
        return bool(self._fs.exists(self._path(path)))

    def names(self, directory: str) -> list[str]:
        """The names in a directory, sorted; empty if the directory does not exist."""
        if not self.exists(directory):
            return []
        return sorted(str(status.getPath().getName()) for status in self._fs.listStatus(self._path(directory)))

    def data_files(self, directory: str) -> Iterator[StoredFile]:
        """The files below a directory, their paths relative to the directory, sorted; hidden ones are left out."""
        if not self.exists(directory):
            return
        base = str(self._fs.makeQualified(self._path(directory)).toString()) + "/"
        listing = self._fs.listFiles(self._path(directory), True)
        found = []
        while listing.hasNext():
            status = listing.next()
            path = str(status.getPath().toString()).removeprefix(base)
            if not any(part.startswith(_HIDDEN) for part in path.split("/")):
                found.append(StoredFile(path, int(status.getLen())))
        yield from sorted(found, key=lambda file: file.path)

    def read(self, path: str) -> str:
        stream = self._fs.open(self._path(path))
        try:
            return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
        finally:
            stream.close()

    def write_new(self, path: str, content: str) -> None:
        """Write a file completely or not at all. Raises JobFailed if it exists: another job has written it."""
        target = self._path(path)
        written = self._hadoop.Path(target.getParent(), f".{target.getName()}.{self._jvm.java.util.UUID.randomUUID()}")
        stream = self._fs.create(written, True)
        try:
            stream.write(bytearray(content.encode()))
        finally:
            stream.close()
        options = self._gateway.new_array(getattr(self._hadoop, "Options$Rename"), 0)
        context = self._hadoop.FileContext.getFileContext(self._root.toUri(), self._configuration)
        try:
            context.rename(written, target, options)
        except Exception as error:
            self._fs.delete(written, False)
            if self.exists(path):
                raise JobFailed(f"{self.uri(path)} exists: another job writes here at the same time") from error
            raise

    def move(self, source: str, target: str) -> None:
        """Give a file another name. Does nothing where that was done before."""
        if not self.exists(source):
            if not self.exists(target):
                raise JobFailed(f"Neither {self.uri(source)} nor {self.uri(target)} exists")
            return
        parent = self._path(target).getParent()
        self._fs.mkdirs(parent)
        if not self._fs.rename(self._path(source), self._path(target)):
            raise JobFailed(f"{self.uri(source)} cannot be moved to {self.uri(target)}")

    def delete(self, path: str) -> None:
        """Delete a file, or a directory with all that is in it. Does nothing where there is none."""
        self._fs.delete(self._path(path), True)

    def _path(self, path: str) -> Any:
        return self._hadoop.Path(self._root, path)
