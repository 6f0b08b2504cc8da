"""TLS: contexts from Kafka's ssl.* configs, key and trust stores, and the principals of certificates."""
