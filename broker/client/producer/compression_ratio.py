"""Estimates the compression ratio of each topic from earlier batches. Pure.

`batch.size` bounds the compressed batch, but a batch is compressed when it is complete. So the estimate decides how
many uncompressed bytes go into a batch. As in Kafka (CompressionRatioEstimator.java) it worsens at once and improves
slowly.
"""

from typing import Final

_INITIAL: Final = 1.0
_WORSENING_MIN: Final = 0.05
_IMPROVEMENT_MAX: Final = 0.005
# Data that compresses better than this counts as if it compressed so: a batch is held in memory uncompressed.
_RATIO_MIN: Final = 0.01


class CompressionRatios:
    """The ratio of compressed to uncompressed bytes by topic. Without compression it is 1."""

    def __init__(self, *, is_compressing: bool) -> None:
        self._is_compressing = is_compressing
        self._ratios: dict[str, float] = {}

    def uncompressed_limit(self, topic: str, compressed_bytes: int, limit_bytes: int) -> float:
        """The uncompressed bytes that are expected to become `compressed_bytes`, but not more than `limit_bytes`."""
        return min(compressed_bytes / self._ratio(topic), limit_bytes)

    def compressed_size(self, topic: str, size: int) -> float:
        return size * self._ratio(topic)

    def observe(self, topic: str, uncompressed_bytes: int, compressed_bytes: int) -> None:
        """Takes the sizes of a batch that was just compressed."""
        if not self._is_compressing or uncompressed_bytes <= 0:
            return
        estimate = self._ratio(topic)
        observed = compressed_bytes / uncompressed_bytes
        if observed > estimate:
            estimate = max(estimate + _WORSENING_MIN, observed)
        else:
            estimate = max(estimate - _IMPROVEMENT_MAX, observed)
        self._ratios[topic] = max(estimate, _RATIO_MIN)

    def forget(self, topic: str) -> None:
        """Begins again with no compression: an estimate has led to batches that are too large."""
        self._ratios.pop(topic, None)

    def _ratio(self, topic: str) -> float:
        return self._ratios.get(topic, _INITIAL)
