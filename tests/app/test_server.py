"""The HTTP API over a real socket: every answer it can give, to good requests and to bad ones."""

from __future__ import annotations

import http.client
import itertools
import json
import re
import socket
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from densevid.app.api import openapi
from densevid.app.job import Job, is_id
from densevid.app.server import PAGE, routed_app
from densevid.app.settings import Choices, Limits, Settings
from densevid.events import Event
from densevid.pipeline.result import CaptionResult, Detection
from helpers.made_videos import constant, make_video
from helpers.running_server import Answer, Running, running, served
from helpers.tiny_captioner import write_tiny_model
from helpers.waiting import LIMIT_SECONDS, wait_until

SCRIPT = Path(__file__).parents[1] / "helpers" / "play_captioner.py"
VIDEO = {"content_type": "video/mp4"}


def settings_for(folder: Path, mode: str = "quick", **limits: Any) -> Settings:
    command = [sys.executable, str(SCRIPT), mode]
    return Settings(folder, replace(Limits(), **limits), lambda video, out, title: [*command, str(video), str(out)])


@pytest.fixture(scope="module")
def content(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return make_video(tmp_path_factory.mktemp("videos") / "made.mp4", constant(1.0)).read_bytes()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(settings_for(tmp_path_factory.mktemp("work"), upload_bytes=1 << 20, workers=2)) as one:
        yield one


@pytest.fixture(scope="module")
def done(server: Running, content: bytes) -> dict[str, Any]:
    return wait(server, server.ask("POST", "/jobs?name=a%3Cb%3E.mp4", content, **VIDEO).json["id"])


def wait(server: Running, id: str) -> dict[str, Any]:
    def finished() -> dict[str, Any] | None:
        job = server.ask("GET", f"/jobs/{id}").json
        return dict(job) if job["state"] in ("done", "failed") else None

    return wait_until(finished) or {}


def check(answer: Answer, status: int, schema: str) -> Any:
    assert answer.status == status, answer.body
    described = openapi()
    jsonschema.validate(answer.json, {"$ref": f"#/components/schemas/{schema}", "components": described["components"]})
    return answer.json


def folders(server: Running) -> set[str]:
    return {path.name for path in server.jobs.folder.iterdir() if path.is_dir()}


def test_a_video_is_sent_watched_fetched_and_deleted(server: Running, content: bytes) -> None:
    answer = server.ask("POST", "/jobs?name=x%2Fmy%20video.mp4", content, **VIDEO)
    job = check(answer, 201, "Job")
    assert job["name"] == "my video.mp4" and job["size"] == len(content) and is_id(job["id"])
    assert answer.headers["location"] == f"/jobs/{job['id']}" == job["links"]["self"]
    job = wait(server, job["id"])
    assert job["state"] == "done" and job["video"]["width"] == 192
    for format in ("html", "json", "vtt"):
        assert server.ask("GET", job["links"][format]).body == f"the {format} of video".encode()
    assert server.ask("DELETE", f"/jobs/{job['id']}").status == 204
    for path in (f"/jobs/{job['id']}", *job["links"].values()):
        check(server.ask("GET", path), 404, "Error")
    check(server.ask("DELETE", f"/jobs/{job['id']}"), 404, "Error")
    assert job["id"] not in folders(server)


@pytest.mark.parametrize(
    ("query", "chosen"),
    [("", (False, False)), ("&fast=1", (False, True)), ("&all_words=true&fast=0", (True, False))],
)
def test_the_sender_chooses_words_and_speed(
    server: Running, content: bytes, query: str, chosen: tuple[bool, bool]
) -> None:
    job = check(server.ask("POST", f"/jobs?name=a.mp4{query}", content, **VIDEO), 201, "Job")
    assert (job["all_words"], job["fast"]) == chosen
    wait(server, job["id"])
    flags = (server.jobs.folder / job["id"] / "flags").read_text().split()
    assert flags == ["--all-words"] * chosen[0] + ["--fast"] * chosen[1]
    record = Job.load(server.jobs.folder / job["id"])
    assert record.choices == Choices(*chosen), "also after a restart of the server"
    assert server.ask("DELETE", f"/jobs/{job['id']}").status == 204


def test_a_choice_that_is_none_is_refused_before_the_upload(server: Running, content: bytes) -> None:
    error = check(server.ask("POST", "/jobs?name=a.mp4&fast=maybe", content, **VIDEO), 400, "Error")
    assert error["error"] == "fast=maybe: must be 1 or 0"


def test_the_server_chooses_for_who_does_not(tmp_path: Path, content: bytes) -> None:
    with running(replace(settings_for(tmp_path), choices=Choices(all_words=True, fast=True))) as one:
        limits = check(one.ask("GET", "/limits"), 200, "Limits")
        assert limits["all_words"] and limits["fast"]
        job = check(one.ask("POST", "/jobs?name=a.mp4&fast=0", content, **VIDEO), 201, "Job")
        assert job["all_words"] and not job["fast"]


def test_records_of_older_servers_have_no_choices(tmp_path: Path) -> None:
    (tmp_path / "job").mkdir()
    Job(tmp_path / "job", "a.mp4", 3).save()
    record = json.loads((tmp_path / "job" / "job.json").read_text())
    del record["job"]["choices"]
    (tmp_path / "job" / "job.json").write_text(json.dumps(record))
    assert Job.load(tmp_path / "job").choices == Choices()


def test_the_description_fits_what_the_command_writes() -> None:
    events = (
        Event(0, 1, "a man", 0.9, 0.6),
        Event(1, 2, "someone", 0.9, 0.7, "a man is cooking", shortened=True),
        Event(2, 3, "", 0.9, 0.0, "a dog", sentence_model="other"),
    )
    described = {"$ref": "#/components/schemas/Timeline", "components": openapi()["components"]}
    for some in (events, (Event(0, 1, "a man", 0.9),)):
        result = CaptionResult("a", "a.mp4", None, 3.0, some, tuple(Detection(0, n) for n in range(len(some))))
        jsonschema.validate(result.submission(), described)
        assert not set(result.submission()["results"]["a"][0]) - set(
            openapi()["components"]["schemas"]["Event"]["properties"]
        )


def test_a_multipart_form_is_accepted_as_an_upload(server: Running, content: bytes) -> None:
    boundary = "x8f2"
    name = 'filename="<b>form</b>.mp4"'
    form = (
        f'--{boundary}\r\nContent-Disposition: form-data; name="note"\r\n\r\nhello\r\n'
        f'--{boundary}\r\nContent-Disposition: form-data; name="file"; {name}\r\nContent-Type: video/mp4\r\n\r\n'
    ).encode()
    whole = form + content + f"\r\n--{boundary}--\r\n".encode()
    kind = {"content_type": f"multipart/form-data; boundary={boundary}"}
    job = check(server.ask("POST", "/jobs", whole, **kind), 201, "Job")
    assert (job["name"], job["size"]) == ("b>.mp4", len(content)), "the last part of a path, as of any name"
    assert wait(server, job["id"])["state"] == "done"
    assert (server.jobs.folder / job["id"] / "video.mp4").read_bytes() == content
    before = folders(server)
    for cut in (whole[:-20], b"--other--", b"", whole[: len(form) // 2]):
        check(server.ask("POST", "/jobs", cut, **kind), 400, "Error")
    note = f'--{boundary}\r\nContent-Disposition: form-data; name="note"\r\n\r\nhello\r\n--{boundary}--\r\n'
    assert "no file" in check(server.ask("POST", "/jobs", note, **kind), 400, "Error")["error"]
    check(server.ask("POST", "/jobs", whole, content_type="multipart/form-data"), 400, "Error")
    assert folders(server) == before


@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [
        (b"", VIDEO, 400),
        (b"{}", {"content_type": "application/json"}, 415),
        (b"a=b", {"content_type": "application/x-www-form-urlencoded"}, 415),
        (b"x" * (1 << 20) + b"x", VIDEO, 413),
        (b"x" * (4 << 20), VIDEO, 413),
        (b"x", {"host": "evil.example", **VIDEO}, 421),
        (b"x", {"host": "127.0.0.1.evil.example", **VIDEO}, 421),
        (b"x", {"host": "127.0.0.1:8977.evil.example", **VIDEO}, 421),
        (b"x", {"host": "[::1].evil.example", **VIDEO}, 421),
        (b"x", {"host": "[::1]:80.evil.example", **VIDEO}, 421),
        (b"x", {"host": "evil.example@127.0.0.1", **VIDEO}, 421),
        (b"x", {"host": "127.0.0.1/evil.example", **VIDEO}, 421),
        (b"x", {"host": "[::bad", **VIDEO}, 421),
        (b"x", {"origin": "http://evil.example", **VIDEO}, 403),
        (b"x", {"origin": "null", **VIDEO}, 403),
        (b"x", {"origin": "http://[bad", **VIDEO}, 403),
        (b"x" * (16 << 20), {"origin": "http://evil.example", **VIDEO}, 403),
        (b"x" * (16 << 20), {"host": "evil.example", **VIDEO}, 421),
        (b"x", {"sec_fetch_site": "cross-site", **VIDEO}, 403),
        (b"x", {"sec_fetch_site": "same-site", **VIDEO}, 403),
    ],
)
def test_what_is_refused_gets_an_answer_and_leaves_nothing(
    server: Running, body: bytes, headers: dict[str, str], status: int
) -> None:
    before = folders(server)
    check(server.ask("POST", "/jobs", body, **headers), status, "Error")
    assert folders(server) == before


def test_the_limit_holds_for_a_body_of_unknown_length(server: Running) -> None:
    before = folders(server)
    answer = server.ask("POST", "/jobs", iter([b"x" * 65536] * 64), **VIDEO)  # sent in chunks
    assert "larger than the limit of 1 MB" in check(answer, 413, "Error")["error"]
    assert folders(server) == before


def test_text_is_a_failed_job_with_its_reason(server: Running) -> None:
    job = check(server.ask("POST", "/jobs?name=notes.txt", b"hello there", **VIDEO), 201, "Job")
    job = wait(server, job["id"])
    assert job["state"] == "failed" and job["error"].startswith("not a video (no format is recognised)")
    assert str(server.jobs.folder) not in json.dumps(job)
    assert check(server.ask("GET", f"/jobs/{job['id']}/result"), 409, "Error")["error"] == job["error"]
    check(server.ask("GET", f"/jobs/{job['id']}/video"), 404, "Error")


def test_an_upload_that_breaks_off_leaves_nothing(server: Running) -> None:
    before = folders(server)
    with socket.create_connection(("127.0.0.1", server.port)) as client:
        head = "POST /jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: video/mp4\r\nContent-Length: 500000\r\n\r\n"
        client.sendall(head.encode() + b"x" * 100_000)
        wait_until(lambda: any(name.endswith(".part") for name in folders(server)))
    wait_until(lambda: folders(server) == before)


def test_a_silent_sender_is_given_up(tmp_path: Path) -> None:
    with (
        running(settings_for(tmp_path, silence_seconds=0.3)) as server,
        socket.create_connection(("127.0.0.1", server.port), timeout=LIMIT_SECONDS) as client,
    ):
        client.sendall(b"POST /jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 50\r\n\r\nxx")
        assert client.recv(100).startswith(b"HTTP/1.1 408")
        assert not folders(server)


def test_a_full_queue_and_a_full_disk_say_so(tmp_path: Path, content: bytes) -> None:
    with running(settings_for(tmp_path / "a", "hang", waiting=1)) as server:
        answers = [server.ask("POST", "/jobs", content, **VIDEO) for _ in range(4)]
        refused = [answer for answer in answers if answer.status != 201]
        assert refused and all(check(answer, 503, "Error") for answer in refused)
        assert all(5 <= int(answer.headers["retry-after"]) <= 300 for answer in refused)
    with running(settings_for(tmp_path / "b", disk_reserve=1 << 60)) as server:
        check(server.ask("POST", "/jobs", content, **VIDEO), 507, "Error")


def test_twenty_at_once_are_all_answered_and_done(server: Running, content: bytes) -> None:
    with ThreadPoolExecutor(20) as pool:
        answers = list(pool.map(lambda n: server.ask("POST", f"/jobs?name={n}", content, **VIDEO), range(20)))
    assert [answer.status for answer in answers] == [201] * 20
    ids = [answer.json["id"] for answer in answers]
    assert {wait(server, id)["state"] for id in ids} == {"done"}
    query = "&".join(f"id={id}" for id in [*ids, "0" * 32])
    assert [job["id"] for job in check(server.ask("GET", f"/jobs?{query}"), 200, "Jobs")["jobs"]] == ids
    assert server.ask("GET", "/jobs").json == {"jobs": []}, "nobody sees the jobs of others"


@pytest.mark.parametrize(
    ("accept", "format"),
    [
        ("", "json"),
        ("*/*", "json"),
        ("text/vtt", "vtt"),
        ("text/html,application/xhtml+xml,*/*;q=0.8", "html"),
        ("image/png, TEXT/VTT;q=.2", "vtt"),
    ],
)
def test_a_result_is_in_the_format_that_is_liked(
    server: Running, done: dict[str, Any], accept: str, format: str
) -> None:
    answer = server.ask("GET", f"/jobs/{done['id']}/result", accept=accept)
    assert (answer.status, answer.body) == (200, f"the {format} of video".encode())
    assert answer.headers["content-type"].startswith({"json": "application/json"}.get(format, f"text/{format}"))


def test_a_player_gets_the_part_it_asks_for(server: Running, done: dict[str, Any], content: bytes) -> None:
    path = done["links"]["video"]
    answer = server.ask("GET", path, range="bytes=100-299")
    assert (answer.status, answer.body) == (206, content[100:300])
    assert answer.headers["content-range"] == f"bytes 100-299/{len(content)}"
    assert server.ask("GET", path, range="bytes=-50").body == content[-50:]
    assert server.ask("GET", path, range=f"bytes={len(content) + 9}-").status == 416
    whole = server.ask("GET", path)
    assert (whole.body, whole.headers["accept-ranges"]) == (content, "bytes")
    assert whole.headers["content-type"] == "video/mp4" and "sandbox" in whole.headers["content-security-policy"]
    head = server.ask("HEAD", path)
    assert (head.status, head.body) == (200, b"")


@pytest.mark.parametrize(
    "path",
    [
        "/jobs/../jobs",
        "/jobs/..%2F..%2Fetc/result",
        "/jobs/%2e%2e/job.json",
        "/page/..%2Fserver.py",
        "/page/index.html",
        "/page/%00",
        "/jobs/ID/job.json",
        "/jobs/ID/result.exe",
        "/jobs/ID/video.densevid.json",
        "/jobs/ID/..%2F.lock",
        "/nothing",
    ],
)
def test_no_path_of_a_client_is_ever_touched(server: Running, done: dict[str, Any], path: str) -> None:
    check(server.ask("GET", path.replace("ID", done["id"])), 404, "Error")


def test_wrong_methods_are_answered_with_405_and_the_allowed_ones(server: Running) -> None:
    wrong = {("PUT", "/jobs"): "GET, HEAD, POST", ("DELETE", "/jobs"): "GET, HEAD, POST", ("POST", "/"): "GET, HEAD"}
    wrong |= {("PATCH", "/limits"): "GET, HEAD", ("POST", "/jobs/1"): "DELETE, GET, HEAD"}
    for (method, path), allowed in wrong.items():
        answer = server.ask(method, path)
        check(answer, 405, "Error")
        assert answer.headers["allow"] == allowed and f"takes {allowed} and" in answer.body.decode()


def test_every_answer_says_what_a_browser_may_do_with_it(server: Running, done: dict[str, Any]) -> None:
    for path in ("/", "/page/app.js", "/api", "/nothing", "/limits", *done["links"].values()):
        headers = server.ask("GET", path).headers
        assert headers["content-security-policy"].startswith("default-src 'none'")
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cross-origin-resource-policy"] == "same-origin"
    assert "unsafe" not in server.ask("GET", "/").headers["content-security-policy"]


def test_a_mistake_of_ours_is_answered_with_the_same_care(server: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server.jobs, "get", lambda id: 1 / 0)
    answer = server.ask("GET", "/jobs/1")
    assert check(answer, 500, "Error")["error"] == "the server made a mistake; see its log"
    assert answer.headers["content-security-policy"].startswith("default-src 'none'")
    assert answer.headers["x-content-type-options"] == "nosniff"


def test_names_of_the_server_are_checked(tmp_path: Path) -> None:
    with running(settings_for(tmp_path), host="0.0.0.0", allowed_names=["captions.example.org"]) as server:
        for host in ("captions.example.org", "CAPTIONS.example.org:99", "10.1.2.3:8000", "[fe80::1]", "localhost"):
            assert server.ask("GET", "/limits", host=host).status == 200, host
        assert server.ask("GET", "/limits", host="other.example.org").status == 421
        same = {"host": "captions.example.org", "origin": "https://captions.example.org"}
        assert server.ask("POST", "/jobs", b"", **same, **VIDEO).status == 400, "it got as far as the empty body"


def test_the_description_names_every_route_and_no_other(server: Running) -> None:
    described = openapi()
    check(server.ask("GET", "/limits"), 200, "Limits")
    assert server.ask("GET", "/openapi.json").json == json.loads(json.dumps(described))
    undescribed = {"/", "/page/{name}", "/api", "/openapi.json"}
    routes = {(route.path, method.lower()) for route in routed_app(server.jobs).routes for method in route.methods}  # type: ignore[attr-defined]
    of_api = {(path, method) for path, method in routes if path not in undescribed and method != "head"}
    assert of_api == {(path, method) for path, methods in described["paths"].items() for method in methods}


def test_pages_ask_nothing_of_the_outside(server: Running) -> None:
    ours = [file.name for file in PAGE.iterdir() if file.name.endswith((".css", ".js"))]
    assert len(ours) > 5
    for path in ("/", "/api", *(f"/page/{name}" for name in ours)):
        text = server.ask("GET", path).body.decode()
        outside = [found for found in re.findall(r"https?://[^\s\"'<]+", text) if server.address not in found]
        assert not outside, path
    page = server.ask("GET", "/api").body.decode()
    assert all(path in page for path in openapi()["paths"])


def test_a_request_that_is_none_is_answered(server: Running) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=LIMIT_SECONDS) as client:
        client.sendall(b"\x16\x03\x01 what is this\r\n\r\n")
        assert client.recv(100).startswith(b"HTTP/1.1 400")
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=LIMIT_SECONDS)
    connection.putrequest("POST", "/jobs", skip_host=True)
    connection.putheader("Content-Length", "5")
    connection.endheaders()
    assert connection.getresponse().status in (400, 421)
    connection.close()


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")
@pytest.mark.parametrize("as_form", [False, True], ids=["raw", "form"])
def test_a_large_upload_never_is_in_memory(tmp_path: Path, as_form: bool) -> None:
    """400 MB through `densevid serve` itself; all that it ever held more is less than a twentieth of it."""
    block, blocks = b"\x5a" * (1 << 20), 400
    front = b'--x8f2\r\nContent-Disposition: form-data; name="file"; filename="big.mp4"\r\n\r\n' if as_form else b""
    back = b"\r\n--x8f2--\r\n" if as_form else b""
    kind = "multipart/form-data; boundary=x8f2" if as_form else "video/mp4"
    length = len(front) + blocks * len(block) + len(back)
    model = write_tiny_model(tmp_path / "model")
    with served(tmp_path / "work", "--model", str(model)) as (address, process):
        before = most_megabytes(process.pid)
        connection = http.client.HTTPConnection(address.removeprefix("http://"), timeout=LIMIT_SECONDS)
        body = itertools.chain([front], itertools.repeat(block, blocks), [back])
        connection.request("POST", "/jobs", body, {"Content-Type": kind, "Content-Length": str(length)})
        answer = connection.getresponse()
        job = json.loads(answer.read())
        assert answer.status == 201 and job["size"] == blocks << 20
        assert most_megabytes(process.pid) - before < blocks / 20
        connection.request("DELETE", f"/jobs/{job['id']}")
        assert connection.getresponse().status == 204
        assert [path.name for path in (tmp_path / "work").iterdir()] == [".lock"]


def most_megabytes(pid: int) -> float:
    """The most memory that a process ever held."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) / 1024
