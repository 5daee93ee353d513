# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A data loader: workers that decode samples into a new buffer for each batch.

A buffer of this size is new memory each time, as a collated batch of a training framework is: the kernel maps
and clears its pages at the first touch. Prints JSON: `rate` in samples/s, `batch_ms` of each batch.
"""

from __future__ import annotations

import argparse
import json
import mmap
import multiprocessing
import os
import time

#: Bytes of a decoded sample: an image of 224 x 224 pixels with three channels of 4 bytes
SAMPLE = 224 * 224 * 3 * 4


def batch(samples: int, decoded: bytes) -> float:
    """Milliseconds to collate one batch."""
    begin = time.perf_counter()
    with mmap.mmap(-1, samples * SAMPLE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as buffer:
        for _sample in range(samples):
            buffer.write(decoded)
    return 1000 * (time.perf_counter() - begin)


def worker(given: argparse.Namespace) -> list[float]:
    """Times of all batches of one worker."""
    decoded = os.urandom(SAMPLE)
    return [batch(given.samples, decoded) for _batch in range(given.batches)]


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure a data loader.")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--batches", type=int, default=100, help="of each worker")
    parser.add_argument("--samples", type=int, default=64, help="of each batch")
    given = parser.parse_args()
    with multiprocessing.get_context("fork").Pool(given.workers) as pool:
        begin = time.perf_counter()
        times = pool.map(worker, [given] * given.workers, chunksize=1)
        seconds = time.perf_counter() - begin
    samples = given.workers * given.batches * given.samples
    milliseconds = [round(value, 4) for values in times for value in values]
    print(json.dumps({"rate": samples / seconds, "batch_ms": milliseconds}))


if __name__ == "__main__":
    main()
