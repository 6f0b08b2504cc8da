"""The share consumer: a member of a share group, which acquires records and acknowledges each of them (KIP-932)."""
