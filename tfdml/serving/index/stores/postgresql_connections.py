"""`Connections`: open connections to PostgreSQL, which are used again."""

import contextlib
import queue

# Connections that stay open.
KEPT = 8
# With iterative scans; earlier ones find fewer rows than asked where a filter takes few.
OLDEST = (0, 8)


class Connections:
    """Lends connections; those that broke are left, and others are opened in their place.

    Args:
        address: what psycopg takes.
    """

    def __init__(self, address):
        self._address = address
        self._idle = queue.LifoQueue(KEPT)

    @contextlib.contextmanager
    def one(self):
        """Lends a connection, on which each statement is a transaction of its own."""
        connection = self._idle_one() or self._new()
        try:
            yield connection
        finally:
            if connection.broken or connection.closed:
                # So are the others, after a restart.
                self.close()
            else:
                self._give_back(connection)

    def _idle_one(self):
        while True:
            try:
                connection = self._idle.get_nowait()
            except queue.Empty:
                return None
            if _answers(connection):
                return connection
            connection.close()

    def _new(self):
        import psycopg

        # Plans that are made once and kept do not see how few rows a filter takes.
        connection = psycopg.connect(self._address, autocommit=True, prepare_threshold=None)
        try:
            prepare(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _give_back(self, connection):
        try:
            self._idle.put_nowait(connection)
        except queue.Full:
            connection.close()

    def close(self):
        """Closes those that nobody uses."""
        with contextlib.suppress(queue.Empty):
            while True:
                self._idle.get_nowait().close()


def _answers(connection):
    """Whether a connection that was left alone is still one: a server that ended has closed it."""
    import select

    if connection.closed:
        return False
    readable, _, _ = select.select([connection.fileno()], [], [], 0)
    # Nobody has asked, so that only an end, or a notice of it, can be read.
    return not readable


def prepare(connection):
    """Has a connection know vectors; a ValueError if the database is too old for them."""
    from pgvector.psycopg import register_vector

    found = connection.execute("SELECT extversion FROM pg_extension WHERE extname = 'vector'").fetchone()
    if found is None:
        return
    if tuple(map(int, found[0].split(".")[:2])) < OLDEST:
        wanted = ".".join(map(str, OLDEST))
        raise ValueError(
            f"The database has pgvector {found[0]}, expected {wanted} or later: ALTER EXTENSION vector UPDATE."
        )
    register_vector(connection)
