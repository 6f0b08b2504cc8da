"""Cluster metadata: the records of the metadata log, the image that they result in, and the controller."""
