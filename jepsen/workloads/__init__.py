"""The clients of a run. They use only Trio's sockets, so they run in the simulation and against real processes."""
