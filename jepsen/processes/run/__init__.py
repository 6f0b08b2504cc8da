"""`python -m jepsen run`: real processes, clients of librdkafka, a nemesis, and a verdict on what clients were told."""
