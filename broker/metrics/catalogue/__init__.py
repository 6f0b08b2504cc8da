"""Every metric of a node, declared once, by subject."""

from broker.metrics.catalogue.catalogue import METRICS, SECTIONS, Section

__all__ = ["METRICS", "SECTIONS", "Section"]
