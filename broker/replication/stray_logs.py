"""Renames the logs of partitions that the metadata does not assign to this broker; they are not loaded."""

from typing import Final

from broker.replication.replica_directories import has_replica
from broker.storage.log_manager import LogManager
from broker.storage.partition_directory import partition_directory_name
from kraft.env import Tracer
from metadata.image import MetadataImage

# At most this many partitions are named in the event about stray logs.
_STRAYS_SHOWN: Final = 10


def rename_strays(log_manager: LogManager, image: MetadataImage, local_id: int, trace: Tracer) -> None:
    """Rename the logs that `image` does not assign to broker `local_id`, without deleting them."""
    strays: dict[str, list[str]] = {}
    for key, topic_id in list(log_manager.topic_ids.items()):
        if not has_replica(image, local_id, key, topic_id):
            directory = log_manager.directory_of(*key)
            assert directory is not None, f"{key} is in the log directories"
            strays.setdefault(directory.path, []).append(partition_directory_name(*key))
            log_manager.rename_stray(*key)
    for path, partitions in strays.items():
        shown = ", ".join(partitions[:_STRAYS_SHOWN]) + (", ..." if len(partitions) > _STRAYS_SHOWN else "")
        trace("stray_logs_renamed", path=path, count=len(partitions), partitions=shown)
