"""Kafka's own command line tools on this project's clients: the same names, options and output for scripts.

`python -m broker.cli.kafka_tools kafka-topics ...` runs one. `kraft kafka-tools install DIR` puts launchers of all
into a directory.
"""
