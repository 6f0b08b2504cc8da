"""The estimate of how many uncompressed bytes fit into a batch."""

import pytest

from broker.client.producer.compression_ratio import CompressionRatios


def test_estimate_follows_good_compression_slowly_and_bad_compression_at_once() -> None:
    ratios = CompressionRatios(is_compressing=True)
    assert ratios.uncompressed_limit("t", 1_000, 10_000) == 1_000
    for _ in range(100):
        ratios.observe("t", 1_000, 100)
    assert ratios.uncompressed_limit("t", 1_000, 10_000) == pytest.approx(2_000)
    ratios.observe("t", 1_000, 900)
    assert ratios.uncompressed_limit("t", 900, 10_000) == pytest.approx(1_000)


def test_limit_is_bounded_by_the_size_of_a_request_and_the_ratio_from_below() -> None:
    ratios = CompressionRatios(is_compressing=True)
    for _ in range(1_000):
        ratios.observe("t", 1_000_000, 1)
    assert ratios.uncompressed_limit("t", 1_000, 10_000) == 10_000
    assert ratios.uncompressed_limit("t", 1_000, 10**9) == pytest.approx(100_000)
    assert ratios.compressed_size("t", 1_000) == pytest.approx(10)


def test_estimate_is_forgotten_after_a_batch_was_too_large() -> None:
    ratios = CompressionRatios(is_compressing=True)
    ratios.observe("t", 1_000, 100)
    ratios.forget("t")
    assert ratios.uncompressed_limit("t", 1_000, 10_000) == 1_000


def test_without_compression_nothing_is_learned() -> None:
    ratios = CompressionRatios(is_compressing=False)
    ratios.observe("t", 1_000, 1)
    assert ratios.uncompressed_limit("t", 1_000, 10_000) == 1_000
