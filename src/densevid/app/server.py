"""The HTTP server: the page, its files, and the API that the page itself uses; `api.py` documents it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, replace
from importlib.resources import files

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, HTMLResponse, JSONResponse, Response
from starlette.routing import Match, Route

from densevid.app.api import openapi, reference_page
from densevid.app.guard import TIMELINE, Guard, error_answer
from densevid.app.job import FORMATS, VIDEO, Job, State, shown_name
from densevid.app.jobs import Jobs, QueueFull
from densevid.app.settings import Choices
from densevid.app.uploads import Refused, check_free_space, check_headers, save_body

PAGE = files("densevid.app") / "page"
PAGE_TYPES = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
RESULT_TYPES = {"html": "text/html", "json": "application/json", "vtt": "text/vtt"}
MOST_IDS = 100
SWITCH = {"1": True, "0": False, "true": True, "false": False}


def create_app(jobs: Jobs, host: str = "127.0.0.1", allowed_names: Iterable[str] = ()) -> Guard:
    """The app over a queue that is already running; `host` is the address it is served at.

    The guard stands around all of it, so that the answer to a mistake of ours has its headers, too.
    """
    return Guard(routed_app(jobs), host, tuple(allowed_names))


def routed_app(jobs: Jobs) -> Starlette:
    """What answers at which address."""
    api = Api(jobs)
    routes = [
        Route("/", page_file),
        Route("/page/{name}", page_file),
        Route("/api", api_page),
        Route("/openapi.json", api_description),
        Route("/limits", api.limits),
        Route("/jobs", api.post, methods=["POST"]),
        Route("/jobs", api.several),
        Route("/jobs/{id}", api.one),
        Route("/jobs/{id}", api.delete, methods=["DELETE"]),
        Route("/jobs/{id}/result", api.result),
        Route("/jobs/{id}/result.{format}", api.result),
        Route("/jobs/{id}/{file}", api.video),
    ]
    handlers = {Refused: _refused, QueueFull: _queue_full, 404: _not_found, 405: _not_allowed, 500: _broken}
    return Starlette(routes=routes, exception_handlers=handlers)  # type: ignore[arg-type]


class Api:
    """What can be done with jobs."""

    def __init__(self, jobs: Jobs) -> None:
        self._jobs = jobs

    async def limits(self, request: Request) -> Response:
        """The limits, so that a client can refuse a file before it sends it."""
        limits = self._jobs.settings.limits
        names = ("upload_bytes", "pixels", "seconds", "job_seconds", "waiting", "keep_seconds")
        choices = asdict(self._jobs.settings.choices)
        return JSONResponse({name: getattr(limits, name) for name in names} | choices)

    async def post(self, request: Request) -> Response:
        """A video comes in and becomes a job."""
        limits = self._jobs.settings.limits
        choices = _choices(request, self._jobs.settings.choices)
        try:
            announced = check_headers(request, limits)
            with self._jobs.place(announced) as part:
                check_free_space(self._jobs.free_bytes(), limits)
                name, size = await save_body(request, part / VIDEO, limits)
                job = self._jobs.add(part, shown_name(name), size, choices)
        except ClientDisconnect:
            return Response(status_code=400)  # nobody is left to read it
        return JSONResponse(self._shown(job), 201, {"location": f"/jobs/{job.id}"})

    async def several(self, request: Request) -> Response:
        """The jobs of the given ids; there is no list of all, an id is known by its owner alone."""
        found = (self._jobs.get(id) for id in request.query_params.getlist("id")[:MOST_IDS])
        return JSONResponse({"jobs": [self._shown(job) for job in found if job]})

    async def one(self, request: Request) -> Response:
        """How one job is doing."""
        return JSONResponse(self._shown(self._job(request)))

    async def delete(self, request: Request) -> Response:
        """Stop it and forget it."""
        await self._jobs.remove(self._job(request))
        return Response(status_code=204)

    async def result(self, request: Request) -> Response:
        """The timeline, in the format of the suffix, or the one the client likes best."""
        job = self._job(request)
        format = request.path_params.get("format") or _liked_format(request.headers.get("accept", ""))
        if format not in FORMATS:
            raise Refused(404, f"there is no result.{format[:20]}; there is result.{', result.'.join(FORMATS)}")
        if job.state is not State.DONE:
            raise Refused(409, job.error or f"the job is not done yet, it is {job.state}")
        headers = {"vary": "accept"} | ({"content-security-policy": TIMELINE} if format == "html" else {})
        return FileResponse(job.result(format), media_type=RESULT_TYPES[format], headers=headers)

    async def video(self, request: Request) -> Response:
        """The video, or the part of it in `Range`."""
        media = self._job(request).media(request.path_params["file"])
        if media is None:
            raise Refused(404, "there is no such file")
        path, media_type = media
        headers = {"content-security-policy": "default-src 'none'; sandbox", "cache-control": "private, max-age=3600"}
        return FileResponse(path, media_type=media_type, headers=headers)

    def _job(self, request: Request) -> Job:
        job = self._jobs.get(request.path_params["id"])
        if job is None:
            raise Refused(404, "no such job: it was deleted or has expired; upload the video again")
        return job

    def _shown(self, job: Job) -> dict[str, object]:
        return {**job.public(), "position": self._jobs.position(job)}


async def page_file(request: Request) -> Response:
    """A file of the page; their names are known, so that none is ever made of a request."""
    name = request.path_params.get("name")
    if name is None:
        return HTMLResponse((PAGE / "index.html").read_bytes())
    known = {file.name: file for file in PAGE.iterdir()}
    kind = name.rpartition(".")[2]
    if name not in known or kind not in PAGE_TYPES:
        raise Refused(404, "there is no such file")
    return Response(known[name].read_bytes(), media_type=PAGE_TYPES[kind], headers={"cache-control": "no-cache"})


async def api_page(request: Request) -> Response:
    """The API explained to people."""
    return HTMLResponse(reference_page(openapi(), str(request.base_url).rstrip("/")))


async def api_description(request: Request) -> Response:
    """The API explained to programs."""
    return JSONResponse(openapi())


def _choices(request: Request, default: Choices) -> Choices:
    """What the query of an upload wants of the video; the server's own choices where it does not mention them."""
    wanted = {}
    for name in asdict(default).keys() & request.query_params.keys():
        given = request.query_params[name]
        if given not in SWITCH:
            raise Refused(400, f"{name}={given[:20]}: must be 1 or 0")
        wanted[name] = SWITCH[given]
    return replace(default, **wanted)


def _liked_format(accept: str) -> str:
    """The format a client names first among those we have; JSON if it does not mind."""
    named = (item.split(";")[0].strip() for item in accept.lower().split(","))
    by_type = {media_type: format for format, media_type in RESULT_TYPES.items()}
    return next((by_type[kind] for kind in named if kind in by_type), "json")


async def _refused(request: Request, error: Refused) -> Response:
    return error_answer(request.method, error.status, error.reason)


async def _queue_full(request: Request, error: QueueFull) -> Response:
    wait = str(error.retry_after)
    return error_answer(request.method, 503, f"{error}; try again in {wait} seconds", {"retry-after": wait})


async def _not_found(request: Request, error: Exception) -> Response:
    return error_answer(request.method, 404, "there is nothing here; see /api")


async def _not_allowed(request: Request, error: Exception) -> Response:
    """There is something at this address, for other methods: those of all its routes."""
    here = (route for route in request.app.routes if route.matches(request.scope)[0] is not Match.NONE)
    allowed = ", ".join(sorted({method for route in here for method in route.methods}))
    return error_answer(
        request.method, 405, f"this address takes {allowed} and nothing else; see /api", {"allow": allowed}
    )


async def _broken(request: Request, error: Exception) -> Response:
    return error_answer(request.method, 500, "the server made a mistake; see its log")
