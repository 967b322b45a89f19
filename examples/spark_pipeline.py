"""Translate a column of a Spark data frame: python examples/spark_pipeline.py english.parquet translated/ ."""

import sys

from pyspark.sql import SparkSession
from pyspark.sql.types import StringType, StructField, StructType

from seq2edge.corpus import worker


def main(source: str, target: str) -> None:
    spark = SparkSession.builder.master("local[2]").appName("translate").getOrCreate()
    frame = spark.read.parquet(source).repartition(2)  # partitions are translated at the same time
    translate = worker(column="text", num_beams=1)  # each Python process opens the bundle once
    schema = StructType([*frame.schema.fields, StructField("translation", StringType())])
    frame.mapInPandas(lambda parts: map(translate, parts), schema).write.mode("overwrite").parquet(target)
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
