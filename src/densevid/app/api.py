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
        "id": {"type": "string", "description": "Random. Whoever has it may read and delete the job."},
        "name": {"type": "string", "description": "The name of the uploaded file, for display."},
        "size": {"type": "integer", "description": "Size of the file in bytes."},
        "state": {"type": "string", "enum": [str(state) for state in State]},
        "stage": {"type": "string", "enum": ["", *STAGES], "description": "The current stage of a running job."},
        "done": {"type": "number", "minimum": 0, "maximum": 1, "description": "Progress of the current stage."},
        "progress": {
            "type": "object",
            "additionalProperties": {"type": "number"},
            "description": "Progress of each stage; stages overlap.",
        },
        "position": {"type": "integer", "description": "Place in the queue; 1 is next, 0 is not waiting."},
        "error": {"type": "string", "description": "Why the job failed, in one line; else empty."},
        "created": {"type": "number", "description": "Time of the upload, in seconds since 1970."},
        "finished": {"type": ["number", "null"], "description": "Time of the end, in seconds since 1970; null before."},
        "all_words": {"type": "boolean", "description": "Full guesses, however unsure the sentences are."},
        "fast": {"type": "boolean", "description": "Made without actions: faster, with poorer sentences."},
        "video": {"type": "object", "description": "Width, height, duration and media type, once known."},
        "links": {
            "type": "object",
            "additionalProperties": {"type": "string"},
            "description": "Addresses: `self`; once they exist `video`, `html`, `json`, `vtt`.",
        },
    },
}
ERROR: Schema = {
    "type": "object",
    "required": ["error"],
    "properties": {"error": {"type": "string", "description": "What is wrong and what to do, in one line."}},
}
LIMITS: Schema = {
    "type": "object",
    "required": ["upload_bytes", "pixels", "seconds", "job_seconds", "waiting", "keep_seconds", "all_words", "fast"],
    "properties": {
        "upload_bytes": {"type": "integer", "description": "Largest file, in bytes."},
        "pixels": {"type": "integer", "description": "Largest frame, in pixels."},
        "seconds": {"type": "number", "description": "Longest video, in seconds."},
        "job_seconds": {"type": "number", "description": "Longest processing time of a video, in seconds."},
        "waiting": {"type": "integer", "description": "Most videos in the queue."},
        "keep_seconds": {"type": "number", "description": "How long a finished job is kept, in seconds."},
        "all_words": {"type": "boolean", "description": "Whether an upload that does not choose gets full guesses."},
        "fast": {"type": "boolean", "description": "Whether an upload that does not choose is made without actions."},
    },
}
SHARE = {"minimum": 0, "maximum": 1}
EVENT: Schema = {
    "type": "object",
    "description": "An event of a timeline. The last four fields are there where sentences have a confidence.",
    "required": ["sentence", "timestamp", "proposal_score"],
    "properties": {
        "timestamp": {
            "type": "array",
            "items": {"type": "number", "minimum": 0},
            "minItems": 2,
            "maxItems": 2,
            "description": "Start and end in seconds.",
        },
        "sentence": {"type": "string", "description": "The sentence that is shown; empty if none is sure enough."},
        "proposal_score": {"type": "number", **SHARE, "description": "Confidence that there is an event."},
        "sentence_score": {"type": ["number", "null"], **SHARE, "description": "Confidence in the sentence."},
        "full_sentence": {"type": "string", "description": "The guess before it was shortened or left out."},
        "shortened": {"type": "boolean", "description": "Whether `sentence` was shortened."},
        "sentence_model": {
            "type": ["string", "null"],
            "description": "The name of the model that wrote the sentence, if it is known.",
        },
    },
}
TIMELINE_JSON: Schema = {
    "type": "object",
    "description": "ActivityNet's submission form, with details.",
    "required": ["version", "results", "external_data"],
    "properties": {
        "version": {"type": "string", "description": "Of the form."},
        "results": {
            "type": "object",
            "additionalProperties": {"type": "array", "items": {"$ref": "#/components/schemas/Event"}},
            "description": "The events of the video, a list of `Event` under its name.",
        },
        "external_data": {"type": "object", "description": "What the form requires."},
        "details": {"type": "object", "description": "Title, duration, model and warning of the video."},
        "provenance": {"type": "object", "description": "Version and inputs."},
    },
}
SEVERAL: Schema = {
    "type": "object",
    "required": ["jobs"],
    "properties": {"jobs": {"type": "array", "items": {"$ref": "#/components/schemas/Job"}}},
}
SCHEMAS: dict[str, Schema] = {
    "Job": JOB,
    "Jobs": SEVERAL,
    "Timeline": TIMELINE_JSON,
    "Event": EVENT,
    "Limits": LIMITS,
    "Error": ERROR,
}
VIDEO_BODY: Schema = {"type": "string", "format": "binary"}
ID = {"name": "id", "in": "path", "required": True, "schema": {"type": "string"}, "description": "The id of a job."}


def openapi() -> Schema:
    """The whole description."""
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "densevid",
            "version": densevid.__version__,
            "description": "Upload a video, poll its job, download its timeline: events with a sentence each.",
        },
        "paths": {
            "/jobs": {"post": _post_job(), "get": _get_several()},
            "/jobs/{id}": {
                "get": _operation("Get the state of a job", _json(200, "The job.", "Job"), _gone(), [ID]),
                "delete": _operation("Stop a job and delete its files", _empty(204, "Deleted."), _gone(), [ID]),
            },
            "/jobs/{id}/result": {"get": _get_result([ID], "Get the timeline, in the format that `Accept` prefers")},
            "/jobs/{id}/result.{format}": {"get": _get_result([ID, _format()], "Get the timeline, in a given format")},
            "/jobs/{id}/{file}": {"get": _get_video()},
            "/limits": {"get": _operation("Get the server's limits", _json(200, "The limits.", "Limits"), {}, [])},
        },
        "components": {"schemas": SCHEMAS},
    }


def _post_job() -> Schema:
    parameters = [
        _query("name", "The name for display; a form has its own."),
        _switch("all_words", "`1`: full guesses, however unsure the sentences are; `0`: not."),
        _switch("fast", "`1`: without actions, faster, with poorer sentences; `0`: not."),
    ]
    errors = {
        **_json(400, "The body is empty, or a form that is incomplete; or a parameter is wrong.", "Error"),
        **_json(403, "The request comes from a page of another site.", "Error"),
        **_json(408, "The upload is too slow.", "Error"),
        **_json(413, "The file is larger than `/limits` allows.", "Error"),
        **_json(415, "The body is neither a video nor a form.", "Error"),
        **_json(503, "The queue is full; `Retry-After` has the time to try again.", "Error"),
        **_json(507, "Too little disk space is left.", "Error"),
    }
    answer = _json(201, "The job; `Location` has its address.", "Job")
    operation = _operation("Upload a video", answer, errors, parameters)
    form = {"type": "object", "properties": {"file": VIDEO_BODY}, "required": ["file"]}
    content = {"application/octet-stream": {"schema": VIDEO_BODY}, "video/*": {"schema": VIDEO_BODY}}
    body = {"required": True, "content": {**content, "multipart/form-data": {"schema": form}}}
    return {**operation, "requestBody": body, "x-example": "curl -X POST -T video.mp4 '{base}/jobs?name=video.mp4'"}


def _get_several() -> Schema:
    ids = _query("id", "The id of a job; may be given up to 100 times.")
    ids["schema"] = {"type": "array", "items": {"type": "string"}}
    return _operation("Get the states of several jobs", _json(200, "Those that exist.", "Jobs"), {}, [ids])


def _get_result(parameters: list[Schema], summary: str) -> Schema:
    contents = {kind: {"schema": {"type": "string"}} for kind in ("text/html", "text/vtt")}
    contents["application/json"] = {"schema": {"$ref": "#/components/schemas/Timeline"}}
    answer = {"200": {"description": "A page, subtitles, or as JSON a `Timeline`.", "content": contents}}
    errors = {**_gone(), **_json(409, "The job is not done yet, or it failed; see the error.", "Error")}
    ending = "result.vtt" if len(parameters) > 1 else "result"
    return {**_operation(summary, answer, errors, parameters), "x-example": f"curl {{base}}/jobs/ID/{ending}"}


def _get_video() -> Schema:
    file = {"name": "file", "in": "path", "required": True, "schema": {"type": "string"}}
    file["description"] = "The file name in `links.video`."
    content = {"video/*": {"schema": VIDEO_BODY}}
    answer = {
        "200": {"description": "The whole video.", "content": content},
        "206": {"description": "The part that `Range` names.", "content": content},
    }
    return _operation("Get the video", answer, _gone(), [ID, file])


def _operation(summary: str, answer: Schema, errors: Schema, parameters: list[Schema]) -> Schema:
    return {"summary": summary, "parameters": parameters, "responses": {**answer, **errors}}


def _json(status: int, description: str, schema: str) -> Schema:
    content = {"application/json": {"schema": {"$ref": f"#/components/schemas/{schema}"}}}
    return {str(status): {"description": description, "content": content}}


def _empty(status: int, description: str) -> Schema:
    return {str(status): {"description": description}}


def _gone() -> Schema:
    return _json(404, "No such job.", "Error")


def _query(name: str, description: str) -> Schema:
    return {"name": name, "in": "query", "schema": {"type": "string"}, "description": description}


def _switch(name: str, description: str) -> Schema:
    return _query(name, description) | {"schema": {"type": "string", "enum": ["1", "0"]}}


def _format() -> Schema:
    schema = {"type": "string", "enum": ["html", "json", "vtt"]}
    return {
        "name": "format",
        "in": "path",
        "required": True,
        "schema": schema,
        "description": "The suffix of the file.",
    }


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
    return answer["description"] + (f" Returns `{schema}`." if schema and schema != "Error" else "")


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
