"""Benchmarks of a node, compared in the same run with minimal Python servers and with Apache Kafka.

Entry points, each `python -m benchmarks.<name>`: `hot_path` (raw requests, compared with minimal Python servers: the
required ratios), `bench_clients` (one node with confluent-kafka as the client), `bench_report` (nodes and clusters,
alternating with Apache Kafka's: the page docs/benchmarks.md), `bench_failover` (leaders that are killed, and the steps
of the slowest failover), `bench_metadata` (the cost of metadata as the number of
partitions grows), `kafka_tools` (Apache Kafka's own tools on a data directory).
"""
