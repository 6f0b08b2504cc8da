"""The producer: batches by partition, sequences, back-pressure, and the task that sends."""
