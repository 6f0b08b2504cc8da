"""Process. Memory, garbage collection and the event loop; the names are those of Prometheus' client libraries."""

from typing import Final

from broker.metrics.metric import Unit, counter, gauge, histogram

NODE_INFO: Final = gauge(
    "kafka_server_app_info",
    "1; the labels describe the node",
    labels=("version", "node_id", "cluster_id", "roles"),
    unit=Unit.BOOLEAN,
    mbean="kafka.server:type=app-info",
)
IS_READY: Final = gauge("kafka_server_ready", "1 if the node serves its clients, as /readyz says", unit=Unit.BOOLEAN)
LOOP_LAG: Final = histogram(
    "kafka_server_eventloop_lag_ms",
    "Delay with which a task of the event loop runs that is due; sampled some times a second",
)
GC_COLLECTIONS: Final = counter(
    "python_gc_collections_total", "Garbage collections of a generation", labels=("generation",)
)
GC_COLLECTED: Final = counter(
    "python_gc_objects_collected_total", "Objects that garbage collections have freed", labels=("generation",)
)
GC_UNCOLLECTABLE: Final = counter(
    "python_gc_objects_uncollectable_total", "Objects that could not be freed", labels=("generation",)
)
GC_TIME: Final = counter(
    "python_gc_time_seconds_total",
    "Time of garbage collections, since the HTTP listener was opened",
    unit=Unit.SECONDS,
)
CPU_SECONDS: Final = counter("process_cpu_seconds_total", "CPU time of the process", unit=Unit.SECONDS)
RESIDENT_MEMORY: Final = gauge("process_resident_memory_bytes", "Resident memory", unit=Unit.BYTES)
VIRTUAL_MEMORY: Final = gauge("process_virtual_memory_bytes", "Virtual memory", unit=Unit.BYTES)
OPEN_DESCRIPTORS: Final = gauge("process_open_fds", "Open file descriptors")
MAX_DESCRIPTORS: Final = gauge("process_max_fds", "File descriptors that the process may open")
START_TIME: Final = gauge("process_start_time_seconds", "Time when the process started, since 1970", unit=Unit.SECONDS)
WALL_CLOCK: Final = gauge(
    "kafka_server_wall_clock_seconds", "The node's clock when it was read, since 1970", unit=Unit.SECONDS
)
