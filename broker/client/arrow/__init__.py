"""Record batches to and from Apache Arrow, a column at a time. Needs the extra: `pip install "kraft[arrow]"`."""

from broker.client.arrow.decode import DecodedRows, decode_arrow
from broker.client.arrow.schema import COLUMNS, DEFAULT_COLUMNS, PRODUCER_COLUMNS, schema_of, table_of

__all__ = ["COLUMNS", "DEFAULT_COLUMNS", "PRODUCER_COLUMNS", "DecodedRows", "decode_arrow", "schema_of", "table_of"]
