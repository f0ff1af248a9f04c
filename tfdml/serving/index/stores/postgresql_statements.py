"""The statements of `PostgreSQL`."""

ABOUT = "SELECT version, model, dimension, metric, kind, columns FROM tfdml_indexes WHERE name = %s"
CREATE_ABOUT = """CREATE TABLE IF NOT EXISTS tfdml_indexes (
    name text PRIMARY KEY, version integer NOT NULL, model text NOT NULL, dimension integer NOT NULL,
    metric text NOT NULL, kind text NOT NULL, columns jsonb NOT NULL DEFAULT '{}', next_id bigint NOT NULL DEFAULT 0)"""
NOTE_ABOUT = "INSERT INTO tfdml_indexes (name, version, model, dimension, metric, kind) VALUES (%s, %s, %s, %s, %s, %s)"
RESERVE = """UPDATE tfdml_indexes SET next_id = greatest(next_id + %s, %s), columns = %s::jsonb || columns
    WHERE name = %s RETURNING next_id"""
CREATE_NEW = """CREATE TEMPORARY TABLE tfdml_new (id bigint, path text, label text, attributes jsonb, embedding vector)
    ON COMMIT DROP"""
COPY = "COPY tfdml_new (id, path, label, attributes, embedding) FROM STDIN (FORMAT BINARY)"
# Milliseconds of a search.
LONGEST = 30_000
# Candidates that pgvector allows in a search of a graph, and dimensions of vectors in an index.
MOST_CANDIDATES, MOST_DIMENSIONS = 1000, 2000
OPERATORS = {"cosine": ("<#>", "vector_ip_ops"), "euclidean": ("<->", "vector_l2_ops")}


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
        self.take_new = f"""INSERT INTO {self.name} (id, path, label, attributes, embedding)
            SELECT id, path, label, attributes, embedding FROM tfdml_new
            ON CONFLICT (path) DO UPDATE SET id = excluded.id, label = excluded.label,
            attributes = excluded.attributes, embedding = excluded.embedding"""

    def create(self, dimension):
        return f"""CREATE TABLE {self.name} (id bigint PRIMARY KEY, path text COLLATE "C" NOT NULL UNIQUE,
            label text COLLATE "C", attributes jsonb NOT NULL DEFAULT '{{}}', embedding vector({dimension}) NOT NULL)"""

    def count(self, where):
        return f"SELECT count(*) FROM {self.name} WHERE {where}"

    def nearest(self, metric, where):
        operator, sign = OPERATORS[metric][0], "-" if metric == "cosine" else ""
        return f"""SELECT id, path, label, {sign}(embedding {operator} %s) FROM {self.name}
            WHERE {where} ORDER BY embedding {operator} %s LIMIT %s"""

    def create_index(self, index, about, count):
        """Returns the statements that make the index of vectors, if there is none."""
        if index.name == "flat":
            return []
        if about.dimension > MOST_DIMENSIONS:
            raise ValueError(
                f"--kind={about.kind} takes vectors of at most {MOST_DIMENSIONS:,} dimensions in PostgreSQL, received "
                f"{about.dimension:,}: take flat, or export the model with --dims."
            )
        if index.name == "hnsw":
            method, options = "hnsw", f"m = {index.m}, ef_construction = {max(index.ef_construction, 2 * index.m)}"
        else:
            method, options = "ivfflat", f"lists = {index.of_size(count).lists}"
        return [
            f"CREATE INDEX IF NOT EXISTS {self.index_name} ON {self.name} USING {method} "
            f"(embedding {OPERATORS[about.metric][1]}) WITH ({options})",
            # The planner takes it where it knows how many rows there are.
            f"ANALYZE {self.name}",
        ]


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
        # Goes on until k rows are found that the filter takes.
        return [*found, "SET LOCAL hnsw.iterative_scan = strict_order"]
    return [*found, f"SET LOCAL ivfflat.probes = {index.probes}", "SET LOCAL ivfflat.iterative_scan = relaxed_order"]
