"""`python3 benches NAME ...`: the benchmarks that are written in Python, since they run other
systems from outside. Each is a package beside this file; what they share is `harness`. The `nile`
command starts them, with arguments that it has checked."""

import sys
from importlib import import_module

BENCHMARKS = ("peers", "paper", "linux", "stream", "net", "hotplug")

if __name__ == "__main__":
    name = sys.argv[1] if len(sys.argv) > 1 else ""
    if name not in BENCHMARKS:
        sys.exit(f"usage: python3 benches {'|'.join(BENCHMARKS)} ...")
    sys.exit(import_module(f"{name}.main").main(sys.argv[2:]))
