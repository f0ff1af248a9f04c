"""Addresses of tables in PostgreSQL: `postgresql://user@host/database?table=photos`."""

import re
from typing import NamedTuple
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

TABLE, LONGEST = "images", 40
TYPES = ("vector", "halfvec")
# Seconds to connect, and milliseconds until a connection that nobody answers is lost.
USUAL = {"connect_timeout": "5", "tcp_user_timeout": "10000"}


class Address(NamedTuple):
    """An address of a table.

    Args:
        connection: what psycopg takes.
        table: its name.
        type: of its vectors, `vector` or `halfvec`; None: not said.
        shown: the address as it is told.
    """

    connection: str
    table: str
    type: str | None
    shown: str


def read_address(rest):
    """Returns the `Address` of what follows `postgresql:`; a ValueError if it is none, or has a password."""
    parts = urlsplit(f"postgresql:{rest}")
    # The address itself must not be told here: it may hold a secret.
    expected = "expected postgresql://user@host/database?table=photos"
    if not rest.startswith("//"):
        raise ValueError(f"The address of the store is wrong: {expected}.")
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    secret = next((name for name in options if "password" in name.lower()), None)
    if secret or parts.password:
        raise ValueError("The address of the store has a password: leave it out, and set PGPASSWORD, or use ~/.pgpass.")
    table = options.pop("table", TABLE)
    if len(table) > LONGEST or not re.fullmatch(r"\w+", table, re.ASCII):
        raise ValueError(
            f"table={table!r:.60}: expected at most {LONGEST} letters, digits and underscores; {expected}."
        )
    type = options.pop("type", None)
    if type not in (None, *TYPES):
        raise ValueError(f"type={type!r:.60}: expected {' or '.join(TYPES)}.")
    place = f"postgresql://{parts.netloc}{parts.path}"
    shown = {**options, **({"type": type} if type else {}), "table": table}
    query = urlencode({**USUAL, **options}, quote_via=quote)
    return Address(f"{place}?{query}", table, type, f"{place}?{urlencode(shown, safe='/')}")
