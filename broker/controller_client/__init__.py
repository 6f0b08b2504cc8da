"""What a node asks of the active controller, wherever that is: registration, heartbeats, blocks of producer ids."""
