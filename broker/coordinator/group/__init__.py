"""What a group coordinator knows and decides. Pure: time and chance are given."""
