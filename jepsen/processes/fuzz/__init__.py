"""`python -m jepsen fuzz`: a node in a process of its own, hostile frames over all its ports, and a healthy client."""
