"""Joins the small files of a destination: each run adds some to every day for which it has records."""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from pyspark.sql import SparkSession

from broker.spark.jobs.files import JobFiles, StoredFile
from broker.spark.jobs.load.layout import read_files
from broker.spark.jobs.load.manifest import Manifest
from broker.spark.jobs.load.options import LoadOptions
from broker.spark.jobs.load.run import Run, write_frame


def compact(spark: SparkSession, files: JobFiles, options: LoadOptions, live: Sequence[StoredFile]) -> Manifest | None:
    """Join the small files of each directory that has `options.compact_from` of them; None if none has.

    `live` are the files of the destination. They are replaced in one run. A query that lists the directory meanwhile
    may miss some; `loaded` does not.
    """
    found = small_files(live, options)
    if not found:
        return None
    run = Run(spark, files)
    for small in found.values():
        count = max(1, round(sum(file.size for file in small) / options.file_size))
        frame = read_files(spark, files, small)
        ordered = frame.repartitionByRange(count, "partition", "offset") if count > 1 else frame.coalesce(1)
        write_frame(ordered, options, run.data, is_added=True)
    joined = [file for small in found.values() for file in small]
    records = read_files(spark, files, joined).count()
    return run.commit("compaction", removed=[file.path for file in joined], records=records)


def small_files(live: Sequence[StoredFile], options: LoadOptions) -> Mapping[str, list[StoredFile]]:
    """The files to join, by their directory."""
    directories: dict[str, list[StoredFile]] = defaultdict(list)
    for file in live:
        if file.size < options.file_size // 2:
            directories[file.path.rpartition("/")[0]].append(file)
    least = max(2, options.compact_from)
    return {name: small for name, small in directories.items() if options.compact_from and len(small) >= least}
