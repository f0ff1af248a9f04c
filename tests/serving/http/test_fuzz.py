"""Requests made from the description in OpenAPI, right and wrong ones: none breaks the service or its description."""

import threading
import time

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from tests.serving.http.fake_service import TextSearcher, create_app, encoded
from tfdml.serving.http.server import Limits

schemathesis = pytest.importorskip("schemathesis", reason="schemathesis is not installed; setup.py lists it")
server_module = pytest.importorskip("tfdml.serving.http.server")

# Of the only image of the index.
ID = 100


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    file = tmp_path_factory.mktemp("images") / "one.png"
    file.write_bytes(encoded())
    limits = Limits(image_bytes=100_000)
    server = server_module.Server(create_app(TextSearcher([file]), limits), limits, lambda: None)
    with server_module.listen("127.0.0.1", 0) as bound:
        thread = threading.Thread(target=server.run, args=[[bound]])
        thread.start()
        while not server.started:
            time.sleep(0.01)
        yield f"http://127.0.0.1:{bound.getsockname()[1]}"
        server.should_exit = True
        thread.join()


@pytest.mark.nightly
def test_any_request(address):
    # A description cannot say which bytes are an image.
    schemathesis.checks.load_all_checks()
    excluded = [check for check in schemathesis.checks.CHECKS.get_all() if check.__name__ == "positive_data_acceptance"]
    assert len(excluded) == 1
    operations = [found.ok() for found in schemathesis.openapi.from_url(f"{address}/openapi.json").get_all_operations()]
    assert len(operations) == 6
    (image,) = [each for each in operations if each.path == "/images/{id}"]
    found = image.Case(path_parameters={"id": ID}).call_and_validate()
    assert (found.status_code, found.content) == (200, encoded())
    for operation in operations:
        for mode in schemathesis.GenerationMode:

            @settings(
                max_examples=12,
                deadline=None,
                derandomize=True,
                database=None,
                phases=[Phase.generate],
                suppress_health_check=list(HealthCheck),
            )
            @given(operation.as_strategy(generation_mode=mode))
            def ask(case):
                case.call_and_validate(excluded_checks=excluded)

            if mode.is_positive or operation.body:
                ask()
