"""Input that means harm to a node, made of its own codecs: what `python -m jepsen fuzz` sends, and tests spoil.

A story is a short conversation over one connection; everything in it follows from a random generator, and from what
the node answers.
"""
