"""Chaos for a test cluster: a seed chooses faults, their targets, their begins and their ends.

`chaos_plan` is pure: the same seed gives the same plan. `chaos_run` carries it out, and heals what it has broken.
"""

from jepsen.testing.chaos.chaos_plan import KINDS, ChaosSpec, PlannedFault, plan_chaos
from jepsen.testing.chaos.chaos_run import ChaosRun

__all__ = ["KINDS", "ChaosRun", "ChaosSpec", "PlannedFault", "plan_chaos"]
