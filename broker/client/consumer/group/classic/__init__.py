"""The classic protocol: members join, one of them assigns, all of them sync and send heartbeats."""
