"""Consumer groups (KIP-848): members send heartbeats, and the coordinator assigns and reconciles partitions."""
