"""The consumer protocol (KIP-848): the coordinator assigns, and members reconcile what they own with that."""
