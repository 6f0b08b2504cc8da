"""numpy and pyarrow, which only this package needs."""

try:
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc
except ImportError as error:
    raise ImportError(
        f'Arrow needs numpy 2 or later and pyarrow ({error}): pip install "kraft[arrow]"', name=error.name
    ) from error

__all__ = ["np", "pa", "pc"]
