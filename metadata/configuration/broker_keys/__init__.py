"""The tables of the keys of brokers and controllers, one module per concern."""
