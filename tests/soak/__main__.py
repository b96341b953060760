"""Run the soak: `python -m tests.soak [--seconds N] [--seed N]`; ends with 1 where anything was violated.

SOAK_SECONDS and SOAK_SEED say the same. A private PostgreSQL server takes the faults; what handlers did is written to a
database of the server named by DATABASE_URL, which nobody harms.
"""

import argparse
import os
import random
import sys
import tempfile
from pathlib import Path

import django

from tests.faults.servers import PrivateServer, new_home

DEFAULT_SECONDS = 1200


def main() -> int:
    """Make the server and the folder, run, and tell."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--seconds", type=float, default=float(os.environ.get("SOAK_SECONDS") or DEFAULT_SECONDS))
    parser.add_argument("--seed", type=int, default=int(os.environ.get("SOAK_SEED") or random.randrange(10**6)))
    options = parser.parse_args()
    print(f"soak of {options.seconds:g} s; again with: SOAK_SEED={options.seed}", flush=True)
    server = PrivateServer(new_home())
    folder = Path(tempfile.mkdtemp(prefix="jobqueue-soak-"))
    try:
        stays = os.environ["DATABASE_URL"]
        os.environ["DATABASE_URL"] = server.create().url()
        os.environ["DJANGO_SETTINGS_MODULE"] = "tests.settings"
        django.setup()
        from .soak import Soak

        return Soak(server, folder, stays=stays, seed=options.seed).run(options.seconds)
    finally:
        server.destroy()


if __name__ == "__main__":
    sys.exit(main())
