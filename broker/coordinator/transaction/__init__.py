"""The transaction coordinator: producers' identities, their transactions, and the markers that end them (KIP-98)."""
