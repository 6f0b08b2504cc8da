"""What clients do while things break. They use Trio's sockets and nothing else, so they run in any world."""
