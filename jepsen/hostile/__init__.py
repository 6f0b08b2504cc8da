"""Hostile input for a node, made with the node's own codecs, for `python -m jepsen fuzz` and for tests.

A story is a short conversation over one connection; everything in it follows from a random generator, and from what
the node answers.
"""
