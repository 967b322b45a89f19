"""Measure latency, throughput and memory of bundles and of other tools."""
