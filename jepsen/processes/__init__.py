"""Real nodes as processes on this machine, with a proxy on every directed link between them."""
