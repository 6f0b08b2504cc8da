"""Counts the records that were not written and whose error the application has not read. Any thread may use it."""

import threading

from broker.client.errors import ClientError


class UndeliveredRecords(ClientError):
    """Records were not written, and the application has looked at the outcome of none of them.

    The end of a producer's block raises it. `count` is the number of records, `first_error` the error of the first
    one; it is the `__cause__` too, unless the block is left because of another exception, which is the `__context__`.
    """

    def __init__(self, count: int, first_error: Exception) -> None:
        what = "1 record was not written" if count == 1 else f"{count} records were not written"
        super().__init__(f"{what}: {first_error or type(first_error).__name__}")
        self.count = count
        self.first_error = first_error
        self.__cause__ = first_error

    def beside(self, error: BaseException | None) -> "UndeliveredRecords | None":
        """The error to raise at the end of a block that `error` leaves. None where it must not be replaced: a note."""
        if error is None:
            return self
        if not isinstance(error, Exception):
            error.add_note(str(self))
            return None
        self.__cause__, self.__context__ = None, error
        self.__suppress_context__ = False
        return self


class UnreadFailures:
    """See the module's docstring. A producer has one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._count = 0
        self._first: Exception | None = None

    def add(self, count: int, error: Exception) -> None:
        """Counts records that failed with this error and that have no callback."""
        with self._lock:
            if count and self._first is None:
                self._first = error
            self._count += count

    def read(self) -> None:
        """Takes one record out of the count: its error was raised by its delivery."""
        with self._lock:
            self._count -= 1
            if not self._count:
                self._first = None

    def take(self) -> UndeliveredRecords | None:
        """The error of all that are counted now; they do not count any more."""
        with self._lock:
            count, first = self._count, self._first
            self._count, self._first = 0, None
        return None if first is None else UndeliveredRecords(count, first)
