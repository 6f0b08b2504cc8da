"""Renders the report of a run from its files (`jepsen.store`): `report.html`, which is self-contained."""
