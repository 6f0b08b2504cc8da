"""Groups of the classic protocol: the leader among the members assigns, the coordinator keeps them together."""
