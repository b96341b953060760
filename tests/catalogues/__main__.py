"""Renew the catalogues from the sources and compile them: `python -m tests.catalogues`, or `make messages`.

Ends with 1 while something waits for its translation, and names it.
"""

import sys

from .catalogue import languages, path_of, read, renew, untranslated
from .sources import ROOT, messages


def main() -> int:
    """Renew each catalogue, and tell."""
    found = messages()
    missing = 0
    for language in languages():
        came, went = renew(language, found)
        waiting = untranslated(read(language))
        missing += len(waiting)
        place = path_of(language).relative_to(ROOT)
        print(f"{place}: {len(found)} messages, {came} new, {went} gone, {len(waiting)} to be translated")
        for text in waiting:
            print(f"    {text!r}")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
