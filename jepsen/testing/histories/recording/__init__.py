"""Records what an application's clients of Kafka do and are told, as operations of a history (`jepsen.journal`)."""
