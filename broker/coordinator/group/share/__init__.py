"""Share groups (KIP-932): members share the records of partitions, whose states the share coordinator keeps."""
