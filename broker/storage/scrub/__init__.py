"""Reads all files of a running node again, in the background, and repairs those that can be made again (`scrubber`)."""

from broker.storage.scrub.scrubber import Scrubber, ScrubConfig

__all__ = ["ScrubConfig", "Scrubber"]
