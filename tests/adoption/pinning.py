"""Write requirements/demo.txt: the section "Running" of requirements.txt and all that it needs, with hashes.

`make pins` runs it, with the pip-compile of an environment of its own. The hashes of all of a release's files are taken
from the index, so one file serves every platform and Python.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

from .building import ROOT

DEMO = ROOT / "requirements" / "demo.txt"
HEADER = """\
# What `make demo` installs: the section "Running" of requirements.txt and all that it needs, with the hashes of the
# files for every platform, so that pip takes nothing else. Made by `make pins`; do not edit.
"""
OPTIONS = [
    "--quiet",
    "--generate-hashes",
    "--strip-extras",
    "--no-header",
    "--no-annotate",
    "--no-emit-index-url",
    "--no-emit-find-links",
    "--no-emit-trusted-host",
]


def pins(text: str) -> dict[str, str]:
    """Return name → version of the lines of a requirements file; names without extras, as indexes spell them."""
    found = {}
    for line in text.splitlines():
        name, equals, version = line.partition("==")
        if equals and not line.startswith("#"):
            found[name.partition("[")[0].lower().replace("_", "-").replace(".", "-")] = version.split()[0]
    return found


def section(title: str) -> list[str]:
    """Return the lines of a section of requirements.txt."""
    _, _, rest = (ROOT / "requirements.txt").read_text().partition(f"# {title}\n")
    return [line for line in rest.partition("\n\n")[0].splitlines() if not line.startswith("#")]


def main(pip_compile: str) -> None:
    """Resolve with the versions of requirements.txt as constraints, and write the file."""
    with tempfile.TemporaryDirectory() as name:
        wanted, bounds, made = (Path(name) / part for part in ("wanted.in", "bounds.txt", "made.txt"))
        wanted.write_text("\n".join(section("Running")) + "\n")
        everything = pins((ROOT / "requirements.txt").read_text())
        bounds.write_text("".join(f"{package}=={version}\n" for package, version in everything.items()))
        subprocess.run([pip_compile, *OPTIONS, "-c", bounds, "-o", made, wanted], check=True)
        DEMO.write_text(HEADER + made.read_text())


if __name__ == "__main__":
    main(sys.argv[1])
