"""Build the package. All that describes it is in setup.cfg."""

import shutil

from setuptools import setup

# What an earlier build of this folder left: setuptools packs files from there that are long gone from the sources, and
# a migration that was renamed would be installed twice.
shutil.rmtree("build/lib", ignore_errors=True)

setup()
