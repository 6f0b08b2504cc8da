"""Listeners, connections, framing: bytes in, replies out, in request order. Knows frames, not what is in them.

A `Connection` is a sans-I/O pump; `EpollReactor` drives plain TCP ones, `serve_stream` those over any Trio stream;
`Turns` runs them one at a time: handle what arrived, commit what was staged, send.
"""
