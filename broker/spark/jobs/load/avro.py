"""Avro values: decodes a column by a schema, and detects bytes that do not fit the schema.

Spark's own reader does not detect them. It returns a record whose fields are all null, as a valid record may be, and it
ignores bytes after a value. So values are read as a record of two fields: the value, and a mark that is appended to its
bytes. Only where the mark is found again do the bytes fit, from the first to the last.
"""

import json
from typing import Any, Final

from py4j.java_gateway import JavaPackage
from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812

from broker.spark.jobs.results import JobFailed

# Avro's error messages repeat the schema.
_REASON_MAX: Final = 200
_MARK: Final = b"\xffend\xff\x00\xfe\xff"


def parse_avro(value: Column, schema: str) -> tuple[Column, Column]:
    """The decoded column of `value` by an Avro schema in JSON, and whether its bytes fit. Raises JobFailed without
    spark-avro.
    """
    from pyspark.sql.avro.functions import from_avro

    _require_spark_avro()
    marked = F.concat(value, F.lit(_MARK))
    read = from_avro(marked, _marked(schema), {"mode": "PERMISSIVE"})
    return read.getField("value"), read.getField("mark").eqNullSafe(F.lit(_MARK))


def normal_avro_schema(schema: str) -> str:
    """The schema as Avro itself writes it.

    Raises JobFailed without spark-avro, and if it is no schema, or one that Spark has no type for.
    """
    _require_spark_avro()
    jvm = _jvm()
    try:
        parsed = jvm.org.apache.avro.Schema.Parser().parse(schema)
        jvm.org.apache.spark.sql.avro.SchemaConverters.toSqlType(parsed)
    except Py4JError as error:
        reason = " ".join(str(getattr(error, "java_exception", error)).split())
        raise JobFailed(f"{schema!r} is not an Avro schema that Spark can read: {reason[:_REASON_MAX]}") from error
    return str(parsed.toString())


def _marked(schema: str) -> str:
    """Returns the schema of a record of the value and the mark. Avro encodes it as one after the other."""
    mark = {"type": "fixed", "name": "kraft_load_mark", "size": len(_MARK)}
    fields = [{"name": "value", "type": json.loads(schema)}, {"name": "mark", "type": mark}]
    return json.dumps({"type": "record", "name": "kraft_load_value", "fields": fields})


def _require_spark_avro() -> None:
    # Asked here, as PySpark prints a page about the package that is missing.
    if isinstance(_jvm().org.apache.spark.sql.avro.AvroDataToCatalyst, JavaPackage):
        raise JobFailed(
            "Avro values need Spark's own package for them: --conf spark.jars.packages="
            "org.apache.spark:spark-avro_2.13:VERSION, in PySpark's version or the newest before it"
        )


def _jvm() -> Any:
    context = SparkContext._active_spark_context
    assert context is not None, "values are parsed in a session"
    return context._jvm
