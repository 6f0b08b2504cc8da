"""The consumer: subscription and positions, fetching ahead, reading; `group` is its membership in a group."""
