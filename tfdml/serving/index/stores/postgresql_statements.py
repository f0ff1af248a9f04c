"""The statements of `PostgreSQL`."""

# With the type of its vectors.
ABOUT = """SELECT version, model, dimension, metric, kind, columns, (SELECT atttypid::regtype::text FROM pg_attribute
    WHERE attrelid = to_regclass(quote_ident(name)) AND attname = 'embedding') FROM tfdml_indexes WHERE name = %s"""
CREATE_ABOUT = """CREATE TABLE IF NOT EXISTS tfdml_indexes (
    name text PRIMARY KEY, version integer NOT NULL, model text NOT NULL, dimension integer NOT NULL,
    metric text NOT NULL, kind text NOT NULL, columns jsonb NOT NULL DEFAULT '{}', next_id bigint NOT NULL DEFAULT 0)"""
NOTE_ABOUT = "INSERT INTO tfdml_indexes (name, version, model, dimension, metric, kind) VALUES (%s, %s, %s, %s, %s, %s)"
RESERVE = """UPDATE tfdml_indexes SET next_id = greatest(next_id + %s, %s), columns = %s::jsonb || columns
    WHERE name = %s RETURNING next_id"""
# What is known of the rows of one name is, but for ids and attributes, what was known of another name.
MOVE_ABOUT = """UPDATE tfdml_indexes SET model = new.model, dimension = new.dimension, metric = new.metric
    FROM tfdml_indexes AS new WHERE new.name = %s AND tfdml_indexes.name = %s"""
FORGET_ABOUT = "DELETE FROM tfdml_indexes WHERE name = %s"
# Statements that give another table of the same name what users may do with this one, and its own indexes.
GRANTS = """SELECT format('GRANT %%s ON %%s TO %%s', string_agg(privilege_type, ', '), %s::text,
    CASE grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(grantee)) END)
    FROM pg_class, aclexplode(relacl) WHERE oid = to_regclass(%s) AND grantee <> relowner GROUP BY grantee"""
INDEXES = """SELECT pg_get_indexdef(indexrelid) FROM pg_index WHERE indrelid = to_regclass(%s)
    AND indexrelid <> coalesce(to_regclass(%s)::oid, 0) AND indexrelid NOT IN (SELECT conindid FROM pg_constraint)"""
CREATE_NEW = """CREATE TEMPORARY TABLE tfdml_new (id bigint, path text, label text, attributes jsonb, embedding vector)
    ON COMMIT DROP"""
COPY = "COPY tfdml_new (id, path, label, attributes, embedding) FROM STDIN (FORMAT BINARY)"
# Milliseconds of a search.
LONGEST = 30_000
# Candidates that pgvector allows in a search of a graph, and dimensions in an index of each type.
MOST_CANDIDATES, MOST_DIMENSIONS = 1000, {"vector": 2000, "halfvec": 4000}
OPERATORS = {"cosine": ("<#>", "ip_ops"), "euclidean": ("<->", "l2_ops")}


class Statements:
    """Statements on a table.

    Args:
        table: its name, of letters, digits and underscores.
    """

    def __init__(self, table):
        self.name = f'"{table}"'
        self.index_name = f'"{table}_embedding"'
        self.delete = f"DELETE FROM {self.name} WHERE id = ANY(%s) RETURNING id"
        self.paths_of = f"SELECT id, path FROM {self.name} WHERE id = ANY(%s)"
        self.ids_of = f"SELECT path, id FROM {self.name} WHERE path = ANY(%s)"
        self.take_new = self._take("SELECT id, path, label, attributes, embedding FROM tfdml_new")
        self.page = f"SELECT id, path FROM {self.name} WHERE id > %s ORDER BY id LIMIT %s"
        # Of tables and indexes that are the index's own.
        self.lock = f"LOCK TABLE {self.name} IN SHARE ROW EXCLUSIVE MODE"
        self.drop = f"DROP TABLE IF EXISTS {self.name}"

    def _take(self, rows):
        return f"""INSERT INTO {self.name} (id, path, label, attributes, embedding) {rows}
            ON CONFLICT (path) DO UPDATE SET id = excluded.id, label = excluded.label,
            attributes = excluded.attributes, embedding = excluded.embedding"""

    def take_vectors(self, of):
        """Returns the statements that take new vectors, with the rest of the rows of another table's `Statements`."""
        rows = f"""SELECT old.id, old.path, old.label, old.attributes, tfdml_new.embedding
            FROM tfdml_new JOIN {of.name} AS old ON old.id = tfdml_new.id"""
        return [f"DELETE FROM {self.name} WHERE id IN (SELECT id FROM tfdml_new)", self._take(rows)]

    def without(self, other):
        """Returns a condition of the rows of this table that another table's `Statements` has not."""
        return f"""NOT EXISTS (SELECT FROM {other.name} AS other
            WHERE other.id = {self.name}.id AND other.path = {self.name}.path)"""

    def take_name(self, of):
        """Returns the statements that make this table that of another `Statements`, which is dropped."""
        return [
            of.drop,
            f"ALTER TABLE {self.name} RENAME TO {of.name}",
            f"ALTER INDEX IF EXISTS {self.index_name} RENAME TO {of.index_name}",
        ]

    def create(self, dimension, type):
        return f"""CREATE TABLE {self.name} (id bigint PRIMARY KEY, path text COLLATE "C" NOT NULL UNIQUE,
            label text COLLATE "C", attributes jsonb NOT NULL DEFAULT '{{}}', embedding {type}({dimension}) NOT NULL)"""

    def count(self, where):
        return f"SELECT count(*) FROM {self.name} WHERE {where}"

    def nearest(self, metric, where, type):
        operator, sign = OPERATORS[metric][0], "-" if metric == "cosine" else ""
        return f"""SELECT id, path, label, {sign}(embedding {operator} %s::{type}) FROM {self.name}
            WHERE {where} ORDER BY embedding {operator} %s::{type} LIMIT %s"""

    def create_index(self, index, about, type, count):
        """Returns the statements that make the index of vectors, if there is none."""
        if index.name == "flat":
            return []
        if index.name == "hnsw":
            method, options = "hnsw", f"m = {index.m}, ef_construction = {max(index.ef_construction, 2 * index.m)}"
        else:
            method, options = "ivfflat", f"lists = {index.of_size(count).lists}"
        return [
            f"CREATE INDEX IF NOT EXISTS {self.index_name} ON {self.name} USING {method} "
            f"(embedding {type}_{OPERATORS[about.metric][1]}) WITH ({options})",
            # The planner takes it where it knows how many rows there are.
            f"ANALYZE {self.name}",
        ]


def type_for(about, wished):
    """Returns the type of vectors of a new index; a ValueError if there is none whose index takes as many dimensions.

    Args:
        about: `About`.
        wished: `vector` or `halfvec`; None: the first that does.
    """
    if about.kind.startswith("flat"):
        return wished or "vector"
    for type in [wished] if wished else MOST_DIMENSIONS:
        if about.dimension <= MOST_DIMENSIONS[type]:
            return type
    raise ValueError(
        f"kind={about.kind} takes a {type} of at most {MOST_DIMENSIONS[type]:,} dimensions in PostgreSQL, received "
        f"{about.dimension:,}. Use kind=flat, or export a model of fewer dimensions: python -m tfdml.export --dims=..."
    )


def settings(index, k, exact):
    """Returns what is set for one search.

    Args:
        index: `ApproximateIndex`.
        k: number of neighbors.
        exact: whether all rows that a filter takes are compared.
    """
    found = [f"SET LOCAL statement_timeout = {LONGEST}"]
    if exact:
        # Rows of a filter are still found by indexes of other columns, as bitmaps.
        return [*found, "SET LOCAL enable_indexscan = off"]
    if index.name == "hnsw":
        found += [f"SET LOCAL hnsw.ef_search = {min(max(index.ef_search, k), MOST_CANDIDATES)}"]
        # Goes on until k rows are found that the filter takes; by default it would end after 20,000.
        found += ["SET LOCAL hnsw.max_scan_tuples = 2147483647", "SET LOCAL hnsw.scan_mem_multiplier = 1000"]
        return [*found, "SET LOCAL hnsw.iterative_scan = strict_order"]
    return [*found, f"SET LOCAL ivfflat.probes = {index.probes}", "SET LOCAL ivfflat.iterative_scan = relaxed_order"]
