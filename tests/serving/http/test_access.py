"""Who may use the service: by the token, or by the name that it is called."""

import pytest

from tests.serving.http.fake_service import FakeSearcher, assert_refused, encoded, in_json, running

# Headers that a browser sends, with a request to http://127.0.0.1:8000, for a page of another site.
OTHERS = [
    {"origin": "https://evil.example.com", "sec-fetch-site": "cross-site"},
    {"origin": "https://evil.example.com"},
    {"origin": "null"},
    {"origin": ""},
    {"origin": "http://127.0.0.1:3000", "sec-fetch-site": "same-site"},
    {"origin": "http://127.0.0.1:3000"},
    {"origin": "http://127.0.0.1"},
    {"origin": "http://127.0.0.1:8000.evil.example.com"},
    {"sec-fetch-site": "cross-site"},
]
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
        assert_refused(client.get("/", headers={"host": host}), 403, "The service does not answer under the host name")


def test_names_of_this_machine():
    with running(hosts=LOCAL) as client:
        for host in ("localhost", "LOCALHOST:8000", "127.0.0.1", "[::1]:8000"):
            assert client.get("/health", headers={"host": host}).status_code == 200
    with running() as client:
        assert client.get("/health", headers={"host": "anything"}).status_code == 200


@pytest.mark.parametrize("headers", OTHERS)
def test_a_page_of_another_site_cannot_ask(headers):
    searcher = FakeSearcher()
    with running(searcher, hosts=LOCAL) as client:
        for path in ("/search", "/embed"):
            answer = client.post(path, files={"image": encoded()}, headers=headers)
            assert_refused(answer, 403, "from a page of another site")
    assert not searcher.read_files and not searcher.batches


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"origin": "http://127.0.0.1:8000"},
        {"origin": "http://127.0.0.1:8000", "sec-fetch-site": "same-origin"},
        # Behind a proxy that gives it another name: who knows the token is no page of a stranger.
        {"origin": "http://photos.lan", "host": "127.0.0.1:8000"},
        # Behind a proxy with TLS, which passes the name on, or gives it another one.
        {"origin": "https://search.example.com", "host": "search.example.com"},
        {"origin": "https://search.example.com", "host": "127.0.0.1:8000", "sec-fetch-site": "same-origin"},
    ],
)
def test_its_own_page_and_programs_can(headers):
    with running(token="secret", headers={"authorization": "Bearer secret"}) as client:
        assert client.post("/embed", files={"image": encoded()}, headers=headers).status_code == 200


def test_other_sites_cannot_show_what_it_answers():
    with running() as client:
        for path in ("/", "/health", "/images/1"):
            assert client.get(path).headers["cross-origin-resource-policy"] == "same-origin"
