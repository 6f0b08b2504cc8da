"""A KRaft-style replicated log on Trio. Imports nothing of the project, and can be read without knowing Kafka.

`kraft.env` is the seam between a node and the world; `kraft.log` keeps the log durable.
"""
