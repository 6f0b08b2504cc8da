"""Clients as processes of their own: librdkafka's, so that nothing of ours is trusted; what they do is written down.

`python -m jepsen.processes.clients <plan>` is one client; `ClientProcess` runs it.
"""
