"""Classic groups: members join, the leader among them assigns, and all fetch their assignment with SyncGroup."""
