"""Clients that authenticate, and an administrator that changes their rights and passwords all the time."""
