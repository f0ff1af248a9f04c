"""Who may use the service: by the token, or by the name that it is called."""

import pytest

from tests.serving.http.fake_service import assert_refused, encoded, in_json, running

LOCAL = ("127.0.0.1", "localhost", "::1")


def test_the_token_protects_all_but_the_page_and_health():
    with running(token="secret", hosts=LOCAL) as client:
        assert client.get("/health").json() == {"status": "ok", "token": True}
        assert client.get("/").status_code == 200
        for wrong in ({}, {"authorization": "Bearer other"}, {"authorization": "secret"}, {"authorization": "Bearer "}):
            for method, path in [
                ("POST", "/search"),
                ("POST", "/embed"),
                ("GET", "/metrics"),
                ("GET", "/openapi.json"),
                ("GET", "/images/1"),
                ("GET", "/nothing"),
            ]:
                answer = client.request(method, path, headers=wrong)
                assert_refused(answer, 401, "Authorization: Bearer TOKEN")
                assert answer.headers["www-authenticate"] == "Bearer"
        client.headers["authorization"] = "Bearer secret"
        assert client.post("/search", json=in_json(encoded())).status_code == 200
        # Behind a proxy it has another name.
        assert client.get("/metrics", headers={"host": "search.example.com"}).status_code == 200


@pytest.mark.parametrize("host", ["evil.example.com", "127.0.0.1.evil.example.com", "", "[::", "evil@x:8000"])
def test_a_strangers_name_for_this_machine_is_refused(host):
    with running(hosts=LOCAL) as client:
        assert_refused(client.get("/", headers={"host": host}), 403, "The service is not called")


def test_names_of_this_machine():
    with running(hosts=LOCAL) as client:
        for host in ("localhost", "LOCALHOST:8000", "127.0.0.1", "[::1]:8000"):
            assert client.get("/health", headers={"host": host}).status_code == 200
    with running() as client:
        assert client.get("/health", headers={"host": "anything"}).status_code == 200
