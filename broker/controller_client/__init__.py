"""The requests of a node to the active controller: registration, heartbeats, blocks of producer ids, forwarding."""
