"""The offsets that groups have committed: the store, requests about them, and their expiry."""
