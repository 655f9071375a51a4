"""What `measure_jax.py` and `measure_torch.py` share: sizes, the clock, and the table."""

import statistics
import time

COLUMNS = (
    "kind", "dtype", "m", "n", "k", "batch", "queries", "keys", "heads", "kv_heads", "head_dim",
    "bytes", "devices", "nodes", "measured_us", "spread")
SHORTEST_S = 5e-3


def product_shapes(quick):
    """Square products, and those of a few rows that wait for memory."""
    edges = (256, 512, 1024) if quick else (512, 1024, 2048, 4096, 8192)
    squares = [(edge, edge, edge) for edge in edges]
    return squares + [(rows, edge, edge) for edge in edges[-2:] for rows in (1, 16, 128)]


def element_counts(quick):
    """Of passes and collectives: powers of four."""
    return [4**power for power in (range(5, 11, 2) if quick else range(5, 15))]


class Table:
    """Rows of CSV, printed as they are measured.

    `wait` waits for the result of a kernel, and `agree` makes a number that of the first process,
    since all processes of a collective have to run it as often.
    """

    def __init__(self, dtypes, runs, wait, agree=lambda number: number, prints=True):
        self.dtypes, self.runs, self.prints = dtypes, runs, prints
        self.wait, self.agree = wait, agree
        self.line(COLUMNS)

    def line(self, cells):
        """One line, at once, so that a log that is cut short keeps what it has."""
        if self.prints:
            print(",".join(str(cell) for cell in cells), flush=True)

    def add(self, kind, run, **sizes):
        """Times a kernel: the median of its runs, and how far the middle half of them is apart."""
        low, median, high = statistics.quantiles(self.times(run), n=4)
        row = {"kind": kind, **sizes, "measured_us": f"{median * 1e6:.4g}",
               "spread": f"{(high - low) / median:.3f}"}
        self.line(row.get(column, "") for column in COLUMNS)

    def times(self, run):
        """Seconds of one kernel, run after run. Short ones are started many times between two looks
        at the clock, as programs do, so that what starting them costs the host is hidden as there.
        """
        self.seconds(run, 2)
        repeats = self.agree(max(1, min(100, round(SHORTEST_S / self.seconds(run, 1)))))
        return [self.seconds(run, repeats) for _ in range(self.runs)]

    def seconds(self, run, repeats):
        """Seconds of one of so many."""
        start = time.perf_counter()
        for _ in range(repeats):
            result = run()
        self.wait(result)
        return (time.perf_counter() - start) / repeats
