"""Kafka's wire protocol: messages, headers and record batches, without any I/O."""
