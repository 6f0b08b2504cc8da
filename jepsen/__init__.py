"""Fault injection: the workloads, nemeses and checkers that try to break the promises in docs/compatibility.md."""
