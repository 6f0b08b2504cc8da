"""The data plane and the composition root: does what the metadata says, and alone speaks Kafka's bytes."""
