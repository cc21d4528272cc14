"""Writes to a core until it is killed or done: ``python -m tests.memory.child PATH FIRST NUMBER BATCH``.

Says the number of each batch once it is written.
"""

import sys
from pathlib import Path

from dualmind.memory.core import Core
from tests.memory.entries import entry


def main(path: Path, first: int, number: int, batch: int) -> None:
    with Core(path, 100_000) as core:
        for start in range(first, first + number, batch):
            core.write([entry(i) for i in range(start, start + batch)])
            print(start, flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), *map(int, sys.argv[2:5]))
