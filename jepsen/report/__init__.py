"""A run to look at: `report.html`, one file that needs no other, made from what a run has left (`jepsen.store`)."""
