"""The HTTP API as an OpenAPI description, and the same as a page for people, made without scripts."""

from __future__ import annotations

import re
from html import escape
from importlib.resources import files
from string import Template
from typing import Any

import densevid
from densevid.app.job import STAGES, State

Schema = dict[str, Any]

JOB: Schema = {
    "type": "object",
    "description": "A video on its way to a timeline.",
    "required": ["id", "name", "size", "state", "stage", "done", "error", "created", "position", "links"],
    "properties": {
        "id": {"type": "string", "description": "Random. Whoever knows it may see the job and delete it."},
        "name": {"type": "string", "description": "The name the file came with, to be shown."},
        "size": {"type": "integer", "description": "Bytes of the file."},
        "state": {"type": "string", "enum": [str(state) for state in State]},
        "stage": {"type": "string", "enum": ["", *STAGES], "description": "What is being done, while it runs."},
        "done": {"type": "number", "minimum": 0, "maximum": 1, "description": "How much of that stage is done."},
        "progress": {
            "type": "object",
            "additionalProperties": {"type": "number"},
            "description": "How much of each stage is done; stages overlap.",
        },
        "position": {"type": "integer", "description": "Place in the queue; 1 is next, 0 does not wait."},
        "error": {"type": "string", "description": "What went wrong, in one line, if it failed."},
        "created": {"type": "number", "description": "When, in seconds since 1970."},
        "finished": {"type": ["number", "null"], "description": "When, if it is."},
        "video": {"type": "object", "description": "Width, height, seconds and kind, once they are known."},
        "links": {
            "type": "object",
            "additionalProperties": {"type": "string"},
            "description": "Where there is more: `self`, and when they are there `video`, `html`, `json`, `vtt`.",
        },
    },
}
ERROR: Schema = {
    "type": "object",
    "required": ["error"],
    "properties": {"error": {"type": "string", "description": "What is wrong, and what to do, in one line."}},
}
LIMITS: Schema = {
    "type": "object",
    "required": ["upload_bytes", "pixels", "seconds", "job_seconds", "waiting", "keep_seconds"],
    "properties": {
        "upload_bytes": {"type": "integer", "description": "Of one file."},
        "pixels": {"type": "integer", "description": "Of one picture."},
        "seconds": {"type": "number", "description": "Of one video."},
        "job_seconds": {"type": "number", "description": "Of work on one video, before it is stopped."},
        "waiting": {"type": "integer", "description": "Videos that may wait."},
        "keep_seconds": {"type": "number", "description": "For which a finished job is kept."},
    },
}
SEVERAL: Schema = {
    "type": "object",
    "required": ["jobs"],
    "properties": {"jobs": {"type": "array", "items": {"$ref": "#/components/schemas/Job"}}},
}
VIDEO_BODY: Schema = {"type": "string", "format": "binary"}
ID = {"name": "id", "in": "path", "required": True, "schema": {"type": "string"}, "description": "A job's id."}


def openapi() -> Schema:
    """The whole description."""
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "densevid",
            "version": densevid.__version__,
            "description": "Send a video, watch its job, fetch its timeline of events with a sentence each.",
        },
        "paths": {
            "/jobs": {"post": _post_job(), "get": _get_several()},
            "/jobs/{id}": {
                "get": _operation("How a job is doing", _json(200, "The job.", "Job"), _gone(), [ID]),
                "delete": _operation("Stop a job and forget all of it", _empty(204, "It is gone."), _gone(), [ID]),
            },
            "/jobs/{id}/result": {"get": _get_result([ID], "The timeline, in the format that `Accept` names first")},
            "/jobs/{id}/result.{format}": {"get": _get_result([ID, _format()], "The timeline, in one format")},
            "/jobs/{id}/{file}": {"get": _get_video()},
            "/limits": {"get": _operation("What is taken here", _json(200, "The limits.", "Limits"), {}, [])},
        },
        "components": {"schemas": {"Job": JOB, "Jobs": SEVERAL, "Limits": LIMITS, "Error": ERROR}},
    }


def _post_job() -> Schema:
    name = _query("name", "The name to show; a form brings its own.")
    errors = {
        **_json(400, "The body is empty or not a whole form.", "Error"),
        **_json(403, "A page of another site sent it.", "Error"),
        **_json(408, "The sender was too slow.", "Error"),
        **_json(413, "The file is larger than `/limits` allows.", "Error"),
        **_json(415, "The body is neither a video nor a form.", "Error"),
        **_json(503, "Too many videos wait; `Retry-After` is when to try again.", "Error"),
        **_json(507, "The disk is full.", "Error"),
    }
    operation = _operation("Send a video", _json(201, "The job; `Location` is its address.", "Job"), errors, [name])
    form = {"type": "object", "properties": {"file": VIDEO_BODY}, "required": ["file"]}
    content = {"application/octet-stream": {"schema": VIDEO_BODY}, "video/*": {"schema": VIDEO_BODY}}
    body = {"required": True, "content": {**content, "multipart/form-data": {"schema": form}}}
    return {**operation, "requestBody": body, "x-example": "curl -X POST -T video.mp4 '{base}/jobs?name=video.mp4'"}


def _get_several() -> Schema:
    ids = _query("id", "A job's id; may be given up to 100 times.")
    ids["schema"] = {"type": "array", "items": {"type": "string"}}
    return _operation("How several jobs are doing", _json(200, "Those there are.", "Jobs"), {}, [ids])


def _get_result(parameters: list[Schema], summary: str) -> Schema:
    contents = {kind: {"schema": {"type": "string"}} for kind in ("text/html", "text/vtt")}
    contents["application/json"] = {"schema": {"type": "object"}}
    answer = {"200": {"description": "A page, subtitles, or the events as data.", "content": contents}}
    errors = {**_gone(), **_json(409, "It is not done yet, or it failed; see the error.", "Error")}
    ending = "result.vtt" if len(parameters) > 1 else "result"
    return {**_operation(summary, answer, errors, parameters), "x-example": f"curl {{base}}/jobs/ID/{ending}"}


def _get_video() -> Schema:
    file = {"name": "file", "in": "path", "required": True, "schema": {"type": "string"}}
    file["description"] = "As `links.video` has it."
    content = {"video/*": {"schema": VIDEO_BODY}}
    answer = {
        "200": {"description": "The video as it was sent.", "content": content},
        "206": {"description": "The part of it in `Range`.", "content": content},
    }
    return _operation("The video itself", answer, _gone(), [ID, file])


def _operation(summary: str, answer: Schema, errors: Schema, parameters: list[Schema]) -> Schema:
    return {"summary": summary, "parameters": parameters, "responses": {**answer, **errors}}


def _json(status: int, description: str, schema: str) -> Schema:
    content = {"application/json": {"schema": {"$ref": f"#/components/schemas/{schema}"}}}
    return {str(status): {"description": description, "content": content}}


def _empty(status: int, description: str) -> Schema:
    return {str(status): {"description": description}}


def _gone() -> Schema:
    return _json(404, "There is no such job.", "Error")


def _query(name: str, description: str) -> Schema:
    return {"name": name, "in": "query", "schema": {"type": "string"}, "description": description}


def _format() -> Schema:
    schema = {"type": "string", "enum": ["html", "json", "vtt"]}
    return {"name": "format", "in": "path", "required": True, "schema": schema, "description": "The file's ending."}


SchemaNode = dict[str, Any]


def reference_page(api: SchemaNode, base: str) -> str:
    """Every operation with its parameters, body and answers, and every schema they use."""
    template = Template((files("densevid.app") / "page" / "reference.html").read_text(encoding="utf-8"))
    operations = "\n".join(
        _operation_html(method, path, operation, base)
        for path, methods in api["paths"].items()
        for method, operation in methods.items()
    )
    schemas = "\n".join(_schema(name, schema) for name, schema in api["components"]["schemas"].items())
    info = api["info"]
    return template.substitute(
        title=escape(info["title"]),
        version=escape(info["version"]),
        description=_text(info["description"]),
        base=escape(base),
        operations=operations,
        schemas=schemas,
    )


def _operation_html(method: str, path: str, operation: SchemaNode, base: str) -> str:
    heading = f'<h3><span class="method {method}">{method.upper()}</span> <code>{escape(path)}</code></h3>'
    parts = [heading, f"<p>{_text(operation['summary'])}.</p>"]
    if example := operation.get("x-example"):
        parts.append(f"<pre tabindex='0'><code>{escape(example.replace('{base}', base))}</code></pre>")
    rows = [(p["name"], p.get("description", "")) for p in operation["parameters"]]
    if body := operation.get("requestBody"):
        rows.append(("body", " or ".join(f"`{kind}`" for kind in body["content"])))
    parts.append(_table("Parameter", rows))
    answers = [(status, _answer(answer)) for status, answer in operation["responses"].items()]
    parts.append(_table("Answer", answers))
    return f'<article class="operation">{"".join(parts)}</article>'


def _answer(answer: SchemaNode) -> str:
    named = [content["schema"].get("$ref", "") for content in answer.get("content", {}).values()]
    schema = named[0].rpartition("/")[2] if named and named[0] else ""
    return answer["description"] + (f" Gives a `{schema}`." if schema and schema != "Error" else "")


def _schema(name: str, schema: SchemaNode) -> str:
    rows = [(field, _field(described)) for field, described in schema["properties"].items()]
    return f'<article class="operation"><h3 id="{escape(name)}">{escape(name)}</h3>{_table("Field", rows)}</article>'


def _field(described: SchemaNode) -> str:
    kind = described.get("type", "")
    words = [kind if isinstance(kind, str) else " or ".join(kind)]
    if "enum" in described:
        words = [" | ".join(f"`{value or '(empty)'}`" for value in described["enum"])]
    return f"{words[0]}. {described.get('description', '')}".strip()


def _table(heading: str, rows: list[tuple[str, str]]) -> str:
    if not rows:
        return ""
    body = "".join(
        f'<tr><th scope="row"><code>{escape(name)}</code></th><td>{_text(what)}</td></tr>' for name, what in rows
    )
    head = f'<thead><tr><th scope="col">{heading}</th><th scope="col">Meaning</th></tr></thead>'
    return f"<table>{head}<tbody>{body}</tbody></table>"


def _text(words: str) -> str:
    """Escaped, with `words like this` as code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(words))
