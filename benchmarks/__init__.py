"""Benchmarks of a node, against bare Python in the same run and against Apache Kafka in the same run.

Entry points, each `python -m benchmarks.<name>`: `hot_path` (raw requests against bare-Python references: the floors),
`bench_clients` (one node under confluent-kafka), `bench_kafka` (both, alternating with Apache Kafka), `bench_metadata`
(what the metadata costs as partitions grow), `kafka_tools` (Apache Kafka's own tools over a data directory).
"""
