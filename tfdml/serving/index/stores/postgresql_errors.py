"""Errors of PostgreSQL, in one line."""

import contextlib

from tfdml.serving.index.stores.store_error import StoreError


@contextlib.contextmanager
def told(store):
    """Turns errors of psycopg into a `StoreError`, which may pass, or a ValueError; each names the store."""
    import psycopg
    from psycopg import errors

    try:
        yield
    except errors.InsufficientPrivilege as error:
        raise ValueError(f"{store}: {_line(error)}; docs/stores.md says which privileges are needed.") from error
    except errors.ReadOnlySqlTransaction as error:
        raise ValueError(f"{store} is read-only: {_line(error)}.") from error
    except errors.UniqueViolation as error:
        raise ValueError(
            f"{store} has a row with one of these ids already; delete it first, or leave ids out."
        ) from error
    except (psycopg.OperationalError, psycopg.InterfaceError) as error:
        raise StoreError(f"{store} does not answer, or cannot go on: {_line(error)}. Repeat it to go on.") from error
    except errors.UndefinedTable as error:
        raise ValueError(f"{store}: a table is gone: {_line(error)}.") from error
    except psycopg.Error as error:
        raise ValueError(f"{store}: {_line(error)}.") from error


def _line(error):
    return " ".join(str(error).split("\n")[0].split()).rstrip(".") or type(error).__name__
