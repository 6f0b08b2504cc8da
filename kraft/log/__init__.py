"""The durable metadata log: append, epochs, fsync, recovery."""
