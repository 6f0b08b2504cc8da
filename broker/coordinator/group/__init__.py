"""The group coordinator: classic and consumer groups, their members and committed offsets. Everything here is pure."""
