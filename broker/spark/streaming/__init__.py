"""The streaming source's parts: positions, admission control, the cluster as the query sees it, group commits."""
