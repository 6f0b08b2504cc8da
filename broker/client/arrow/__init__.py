"""Record batches to and from Apache Arrow, a column at a time. Needs the extra: `pip install "kraft[arrow]"`."""

from broker.client.arrow.decode import decode_arrow
from broker.client.arrow.schema import COLUMNS, schema_of

__all__ = ["COLUMNS", "decode_arrow", "schema_of"]
