"""A consumer's membership in its group: both of Kafka's group protocols, assignors, and the group's offsets."""
