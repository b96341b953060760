"""Tests of the pages for machines."""
