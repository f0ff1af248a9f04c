"""Errors as the service tells them: `{"error": "a sentence"}`."""

import logging

from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from tfdml.serving.index.stores.store_error import StoreError


def refusal(status, message, **headers):
    """Returns a response with an error; `Retry_After` in the headers stands for `Retry-After`."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return JSONResponse({"error": message}, status, named)


def answer_errors(app):
    """Has an app answer all errors as `refusal` does."""

    @app.exception_handler(HTTPException)
    async def of_http(request, error):
        return JSONResponse({"error": str(error.detail)}, error.status_code, error.headers)

    @app.exception_handler(RequestValidationError)
    async def of_validation(request, error):
        reasons = "; ".join(f"{each['loc'][-1]}: {each['msg']}" for each in error.errors())
        return refusal(422, reasons)

    @app.exception_handler(StoreError)
    async def of_the_store(request, error):
        # Its text has the address.
        logging.getLogger(__name__).warning("%s", error)
        return refusal(503, "The index is out of reach. Try again in a second.", Retry_After="1")

    @app.exception_handler(Exception)
    async def of_the_service(request, error):
        # What it was is logged, and is nobody else's business.
        return refusal(500, "The service failed; its log says why.")
