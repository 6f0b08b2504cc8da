"""Clients on one Trio loop in the background of a process, for callers that do not run Trio.

`broker.client.blocking` has the face for threads, and `broker.client.aio` the one for asyncio.
"""
