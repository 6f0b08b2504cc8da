"""A KRaft-style replicated log on Trio. Imports nothing of the project, and can be read without knowing Kafka.

`kraft.env` is the seam between a node and the world; `kraft.replicated_log` is what a state machine sees of the log;
`kraft.log` keeps one node's copy durable. `kraft.core` holds the rules by which several nodes agree, and `kraft.driver`
runs them over `kraft.rpc`; `kraft.single_voter` is the smallest quorum, which needs neither.
"""
