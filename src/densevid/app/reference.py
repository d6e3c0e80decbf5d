"""The API's description as a page for people, made on the server from `api.py`: no script, nothing from outside."""

from __future__ import annotations

import re
from html import escape
from importlib.resources import files
from string import Template
from typing import Any

Schema = dict[str, Any]


def reference_page(api: Schema, base: str) -> str:
    """Every operation with its parameters, body and answers, and every schema they speak of."""
    template = Template((files("densevid.app") / "page" / "reference.html").read_text(encoding="utf-8"))
    operations = "\n".join(
        _operation(method, path, operation, base)
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


def _operation(method: str, path: str, operation: Schema, base: str) -> str:
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


def _answer(answer: Schema) -> str:
    named = [content["schema"].get("$ref", "") for content in answer.get("content", {}).values()]
    schema = named[0].rpartition("/")[2] if named and named[0] else ""
    return answer["description"] + (f" Gives a `{schema}`." if schema and schema != "Error" else "")


def _schema(name: str, schema: Schema) -> str:
    rows = [(field, _field(described)) for field, described in schema["properties"].items()]
    return f'<article class="operation"><h3 id="{escape(name)}">{escape(name)}</h3>{_table("Field", rows)}</article>'


def _field(described: Schema) -> str:
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
