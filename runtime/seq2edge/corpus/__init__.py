"""Translate corpora: Parquet, JSON lines, CSV or text, on one machine or on a Ray cluster.

>>> from seq2edge.corpus import worker
>>> dataset.map_batches(worker("bundle/", column="text"))  # Ray Data; see docs/corpora.md for Spark and Dask
"""

from seq2edge.corpus.worker import Worker, worker

__all__ = ["Worker", "worker"]
