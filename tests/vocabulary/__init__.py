"""Tests of the lowest floor: what needs no database, and the one promise about it that only a database can prove."""
