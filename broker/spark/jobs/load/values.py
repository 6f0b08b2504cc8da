"""The formats of values: plain bytes, or JSON or Avro with a schema. Detects rows that do not fit the schema."""

import json
from collections.abc import Callable
from enum import Enum
from typing import Final

import attrs
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StringType, StructField, StructType

from broker.spark.jobs.files import JobFiles
from broker.spark.jobs.load.avro import normal_avro_schema, parse_avro
from broker.spark.jobs.results import JobFailed

_CORRUPT: Final = "_does_not_fit"
_SCHEMA_FILE: Final = "_manifests/value-schema"
# Values that an inferred schema is made from.
SAMPLE_MAX: Final = 10_000


class ValueFormat(Enum):
    """The format in which values are read."""

    BINARY = "binary"
    JSON = "json"
    AVRO = "avro"


@attrs.frozen
class ParsedValues:
    """`value` is the column to store, `misfit` true for a row whose value does not fit the schema."""

    value: Column
    misfit: Column


def parse_values(value_format: ValueFormat, schema: str | None) -> ParsedValues:
    """The columns for a frame with a binary column `value`. A null value, a tombstone, always fits.

    `schema` is as DDL or JSON for `JSON`, and an Avro schema in JSON for `AVRO`. Raises JobFailed if it is wrong, and
    without the package that reads Avro.
    """
    match value_format:
        case ValueFormat.BINARY:
            return ParsedValues(F.col("value"), F.lit(False))
        case ValueFormat.JSON:
            return _json(_struct(_required(schema)))
        case ValueFormat.AVRO:
            value, fits = parse_avro(F.col("value"), _required(schema))
            return ParsedValues(value, F.col("value").isNotNull() & ~fits)


def kept_schema(files: JobFiles, value_format: ValueFormat, given: str | None) -> str | None:
    """The schema of a destination, which its first run has stored; None before that, and for bytes.

    Raises JobFailed if another one is given now, or a wrong one, or none for Avro.
    """
    if value_format is ValueFormat.BINARY:
        return None
    wanted = None if given is None else _normal(value_format, given)
    if not files.exists(_SCHEMA_FILE):
        if wanted is None and value_format is ValueFormat.AVRO:
            raise JobFailed("Avro values need a schema")
        return None
    kept = files.read(_SCHEMA_FILE)
    if wanted is not None and wanted != kept:
        raise JobFailed(f"{files.uri(_SCHEMA_FILE)} differs from the schema that is given: {kept}")
    return kept


def store_schema(
    spark: SparkSession,
    files: JobFiles,
    value_format: ValueFormat,
    given: str | None,
    sample: Callable[[], DataFrame],
) -> str | None:
    """Store the schema that is given, or one that is inferred from a sample of JSON values; None for bytes.

    Raises JobFailed if none can be inferred.
    """
    if value_format is ValueFormat.BINARY:
        return None
    schema = _normal(value_format, given) if given is not None else _inferred(spark, sample())
    files.write_new(_SCHEMA_FILE, schema)
    return schema


def _normal(value_format: ValueFormat, schema: str) -> str:
    return _struct(schema).json() if value_format is ValueFormat.JSON else normal_avro_schema(schema)


def _required(schema: str | None) -> str:
    assert schema is not None, "JSON and Avro are loaded by a schema"
    return schema


def _struct(schema: str) -> StructType:
    try:
        is_json = schema.lstrip().startswith("{")
        found = StructType.fromJson(json.loads(schema)) if is_json else StructType.fromDDL(schema)
    except (PySparkException, ValueError, KeyError) as error:
        raise JobFailed(f"{schema!r} is not a schema: {error}") from error
    if not isinstance(found, StructType) or not found.fields:
        raise JobFailed(f"{schema!r} is not the schema of an object; write for example 'id bigint, name string'")
    return found


def _json(schema: StructType) -> ParsedValues:
    with_corrupt = StructType([*schema.fields, StructField(_CORRUPT, StringType())])
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT}
    parsed = F.from_json(F.col("value").cast("string"), with_corrupt, options)
    is_corrupt = parsed.isNull() | parsed.getField(_CORRUPT).isNotNull()
    return ParsedValues(parsed.dropFields(_CORRUPT), F.col("value").isNotNull() & is_corrupt)


def _inferred(spark: SparkSession, frame: DataFrame) -> str:
    rows = frame.select(F.col("value").cast("string").alias("text")).where("text is not null").limit(SAMPLE_MAX)
    texts = [row.text for row in rows.collect()]
    if not texts:
        raise JobFailed("No schema can be inferred from a topic without values; give one")
    schema = spark.read.option("mode", "DROPMALFORMED").json(spark.sparkContext.parallelize(texts, 1)).schema
    if not schema.fields:
        raise JobFailed(
            f"No schema can be inferred: the first values are not JSON objects, for example {texts[0][:80]!r}"
        )
    return schema.json()
