"""`PostgreSQL`: the rows of an index in a table of PostgreSQL, with pgvector."""

import contextlib
import copy
import dataclasses
import json
from collections.abc import Iterable, Iterator
from typing import Self

from tfdml.registry import register
from tfdml.registry.arguments import Distance
from tfdml.serving.index.stores import postgresql_statements as statements
from tfdml.serving.index.stores.about import About
from tfdml.serving.index.stores.attribute_rows import objects_of
from tfdml.serving.index.stores.engine_store import EngineStore
from tfdml.serving.index.stores.postgresql_address import Address, read_address
from tfdml.serving.index.stores.postgresql_connections import Connections, prepare
from tfdml.serving.index.stores.postgresql_errors import told
from tfdml.serving.index.stores.postgresql_statements import Statements, settings, type_for
from tfdml.serving.index.stores.sql_filter import sql_of
from tfdml.serving.index.stores.store_error import OtherIndex

# The layout of the tables.
VERSION = 1


@register("store", "postgresql")
class PostgreSQL(EngineStore):
    """Rows in a table of PostgreSQL, with pgvector.

    A batch is one transaction. The table `tfdml_indexes` of the same database says what each index is.

    Args:
        address: `//user@host/database?table=photos`, with further options of libpq, and `type=halfvec` for vectors of
            half precision in a new table. The password is that of the environment variable PGPASSWORD, or of
            `~/.pgpass`.
        model, kind, metric: see `Store`.
    """

    kinds = ("flat", "hnsw", "ivf")

    def __init__(self, address: str, model: str | None = None, kind: str | None = None, metric: Distance = "cosine"):
        try:
            import pgvector.psycopg  # noqa: F401
            import psycopg  # noqa: F401
        except ImportError as error:
            raise ImportError(f"PostgreSQL needs {error.name}: pip install 'tfdml[pgvector]'.") from error
        self._address = read_address(address)
        super().__init__(self._address.shown, model, kind, metric)
        self._connections = Connections(self._address.connection)
        self._sql, self._type = Statements(self._address.table), self._address.type

    @contextlib.contextmanager
    def _connection(self):
        with told(self), self._connections.one() as connection:
            yield connection

    @contextlib.contextmanager
    def _transaction(self):
        with self._connection() as connection, connection.transaction():
            yield connection

    def about(self) -> About | None:
        with self._connection() as connection:
            return self._about(connection)

    def _about(self, connection):
        from psycopg.errors import UndefinedTable

        try:
            found = connection.execute(statements.ABOUT, [self._address.table]).fetchone()
        except UndefinedTable:
            return None
        if found is not None and found[0] != VERSION:
            raise ValueError(f"{self} has the layout {found[0]}; this tfdml reads the layout {VERSION}.")
        if found is None:
            return None
        *about, type = found[1:]
        if type and self._address.type not in (None, type):
            raise OtherIndex(f"The index {self} has the type {type}, received type={self._address.type}.")
        # Of a table that is gone there is none.
        self._type = type or self._type
        return About(*about)

    def _create(self, about):
        with self._transaction() as connection:
            # One after the other: two that make the same table at once would fail.
            connection.execute("SELECT pg_advisory_xact_lock(hashtext('tfdml_indexes'))")
            connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
            prepare(connection)
            connection.execute(statements.CREATE_ABOUT)
            if self._about(connection) is not None:
                return
            if connection.execute("SELECT to_regclass(%s)", [self._sql.name]).fetchone()[0] is not None:
                raise ValueError(f"{self} has a table of this name that is no index; give another one.")
            self._type = type_for(about, self._address.type)
            connection.execute(self._sql.create(about.dimension, self._type))
            row = [self._address.table, VERSION, about.model, about.dimension, about.metric, about.kind]
            connection.execute(statements.NOTE_ABOUT, row)

    def _reserve(self, count, after, columns):
        _check_texts("The name of an attribute", columns)
        with self._transaction() as connection:
            (first,) = connection.execute(
                statements.RESERVE, [count, after, json.dumps(columns), self._address.table]
            ).fetchone()
        return first - count

    def _write(self, ids, vectors, table):
        from psycopg.types.json import Jsonb

        attributes, labels, paths = objects_of(table), table["label"].to_pylist(), table["path"].to_pylist()
        for name, texts in {"path": paths, "label": labels}.items():
            _check_texts(f"A {name}", texts)
        for path, each in zip(paths, attributes, strict=True):
            _check_texts(f"An attribute of {path}", each.values())
        columns = ids.tolist(), paths, labels, map(Jsonb, attributes)
        # In one order, so that two that write the same paths wait for each other, and not in a circle.
        self._take(sorted(zip(*columns, vectors, strict=True), key=lambda row: row[1]), [self._sql.take_new])

    def _take(self, rows, taking):
        from psycopg.errors import UniqueViolation

        with self._connection() as connection:
            try:
                _copied(connection, rows, taking)
            except UniqueViolation:
                # Another process has written the same rows just now: then each takes the place of itself.
                _copied(connection, rows, taking)

    def _delete(self, ids, compact):
        with self._transaction() as connection:
            found = {id for (id,) in connection.execute(self._sql.delete, [list(ids)])}
            if found != ids:
                # The error takes the deletion back.
                raise ValueError(f"{min(ids - found)} is not in the index {self}, and nothing is deleted.")

    def _count(self, condition):
        text, values = _where(condition)
        with self._connection() as connection:
            return connection.execute(self._sql.count(text), values).fetchone()[0]

    def paths_of(self, ids: Iterable[int]) -> dict[int, str]:
        return self._looked_up(self._sql.paths_of, list(ids))

    def ids_of(self, paths: Iterable[str]) -> dict[str, int]:
        return self._looked_up(self._sql.ids_of, list(paths))

    def _looked_up(self, statement, keys):
        if self.about() is None:
            return {}
        with self._connection() as connection:
            return dict(connection.execute(statement, [keys]).fetchall())

    def _nearest(self, about, vectors, k, condition, exact):
        from pgvector import Vector

        text, values = _where(condition)
        statement = self._sql.nearest(about.metric, text, self._type)
        set_up = settings(self.index_of(about.kind), k, exact)
        # In a pipeline, whose statements do not wait for each other's answers.
        with self._connection() as connection, connection.pipeline(), connection.transaction():
            for setting in set_up:
                connection.execute(setting)
            asked = [connection.execute(statement, [each, *values, each, k]) for each in map(Vector, vectors)]
            return [cursor.fetchall() for cursor in asked]

    def build(self) -> None:
        about = self.existing()
        if self._exists(self._sql.index_name) or not self.count():
            return
        made = self._sql.create_index(self.index_of(about.kind), about, self._type, self.count())
        with self._transaction() as connection:
            for statement in made:
                connection.execute(statement)

    def successor(self, about: About) -> Self:
        found = copy.copy(self)
        # A name that no address can have, so that it is no index of somebody.
        type = "halfvec" if self._type == "halfvec" else self._address.type
        connection, table, _, shown = self._address
        found._address = Address(connection, f"{table}-next", type, shown)
        found._sql = Statements(found._address.table)
        found.model, found.kind, found.metric = about.model, about.kind, about.metric
        there = found.about()
        if there is not None and dataclasses.replace(there, columns=about.columns) != about:
            with self._transaction() as connection:
                connection.execute(found._sql.drop)
                connection.execute(statements.FORGET_ABOUT, [found._address.table])
        found.prepare(about.dimension, 0)
        return found

    def pages(self, count: int) -> Iterator[list[tuple[int, str]]]:
        after = -1
        while True:
            with self._connection() as connection:
                found = connection.execute(self._sql.page, [after, count]).fetchall()
            if not found:
                return
            yield found
            after = found[-1][0]

    def _take_vectors(self, ids, vectors, of):
        rows = [(id, None, None, None, vector) for id, vector in zip(ids, vectors, strict=True)]
        self._take(rows, self._sql.take_vectors(of._sql))

    def take_place(self, of: Self) -> bool:
        new, old = self._sql, of._sql
        with self._transaction() as connection:
            # Searches go on, and writers wait.
            connection.execute(old.lock)
            connection.execute(f"DELETE FROM {new.name} WHERE {new.without(old)}")
            if connection.execute(old.count(old.without(new))).fetchone()[0]:
                return False
            kept = connection.execute(statements.GRANTS, [old.name, old.name]).fetchall()
            kept += connection.execute(statements.INDEXES, [old.name, old.index_name]).fetchall()
            names = self._address.table, of._address.table
            connection.execute(statements.MOVE_ABOUT, names)
            connection.execute(statements.FORGET_ABOUT, names[:1])
            for statement in [*new.take_name(old), *(statement for (statement,) in kept)]:
                connection.execute(statement)
        return True

    def _exists(self, name):
        with self._connection() as connection:
            return connection.execute("SELECT to_regclass(%s)", [name]).fetchone()[0] is not None

    def close(self) -> None:
        self._connections.close()


def _where(condition):
    text, values = ("true", []) if condition is None else sql_of(condition)
    _check_texts("The filter", values)
    return text, values


def _check_texts(what, values):
    wrong = next((value for value in values if isinstance(value, str) and "\0" in value), None)
    if wrong is not None:
        raise ValueError(f"{what} has a zero byte, which no text in PostgreSQL can have: {wrong[:100]!r}. Remove it.")


def _copied(connection, rows, taking):
    """Has the statements take what a temporary table has, in one transaction."""
    with connection.transaction():
        connection.execute(statements.CREATE_NEW)
        with connection.cursor().copy(statements.COPY) as copy:
            copy.set_types(["int8", "text", "text", "jsonb", "vector"])
            for row in rows:
                copy.write_row(row)
        for statement in taking:
            connection.execute(statement)
