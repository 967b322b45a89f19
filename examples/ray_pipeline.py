"""Translate a column of a Ray dataset: python examples/ray_pipeline.py english.parquet translated/ ."""

import sys

import ray

from seq2edge.corpus import worker


def main(source: str, target: str) -> None:
    ray.init(num_cpus=2, include_dashboard=False, ignore_reinit_error=True)
    translate = worker(column="text", keep=("notes",), num_beams=1)  # each process opens the bundle once
    dataset = ray.data.read_parquet(source).repartition(4)  # more blocks than processes keep all of them busy
    dataset.map_batches(translate, batch_format="pandas", batch_size=256).write_parquet(target)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
