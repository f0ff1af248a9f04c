"""Pages of evidence: what studies found, written from their records."""
