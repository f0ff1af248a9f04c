"""Rows of an index in a PostgreSQL table with pgvector."""

import contextlib
import copy
import dataclasses
import json
import queue
import re
import select
from collections.abc import Iterable, Iterator
from typing import NamedTuple, Self
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

from tfdml.registry import register
from tfdml.registry.arguments import Distance
from tfdml.serving.index.attributes import OWN
from tfdml.serving.index.filters import All, Among, AnyOf, Compared, ComparedColumns, Missing, Not
from tfdml.serving.index.folder import index_of_kind
from tfdml.serving.index.stores.engine import EngineStore, objects_of
from tfdml.serving.index.stores.store import Description, OtherIndex, StoreError

TABLE, LONGEST = "images", 40
TYPES = ("vector", "halfvec")
# Seconds for connecting, and milliseconds after which a connection without an answer is lost.
USUAL = {"connect_timeout": "5", "tcp_user_timeout": "10000"}


class Address(NamedTuple):
    """Connection string for psycopg, table, type of its vectors or `None`, and the address as messages show it."""

    connection: str
    table: str
    type: str | None
    shown: str


def read_address(rest):
    """Returns the `Address` for the part after `postgresql:`. Raises a ValueError if it is wrong or has a password."""
    parts = urlsplit(f"postgresql:{rest}")
    # Errors must not show the address, because it may contain a secret.
    expected = "Expected postgresql://user@host/database?table=photos"
    if not rest.startswith("//"):
        raise ValueError(f"The address of the store is not valid. {expected}.")
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    secret = next((name for name in options if "password" in name.lower()), None)
    if secret or parts.password:
        raise ValueError(
            "The address of the store contains a password. Remove it, and set PGPASSWORD or use ~/.pgpass."
        )
    table = options.pop("table", TABLE)
    if len(table) > LONGEST or not re.fullmatch(r"\w+", table, re.ASCII):
        name = f"at most {LONGEST} letters, digits and underscores"
        raise ValueError(f"table must have {name}. Received: table={table!r:.60}. {expected}.")
    type = options.pop("type", None)
    if type not in (None, *TYPES):
        raise ValueError(f"type must be {' or '.join(TYPES)}. Received: type={type!r:.60}.")
    place = f"postgresql://{parts.netloc}{parts.path}"
    shown = {**options, **({"type": type} if type else {}), "table": table}
    query = urlencode({**USUAL, **options}, quote_via=quote)
    return Address(f"{place}?{query}", table, type, f"{place}?{urlencode(shown, safe='/')}")


# Number of idle connections that stay open.
KEPT = 8
# Version of pgvector with iterative scans. Without them, filters that match few rows find fewer than k neighbors.
OLDEST = (0, 8)


class Connections:
    """Pool of connections to an address of psycopg, which replaces broken connections."""

    def __init__(self, address):
        self._address = address
        self._idle = queue.LifoQueue(KEPT)

    @contextlib.contextmanager
    def one(self):
        """Lends a connection on which each statement is its own transaction."""
        connection = self._idle_one() or self._new()
        try:
            yield connection
        finally:
            if connection.broken or connection.closed:
                # After a restart of the server, the other connections are broken as well.
                self.close()
            else:
                try:
                    self._idle.put_nowait(connection)
                except queue.Full:
                    connection.close()

    def _idle_one(self):
        while True:
            try:
                connection = self._idle.get_nowait()
            except queue.Empty:
                return None
            # If the server has stopped, it has closed the connection. Nothing was asked, so readable data means an end
            # or a notice of it.
            if not connection.closed and not select.select([connection.fileno()], [], [], 0)[0]:
                return connection
            connection.close()

    def _new(self):
        import psycopg

        # Prepared plans are kept and ignore how few rows a filter matches.
        connection = psycopg.connect(self._address, autocommit=True, prepare_threshold=None)
        try:
            prepare(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def close(self):
        """Closes the idle connections."""
        with contextlib.suppress(queue.Empty):
            while True:
                self._idle.get_nowait().close()


def prepare(connection):
    """Registers the vector types on a connection. Raises a ValueError if the database's pgvector is too old."""
    from pgvector.psycopg import register_vector

    found = connection.execute("SELECT extversion FROM pg_extension WHERE extname = 'vector'").fetchone()
    if found is None:
        return
    if tuple(map(int, found[0].split(".")[:2])) < OLDEST:
        wanted = ".".join(map(str, OLDEST))
        update = "ALTER EXTENSION vector UPDATE"
        raise ValueError(f"The database has pgvector {found[0]}. Expected version {wanted} or later. Run: {update}.")
    register_vector(connection)


@contextlib.contextmanager
def named_errors(store):
    """Turns psycopg errors that may be temporary into a `StoreError`, and others into a ValueError, with the name."""
    import psycopg
    from psycopg import errors

    try:
        yield
    except errors.InsufficientPrivilege as error:
        raise ValueError(
            f"{store}: {_line(error)}. See docs/vector_databases.md for the privileges that are needed."
        ) from error
    except errors.ReadOnlySqlTransaction as error:
        raise ValueError(f"{store} is read-only: {_line(error)}.") from error
    except errors.UniqueViolation as error:
        message = f"{store} already has a row with one of these ids. Delete it first, or omit ids."
        raise ValueError(message) from error
    except (psycopg.OperationalError, psycopg.InterfaceError) as error:
        raise StoreError(
            f"{store} does not answer or cannot continue: {_line(error)}. Repeat the command to continue."
        ) from error
    except errors.UndefinedTable as error:
        raise ValueError(f"{store}: a table no longer exists: {_line(error)}.") from error
    except psycopg.Error as error:
        raise ValueError(f"{store}: {_line(error)}.") from error


def _line(error):
    return " ".join(str(error).split("\n")[0].split()).rstrip(".") or type(error).__name__


# Entry of an index, with the type of its vectors.
ABOUT = """SELECT version, model, dimension, metric, kind, columns, (SELECT atttypid::regtype::text FROM pg_attribute
    WHERE attrelid = to_regclass(quote_ident(name)) AND attname = 'embedding') FROM tfdml_indexes WHERE name = %s"""
CREATE_ABOUT = """CREATE TABLE IF NOT EXISTS tfdml_indexes (
    name text PRIMARY KEY, version integer NOT NULL, model text NOT NULL, dimension integer NOT NULL,
    metric text NOT NULL, kind text NOT NULL, columns jsonb NOT NULL DEFAULT '{}', next_id bigint NOT NULL DEFAULT 0)"""
NOTE_ABOUT = "INSERT INTO tfdml_indexes (name, version, model, dimension, metric, kind) VALUES (%s, %s, %s, %s, %s, %s)"
RESERVE = """UPDATE tfdml_indexes SET next_id = greatest(next_id + %s, %s), columns = %s::jsonb || columns
    WHERE name = %s RETURNING next_id"""
# Copies everything except ids and attributes from the entry of one name to another.
MOVE_ABOUT = """UPDATE tfdml_indexes SET model = new.model, dimension = new.dimension, metric = new.metric
    FROM tfdml_indexes AS new WHERE new.name = %s AND tfdml_indexes.name = %s"""
FORGET_ABOUT = "DELETE FROM tfdml_indexes WHERE name = %s"
# Statements that give a new table with the same name the privileges and the user's own indexes of the old one.
GRANTS = """SELECT format('GRANT %%s ON %%s TO %%s', string_agg(privilege_type, ', '), %s::text,
    CASE grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(grantee)) END)
    FROM pg_class, aclexplode(relacl) WHERE oid = to_regclass(%s) AND grantee <> relowner GROUP BY grantee"""
INDEXES = """SELECT pg_get_indexdef(indexrelid) FROM pg_index WHERE indrelid = to_regclass(%s)
    AND indexrelid <> coalesce(to_regclass(%s)::oid, 0) AND indexrelid NOT IN (SELECT conindid FROM pg_constraint)"""
CREATE_NEW = """CREATE TEMPORARY TABLE tfdml_new (id bigint, path text, label text, attributes jsonb, embedding vector)
    ON COMMIT DROP"""
COPY = "COPY tfdml_new (id, path, label, attributes, embedding) FROM STDIN (FORMAT BINARY)"
# Time limit of a search, which the server enforces.
SEARCH_MILLISECONDS = 30_000
# pgvector's limits: candidates in a graph search, and dimensions in an index of each type.
MOST_CANDIDATES, MOST_DIMENSIONS = 1000, {"vector": 2000, "halfvec": 4000}
OPERATORS = {"cosine": ("<#>", "ip_ops"), "euclidean": ("<->", "l2_ops")}
# Type of the vectors in a new table with kind=binary, if the address does not name one.
STORED = {"float16": "halfvec", "float32": "vector"}


def statements_of_index(name, index, description, type, count):
    """Returns the statements that create the vector index of a table if it does not exist."""
    if index.name == "flat":
        return []
    if index.name == "ivf":
        method, options = "ivfflat", f"lists = {index.of_size(count).lists}"
    else:
        graph = graph_of(index)
        method, options = "hnsw", f"m = {graph.m}, ef_construction = {max(graph.ef_construction, 2 * graph.m)}"
    if index.name == "binary":
        indexed = f"({bits_of('embedding', description)}) bit_hamming_ops"
    else:
        indexed = f"embedding {type}_{OPERATORS[description.metric][1]}"
    return [
        f"CREATE INDEX IF NOT EXISTS {index_of(name)} ON {name} USING {method} ({indexed}) WITH ({options})",
        # The planner only uses the index if it knows the number of rows.
        f"ANALYZE {name}",
    ]


def index_of(name):
    return f'{name[:-1]}_embedding"'


def graph_of(index):
    """Returns the `hnsw` index with the arguments of an index, which are the defaults for bits."""
    return index_of_kind("hnsw") if index.name == "binary" else index


def bits_of(vector, description):
    """Returns the expression for the signs of a vector."""
    return f"binary_quantize({vector})::bit({description.dimension})"


def type_for(description, index, wished):
    """Returns the vector type for a new index: the requested one, or the first that allows enough dimensions."""
    if index.name in ("flat", "binary"):
        return wished or (STORED[index.stored] if index.name == "binary" else "vector")
    for type in [wished] if wished else MOST_DIMENSIONS:
        if description.dimension <= MOST_DIMENSIONS[type]:
            return type
    raise ValueError(
        f"kind={description.kind} supports a {type} with at most {MOST_DIMENSIONS[type]:,} dimensions in "
        f"PostgreSQL. Received: {description.dimension:,} dimensions. Use kind=flat, or export a model with "
        "fewer dimensions: python -m tfdml.export --dims=..."
    )


def settings(index, k, exact):
    """Returns the settings of one search with an `ApproximateIndex`. If `exact`, all rows are compared."""
    found = [f"SET LOCAL statement_timeout = {SEARCH_MILLISECONDS}"]
    if exact:
        # Bitmap scans can still use indexes of other columns for a filter.
        return [*found, "SET LOCAL enable_indexscan = off"]
    if index.name != "ivf":
        found += [f"SET LOCAL hnsw.ef_search = {min(max(graph_of(index).ef_search, k), MOST_CANDIDATES)}"]
        # Continue until k rows match the filter. By default, the search would end after 20,000 rows.
        found += ["SET LOCAL hnsw.max_scan_tuples = 2147483647", "SET LOCAL hnsw.scan_mem_multiplier = 1000"]
        return [*found, "SET LOCAL hnsw.iterative_scan = strict_order"]
    return [*found, f"SET LOCAL ivfflat.probes = {index.probes}", "SET LOCAL ivfflat.iterative_scan = relaxed_order"]


# SQL types for JSON values. Text is compared by code points, as everywhere in an index.
SQL_TYPES = {"text": '(attributes->>%s::text) COLLATE "C"', "number": "(attributes->>%s::text)::numeric"}
SQL_TYPES |= {"boolean": "(attributes->>%s::text)::boolean", "time": "(attributes->>%s::text)::timestamp"}


def sql_of(condition):
    """Returns a condition in SQL, with %s for each value, and the list of values, including attribute names."""
    match condition:
        case Compared(name, kind, sign, value):
            text, values = _column(name, kind)
            return f"{text} {sign} %s", [*values, value]
        case ComparedColumns(name, kind, sign, other):
            (text, values), (right, more) = _column(name, kind), _column(other, kind)
            return f"{text} {sign} {right}", [*values, *more]
        case Among(name, kind, several):
            text, values = _column(name, kind)
            return f"{text} IN ({', '.join(['%s'] * len(several))})", [*values, *several]
        case Missing(name):
            text, values = _column(name, "text")
            return f"{text} IS NULL", values
        case Not(inner):
            text, values = sql_of(inner)
            return f"NOT ({text})", values
        case All(several):
            return _joined(" AND ", several)
        case AnyOf(several):
            return _joined(" OR ", several)


def _joined(word, several):
    parts = list(map(sql_of, several))
    return f"({word.join(text for text, _ in parts)})", [value for _, values in parts for value in values]


def _column(name, kind):
    return (name, []) if name in OWN else (SQL_TYPES[kind], [name])


# Version of the table layout.
VERSION = 1


@register("store", "postgresql")
class PostgreSQL(EngineStore):
    """Store in a PostgreSQL table with pgvector.

    A batch is one transaction. The table `tfdml_indexes` in the same database describes each index.

    Args:
        address: `//user@host/database?table=photos`, optionally with further libpq options, and with `type=halfvec` for
            half-precision vectors in a new table. The password comes from the environment variable PGPASSWORD or from
            `~/.pgpass`.
        model, kind, metric: See `Store`.
    """

    kinds = ("flat", "hnsw", "ivf", "binary")

    def __init__(self, address: str, model: str | None = None, kind: str | None = None, metric: Distance = "cosine"):
        try:
            import pgvector.psycopg  # noqa: F401
            import psycopg  # noqa: F401
        except ImportError as error:
            raise ImportError(f"PostgreSQL stores need {error.name}: pip install 'tfdml[pgvector]'.") from error
        self._address = read_address(address)
        super().__init__(self._address.shown, model, kind, metric)
        self._connections = Connections(self._address.connection)
        self._type = self._address.type

    @property
    def _name(self):
        return f'"{self._address.table}"'

    @contextlib.contextmanager
    def _connection(self):
        with named_errors(self), self._connections.one() as connection:
            yield connection

    @contextlib.contextmanager
    def _transaction(self):
        with self._connection() as connection, connection.transaction():
            yield connection

    def description(self) -> Description | None:
        with self._connection() as connection:
            return self._description(connection)

    def _description(self, connection):
        from psycopg.errors import UndefinedTable

        try:
            found = connection.execute(ABOUT, [self._address.table]).fetchone()
        except UndefinedTable:
            return None
        if found is None:
            return None
        version, *fields, type = found
        if version != VERSION:
            raise ValueError(f"{self} has the layout version {version}. This version of tfdml reads version {VERSION}.")
        if type and self._address.type not in (None, type):
            raise OtherIndex(f"The index {self} has type={type}. Received: type={self._address.type}.")
        # If the table no longer exists, its vectors have no type.
        self._type = type or self._type
        return Description(*fields)

    def _create(self, description):
        with self._transaction() as connection:
            # Lock, because two processes that create the same table at the same time would fail.
            connection.execute("SELECT pg_advisory_xact_lock(hashtext('tfdml_indexes'))")
            connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
            prepare(connection)
            connection.execute(CREATE_ABOUT)
            if self._description(connection) is not None:
                return
            if connection.execute("SELECT to_regclass(%s)", [self._name]).fetchone()[0] is not None:
                raise ValueError(f"{self} has a table with this name that is not an index. Use another name.")
            self._type = type_for(description, self.index_of(description.kind), self._address.type)
            connection.execute(
                f"""CREATE TABLE {self._name} (id bigint PRIMARY KEY, path text COLLATE "C" NOT NULL UNIQUE,
                label text COLLATE "C", attributes jsonb NOT NULL DEFAULT '{{}}',
                embedding {self._type}({description.dimension}) NOT NULL)"""
            )
            row = [
                self._address.table,
                VERSION,
                description.model,
                description.dimension,
                description.metric,
                description.kind,
            ]
            connection.execute(NOTE_ABOUT, row)

    def _reserve(self, count, after, columns):
        _check_texts("The name of an attribute", columns)
        with self._transaction() as connection:
            (first,) = connection.execute(RESERVE, [count, after, json.dumps(columns), self._address.table]).fetchone()
        return first - count

    def _write(self, ids, vectors, table):
        from psycopg.types.json import Jsonb

        attributes, labels, paths = objects_of(table), table["label"].to_pylist(), table["path"].to_pylist()
        for name, texts in {"path": paths, "label": labels}.items():
            _check_texts(f"A {name}", texts)
        for path, each in zip(paths, attributes, strict=True):
            _check_texts(f"An attribute of {path}", each.values())
        rows = zip(ids.tolist(), paths, labels, map(Jsonb, attributes), vectors, strict=True)
        # Sort by path, so that two processes that write the same paths wait for each other without a deadlock.
        self._take(sorted(rows, key=lambda row: row[1]), "SELECT id, path, label, attributes, embedding FROM tfdml_new")

    def _take(self, rows, select, before=None):
        """Copies rows into a temporary table and inserts what a query selects from it, in one transaction."""
        from psycopg.errors import UniqueViolation

        insert = f"""INSERT INTO {self._name} (id, path, label, attributes, embedding) {select}
            ON CONFLICT (path) DO UPDATE SET id = excluded.id, label = excluded.label,
            attributes = excluded.attributes, embedding = excluded.embedding"""
        taking = [insert] if before is None else [before, insert]
        with self._connection() as connection:
            try:
                _copied(connection, rows, taking)
            except UniqueViolation:
                # Another process has just written the same rows, so that the second attempt replaces them.
                _copied(connection, rows, taking)

    def _delete(self, ids, compact):
        with self._transaction() as connection:
            deletion = f"DELETE FROM {self._name} WHERE id = ANY(%s) RETURNING id"
            deleted = {id for (id,) in connection.execute(deletion, [list(ids)])}
            if deleted != ids:
                # The error rolls the deletion back.
                raise ValueError(f"The id {min(ids - deleted)} is not in the index {self}, so nothing was deleted.")

    def _count(self, condition):
        text, values = _where(condition)
        with self._connection() as connection:
            return connection.execute(f"SELECT count(*) FROM {self._name} WHERE {text}", values).fetchone()[0]

    def find(self, ids: Iterable[int] = (), paths: Iterable[str] = ()) -> dict[int, str]:
        if self.description() is None:
            return {}
        with self._connection() as connection:
            query = f"SELECT id, path FROM {self._name} WHERE id = ANY(%s) OR path = ANY(%s)"
            return dict(connection.execute(query, [list(ids), list(paths)]).fetchall())

    def _nearest(self, description, vectors, k, condition, exact):
        from pgvector import Vector

        text, values = _where(condition)
        operator, sign = OPERATORS[description.metric][0], "-" if description.metric == "cosine" else ""
        query, rows, index = f"%s::{self._type}", f"{self._name} WHERE {text}", self.index_of(description.kind)
        searched, queries = k, 1
        if index.name == "binary" and not exact:
            searched, queries = k * max(index.rescore, 1), 2
            order = f"{bits_of('embedding', description)} <~> {bits_of(query, description)}"
            rows = f"(SELECT * FROM {rows} ORDER BY {order} LIMIT {searched}) AS candidates"
        statement = f"""SELECT id, path, label, {sign}(embedding {operator} {query}) FROM {rows}
            ORDER BY embedding {operator} {query} LIMIT {k}"""
        set_up = settings(index, searched, exact)
        # In a pipeline, statements do not wait for the results of earlier ones.
        with self._connection() as connection, connection.pipeline(), connection.transaction():
            for setting in set_up:
                connection.execute(setting)
            asked = [connection.execute(statement, [each, *values, *[each] * queries]) for each in map(Vector, vectors)]
            return [cursor.fetchall() for cursor in asked]

    def build(self) -> None:
        description = self.existing()
        with self._connection() as connection:
            there = connection.execute("SELECT to_regclass(%s)", [index_of(self._name)]).fetchone()[0]
        # Check this first: every call of `Index.add` ends here, and counting reads the whole table.
        if there is not None or not (count := self.count()):
            return
        made = statements_of_index(self._name, self.index_of(description.kind), description, self._type, count)
        with self._transaction() as connection:
            for statement in made:
                connection.execute(statement)

    def successor(self, description: Description) -> Self:
        found = copy.copy(self)
        # An address cannot have this name, so it is nobody else's index.
        type = "halfvec" if self._type == "halfvec" else self._address.type
        connection, table, _, shown = self._address
        found._address = Address(connection, f"{table}-next", type, shown)
        found.model, found.kind, found.metric = description.model, description.kind, description.metric
        there = found.description()
        if there is not None and dataclasses.replace(there, columns=description.columns) != description:
            with self._transaction() as connection:
                connection.execute(f"DROP TABLE IF EXISTS {found._name}")
                connection.execute(FORGET_ABOUT, [found._address.table])
        found.prepare(description.dimension, 0)
        return found

    def pages(self, count: int) -> Iterator[list[tuple[int, str]]]:
        after = -1
        while True:
            with self._connection() as connection:
                query = f"SELECT id, path FROM {self._name} WHERE id > %s ORDER BY id LIMIT %s"
                page = connection.execute(query, [after, count]).fetchall()
            if not page:
                return
            yield page
            after = page[-1][0]

    def _take_vectors(self, ids, vectors, of):
        rows = [(id, None, None, None, vector) for id, vector in zip(ids, vectors, strict=True)]
        select = f"""SELECT old.id, old.path, old.label, old.attributes, tfdml_new.embedding
            FROM tfdml_new JOIN {of._name} AS old ON old.id = tfdml_new.id"""
        self._take(rows, select, f"DELETE FROM {self._name} WHERE id IN (SELECT id FROM tfdml_new)")

    def take_place(self, of: Self) -> bool:
        new, old = self._name, of._name
        lacking = """{0} WHERE NOT EXISTS
            (SELECT FROM {1} AS other WHERE other.id = {0}.id AND other.path = {0}.path)"""
        with self._transaction() as connection:
            # Searches continue, and writers wait.
            connection.execute(f"LOCK TABLE {old} IN SHARE ROW EXCLUSIVE MODE")
            connection.execute(f"DELETE FROM {lacking.format(new, old)}")
            if connection.execute(f"SELECT count(*) FROM {lacking.format(old, new)}").fetchone()[0]:
                return False
            kept = connection.execute(GRANTS, [old, old]).fetchall()
            kept += connection.execute(INDEXES, [old, index_of(old)]).fetchall()
            names = self._address.table, of._address.table
            connection.execute(MOVE_ABOUT, names)
            connection.execute(FORGET_ABOUT, names[:1])
            connection.execute(f"DROP TABLE IF EXISTS {old}")
            connection.execute(f"ALTER TABLE {new} RENAME TO {old}")
            connection.execute(f"ALTER INDEX IF EXISTS {index_of(new)} RENAME TO {index_of(old)}")
            for (statement,) in kept:
                connection.execute(statement)
        return True

    def close(self) -> None:
        self._connections.close()


def _where(condition):
    text, values = ("true", []) if condition is None else sql_of(condition)
    _check_texts("The filter", values)
    return text, values


def _check_texts(what, values):
    wrong = next((value for value in values if isinstance(value, str) and "\0" in value), None)
    if wrong is not None:
        raise ValueError(
            f"{what} contains a zero byte, which PostgreSQL does not allow in text: {wrong[:100]!r}. Remove it."
        )


def _copied(connection, rows, taking):
    """Copies rows into a temporary table and runs the statements that use it, in one transaction."""
    with connection.transaction():
        connection.execute(CREATE_NEW)
        with connection.cursor().copy(COPY) as copy:
            copy.set_types(["int8", "text", "text", "jsonb", "vector"])
            for row in rows:
                copy.write_row(row)
        for statement in taking:
            connection.execute(statement)
