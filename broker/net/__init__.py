"""Listeners, connections and framing: bytes in, replies out, in request order. Knows frames, not their contents.

A `Connection` is a sans-I/O pump; `SocketReactor` drives those of TCP, `serve_stream` those of any Trio stream;
`ConnectionScheduler` runs them together: serve the requests that arrived, commit the staged records, send the replies.
"""
