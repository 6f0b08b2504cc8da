"""The keys of brokers and controllers, one module per concern."""
