"""Looks for what should never be: damage to the file, and rows that disagree with each other."""

import sqlite3
from collections.abc import Callable
from pathlib import Path

from retinue.schema.errors import StoreUnavailable
from retinue.storage.connection import connect, unavailable

_FINDINGS: tuple[tuple[str, Callable[..., str]], ...] = (
    (
        """
        SELECT id, head, ifnull((SELECT max(seq) FROM events WHERE thread = key), 0) AS last
        FROM threads WHERE head <> last
        """,
        "thread {} has a head of {} and {} events".format,
    ),
    (
        """
        SELECT id, seq, before FROM (
            SELECT thread, seq, seq - 1 - ifnull(length(sizes) - length(replace(sizes, ',', '')), 0) AS first,
                lag(seq, 1, 0) OVER (PARTITION BY thread ORDER BY seq) AS before FROM events
        ) JOIN threads ON threads.key = thread WHERE first <> before
        """,
        "thread {}: the events up to {} do not follow those up to {}".format,
    ),
    (
        """
        SELECT threads.id, inbox_head, drained, count(position) AS found, ifnull(max(position), 0) AS last
        FROM threads LEFT JOIN inbox ON thread = key AND position > drained AND data IS NOT NULL
        GROUP BY key HAVING drained > inbox_head OR found <> inbox_head - drained OR (found AND last <> inbox_head)
        """,
        "thread {} has an inbox head of {}, {} drained, and {} entries up to {} waiting".format,
    ),
    (
        """
        SELECT id, spent_cost, spent_tokens, unpriced FROM threads AS above WHERE EXISTS (
            SELECT 1 FROM threads AS below WHERE below.parent_key = above.key
            GROUP BY below.parent_key HAVING sum(below.spent_cost) > above.spent_cost
                OR sum(below.spent_tokens) > above.spent_tokens OR sum(below.unpriced) > above.unpriced)
        """,
        "thread {} has spent {} nano-dollars and {} tokens with {} unpriced requests: less than its children".format,
    ),
    (
        """
        SELECT id, reserved_cost, reserved_tokens, total(held.cost) AS found, total(held.tokens) AS found_tokens
        FROM threads LEFT JOIN (
            SELECT thread, cost, tokens FROM reservations WHERE NOT settled
            UNION ALL
            SELECT parent_key, reserved_cost, reserved_tokens FROM threads WHERE parent_key IS NOT NULL
        ) AS held ON held.thread = key
        GROUP BY key HAVING reserved_cost <> found OR reserved_tokens <> found_tokens
        """,
        "thread {} has {} nano-dollars and {} tokens reserved; its requests say {:.0f} and {:.0f}".format,
    ),
)


def check(path: Path) -> list[str]:
    """Sentences about everything found wrong; empty when all is well."""
    try:
        connection = connect(path, reads_only=True)
    except StoreUnavailable as error:
        return [error.message]
    try:
        damage = [str(line) for (line,) in connection.execute("PRAGMA quick_check(20)") if line != "ok"]
        if damage:
            return [f"{path} is damaged: {line}" for line in damage]
        return [say(*row) for sql, say in _FINDINGS for row in connection.execute(sql)]
    except sqlite3.Error as error:
        return [unavailable(error, path).message]
    finally:
        connection.close()
