"""What the metadata log says: its records, the immutable image they add up to, and the controller that decides them."""
