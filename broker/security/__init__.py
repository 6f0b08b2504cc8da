"""Security: TLS, SASL, and ACLs. They decide the principal of a client, and its rights."""
