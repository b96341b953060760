"""What a migration after 0001 may do to tables in use: whatever is not known to be harmless is refused."""

import re
from collections.abc import Iterable

NAME = r'"?(?P<name>\w+)"?'
TABLE = r'(?:ONLY )?"?(?P<table>\w+)"?'
#: Changes of a table that hold no strong lock for longer than a moment, and read and rewrite no row.
HARMLESS_CHANGES = (
    r"(RE)?SET \([\w\s=.,]+\)",
    r"ADD COLUMN \"?\w+\"? (?!.*(NOT|DEFAULT))[\w ]+(\([\d, ]+\)|\[\])? NULL",
    r"ADD COLUMN \"?\w+\"? [\w ]+(\([\d, ]+\))? DEFAULT ('[^']*'(::\w+)?|[\d.]+|true|false) NOT NULL",
    r"ADD CONSTRAINT .* NOT VALID",
    r"VALIDATE CONSTRAINT \"?\w+\"?",
    r"DROP CONSTRAINT (IF EXISTS )?\"?\w+\"?",
)
HARMLESS = (
    r"BEGIN|COMMIT",
    r"(CREATE|CREATE OR REPLACE|DROP) (PROCEDURE|FUNCTION) .*",
    r"COMMENT ON .*",
    r"CREATE TABLE .*",
    r"SET LOCAL lock_timeout .*",
)
#: What the way back may do besides: it removes what the way forward added, under a lock for a moment.
HARMLESS_CHANGES_BACK = (*HARMLESS_CHANGES, r"DROP COLUMN \"?\w+\"? CASCADE")
HARMLESS_BACK = (*HARMLESS, r"DROP TABLE \"?\w+\"? CASCADE")
INDEX = re.compile(rf"CREATE (UNIQUE )?INDEX (?P<concurrently>CONCURRENTLY )?{NAME} ON {TABLE}", re.IGNORECASE)
ALTER = re.compile(rf"ALTER TABLE {TABLE} (?P<change>.*)", re.IGNORECASE)
DROP_INDEX = re.compile(rf"DROP INDEX (?P<concurrently>CONCURRENTLY )?(IF EXISTS )?{NAME}", re.IGNORECASE)
CREATE_TABLE = re.compile(rf"CREATE TABLE {TABLE}", re.IGNORECASE)


def statements(text: str) -> list[str]:
    """Return the statements of a migration's SQL, each on one line, without comments and bodies of procedures."""
    text = re.sub(r"(\$\w*\$).*?\1", "$$$$", text, flags=re.DOTALL)
    text = re.sub(r"--[^\n]*|/\*.*?\*/", "", text, flags=re.DOTALL)
    return [" ".join(part.split()) for part in text.split(";") if part.strip()]


def complaints(sql: Iterable[str], *, atomic: bool, backwards: bool = False) -> list[str]:
    """Return what is wrong with a migration's statements, nothing for a harmless one."""
    changes = HARMLESS_CHANGES_BACK if backwards else HARMLESS_CHANGES
    harmless = HARMLESS_BACK if backwards else HARMLESS
    found: list[str] = []
    new_tables: set[str] = set()
    dropped: set[str] = set()
    for statement in sql:
        if made := CREATE_TABLE.match(statement):
            new_tables.add(made["table"])
        elif index := INDEX.match(statement):
            if index["table"] not in new_tables:
                found += _index_complaints(index, atomic=atomic, again=index["name"] in dropped)
        elif drop := DROP_INDEX.match(statement):
            dropped.add(drop["name"])
            if not drop["concurrently"]:
                found.append(f"drops an index under a lock on its table: {statement}")
        elif change := ALTER.match(statement):
            if change["table"] not in new_tables and not _matches(changes, change["change"]):
                found.append(f"not known to be harmless for a table in use: {statement}")
        elif not _matches(harmless, statement):
            found.append(f"not known to be harmless: {statement}")
    return found


def _index_complaints(index: re.Match[str], *, atomic: bool, again: bool) -> list[str]:
    if not index["concurrently"]:
        return [f"blocks every enqueue while it builds {index['name']}: use BuildIndex"]
    wrong = []
    if atomic:
        wrong.append(f"builds {index['name']} concurrently, which needs atomic = False")
    if not again:
        wrong.append(f"cannot be run again once a build of {index['name']} was cut off: use BuildIndex")
    return wrong


def _matches(patterns: Iterable[str], text: str) -> bool:
    return any(re.fullmatch(pattern, text, re.IGNORECASE) for pattern in patterns)
