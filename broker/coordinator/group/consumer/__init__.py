"""Groups of the consumer protocol (KIP-848): the coordinator assigns, and leads members to it one by one."""
