"""The page of the service: one HTML file with its style and script."""

import base64
import hashlib
import string
from importlib import resources


def page():
    """Returns the page's text, and the policy by which a browser runs its script and nothing else."""
    files = resources.files("tfdml.serving.http")
    html, style, script = (
        files.joinpath(f"page.{ending}").read_text(encoding="utf-8") for ending in ("html", "css", "js")
    )
    policy = "; ".join(
        [
            "default-src 'none'",
            f"script-src {_hash(script)}",
            f"style-src {_hash(style)}",
            "img-src blob: data:",
            "connect-src 'self'",
            "form-action 'none'",
            "base-uri 'none'",
            "frame-ancestors 'none'",
        ]
    )
    return string.Template(html).substitute(style=style, script=script), policy


def _hash(text):
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
