"""Random sequences of requests to one of our nodes and to Apache Kafka, whose responses must be the same.

`python -m tests.differential --help` describes the command. A family of APIs is a module of `families`: it makes the
steps of a sequence from a seed. Every sequence uses names of its own, so sequences are independent of each other and
run concurrently. Differences that are known and stay are in `known_differences`, each with its reason.
"""
