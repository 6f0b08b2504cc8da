"""Hostile input for a node, made with the node's own codecs, for `python -m jepsen fuzz` and for tests.

A story is a short conversation over one connection. It is determined by a random generator and the node's responses.
"""
