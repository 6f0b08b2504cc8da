"""Groups whose members speak both protocols, and groups that change from one to the other (KIP-848)."""
