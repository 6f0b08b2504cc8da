"""Checks which modules use the operating system themselves.

All others use it through Env and Trio, which the simulator replaces.
"""

from tests.support.architecture_rules import system_access
from tests.support.source_code import is_within, read_modules

# The modules that use the operating system other than through Env and Trio, and the reasons.
DIRECT_SYSTEM_ACCESS: dict[str, set[str]] = {
    # Addresses of memory.
    "broker.wire.records.partial_check": {"ctypes"},
    # The real Env and Disk.
    "kraft.direct_reads": {"mmap", "os"},
    "kraft.env": {"fcntl", "os", "random", "socket", "time", "trio.to_thread.run_sync"},
    "kraft.system_calls": {"ctypes", "fcntl", "os", "shutil"},
    # The limits of the process, before it starts a node.
    "kraft.file_descriptors": {"fcntl", "open", "os"},
    # The driver of kernel sockets, which carries plain TCP faster than Trio does. The simulation replaces it.
    "broker.net.poller": {"select"},
    "broker.net.socket_reactor": {"socket"},
    "broker.net.send": {"socket"},
    # Files of stores, keys and tokens, where the configuration names them.
    "broker.security.regular_files": {"os"},
    # The versions of the files of key and trust stores, and files in memory or temporary ones.
    "broker.security.tls.files": {"os", "tempfile"},
    # The simulated kernel: its errors and constants, random numbers that follow from a seed, and the thread it is for.
    "jepsen.simulation.disk.volume": {"os"},
    "jepsen.simulation.network.handshake": {"os"},
    "jepsen.simulation.network.sockets": {"os", "socket"},
    "jepsen.simulation.event_loop": {"random"},
    "jepsen.simulation.scheduling": {"threading"},
    "jepsen.simulation.simulation": {"random"},
    # Real directories of processes, the seeds that a person has chosen, and forks that run seeds.
    "jepsen.simulation.applications.command": {"os"},
    "jepsen.simulation.applications.directories": {"shutil"},
    "jepsen.simulation.applications.replay": {"os"},
    "jepsen.simulation.applications.run": {"time"},
    "jepsen.simulation.applications.simulate": {"pathlib", "tempfile"},
    "jepsen.simulation.applications.workers": {"multiprocessing", "os", "signal"},
    # Replaces time and random numbers within simulated processes, and interrupts them.
    "jepsen.simulation.applications.outside": {"os", "random", "select", "selectors", "socket", "threading", "time"},
    "jepsen.simulation.applications.virtual_time": {"time"},
    "jepsen.simulation.applications.watchdog": {"signal", "threading"},
    # Measures the CPU time of seeds, and distributes the seeds over processes.
    "jepsen.simulation.command": {"concurrent", "multiprocessing", "time"},
    # The directory of the reported run.
    "jepsen.report.command": {"pathlib"},
    # The counters of the kernel about this process.
    "broker.metrics.collectors.process": {"open", "os", "time"},
    # Commands, before they start a node: properties file, directory and signals, and the user's environment variables
    # and files.
    "broker.cli.event_printer": {"time"},
    "broker.cli.main": {"open", "os"},
    "broker.cli.commands.cluster_start": {"os"},
    # The restart command, which the operator gives.
    # Files with keys and passwords, which a disk does not make for their owner alone.
    "broker.cli.local_security": {"open", "os"},
    "broker.cli.private_files": {"open", "os"},
    "broker.cli.commands.node_restart": {"subprocess", "tempfile"},
    "broker.cli.commands.kafka_tools": {"os"},
    "broker.cli.commands.consume": {"os"},
    "broker.cli.commands.users": {"os"},
    "broker.cli.commands.produce_input": {"open", "pathlib", "trio.to_thread.run_sync"},
    "broker.cli.commands.reassignment_plans": {"pathlib"},
    "broker.cli.grammar.contexts": {"os", "pathlib"},
    "broker.cli.grammar.reports": {"os"},
    "broker.cli.grammar.root": {"os"},
    "broker.cli.grammar.settings": {"os", "pathlib"},
    # The parent process, with which the command ends.
    "broker.cli.commands.test_server": {"os"},
    "broker.cli.kafka_tools.record_printer": {"signal"},
    "broker.cli.kafka_tools.files": {"pathlib"},
    "broker.cli.kafka_tools.launchers": {"pathlib"},
    # Finds the processes of nodes, and signals them.
    "broker.cli.kafka_tools.server_stop": {"os", "pathlib", "signal", "trio.run_process"},
    # Standard input may be a file, for which the kernel does not report readiness.
    "broker.cli.kafka_tools.console_producer": {"trio.to_thread.run_sync"},
    # Measures the CPU time of a load.
    "broker.cli.commands.bench": {"time"},
    # How long transactions have been open.
    "broker.cli.commands.transactions": {"time"},
    "broker.cli.kafka_tools.transactions": {"time"},
    "broker.cli.node_config": {"open", "os"},
    # Files of the user: a schema, a report.
    "broker.cli.commands.spark": {"pathlib", "time"},
    # Spark jobs run in processes of Spark, never in a node. They start Java, and use files and clocks.
    "broker.spark.java": {"os", "pathlib", "shutil", "subprocess"},
    "broker.spark.registration": {"os"},
    "broker.spark.jobs.load.delta": {"uuid"},
    "broker.spark.jobs.load.iceberg": {"uuid"},
    "broker.spark.jobs.load.job": {"time"},
    "broker.spark.jobs.load.run": {"time", "uuid"},
    "broker.spark.jobs.load.table": {"time", "uuid"},
    "broker.spark.jobs.replay": {"time"},
    "broker.spark.jobs.stats.page": {"datetime.now"},
    "broker.spark.session": {"os", "pathlib"},
    # A client's wall clock and random numbers, which the simulation replaces.
    "broker.client.environment": {"random", "time"},
    # The blocking clients: the thread of their loop, which a fork of the process does not inherit.
    "broker.client.aio.calls": {"asyncio", "trio.to_thread.run_sync"},
    "broker.client.aio.client": {"asyncio"},
    "broker.client.aio.consumer": {"asyncio"},
    "broker.client.aio.producer": {"asyncio"},
    "broker.client.blocking.calls": {"threading", "trio.to_thread.run_sync"},
    "broker.client.hosted.queued_producer": {"threading"},
    "broker.client.hosted.client": {"threading"},
    "broker.client.hosted.loop": {"os", "threading"},
    "broker.client.producer.unread_failures": {"threading"},
    # Consumers between the tasks of a worker process, which Spark forks, and the wait between attempts to plan.
    "broker.spark.clients": {"os", "threading", "time"},
    "broker.spark.cluster_offsets": {"time"},
    "broker.spark.reading": {"time"},
    "broker.spark.streaming.cluster": {"time"},
    # A streaming query's clock and the id of its group; the thread that writes while a task takes rows from Spark.
    "broker.spark.streaming.batches": {"time", "uuid"},
    "broker.spark.sink.task": {"concurrent"},
    # The transactional ids of a worker process, which Spark forks, and a bound on the wait for earlier decisions.
    "broker.spark.sink.prepared_task": {"os", "threading", "uuid"},
    "broker.spark.sink.decision_log": {"time"},
    # The event loop cannot be measured by its own clock, nor observed from within it.
    "broker.cli.loop_watch": {"threading", "time"},
    "broker.cli.start": {"signal"},
    "broker.cli.supervisor": {"os", "signal"},
    # Forks of a command, and the command line that they show.
    "broker.cli.forked_process": {"os", "signal"},
    "broker.cli.command_line": {"ctypes", "open", "os"},
}

# The packages that run only against real processes, clocks and clients.
UNSIMULATED_PACKAGES = ("benchmarks", "jepsen.processes", "jepsen.testing")


def test_the_operating_system_is_used_through_env_and_trio_only() -> None:
    bound = [
        module
        for name, module in read_modules().items()
        if not any(is_within(name, package) for package in UNSIMULATED_PACKAGES)
    ]
    assert {module.name: ways for module in bound if (ways := system_access(module))} == DIRECT_SYSTEM_ACCESS
