"""Groups that go from one protocol to the other while they live (KIP-848, "Online migration"), and back."""
