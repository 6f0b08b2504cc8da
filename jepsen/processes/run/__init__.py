"""`python -m jepsen run`: real processes, clients of librdkafka, a nemesis, and checks of the responses."""
