#!/usr/bin/env python3
"""mdBook preprocessor: turns the documents of the repository into chapters of one book.

Documents link to each other by their paths in the repository, and some of them (README.md,
ARCHITECTURE.md, ...) lie outside of docs/. This program gives those chapters a path inside the book
and points every link at the right chapter. Links to files that are no chapters become plain text,
and images are embedded, because the book is published without the repository.

A link to a missing file is an error. Anchors are checked by tests/e2e/repository.rs.
"""

import base64
import json
import mimetypes
import os
import re
import sys

FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^()\s]+)\)")


def chapters(items):
    """Yields every chapter below `items`."""
    for item in items:
        chapter = item.get("Chapter") if isinstance(item, dict) else None
        if chapter:
            yield chapter
            yield from chapters(chapter["sub_items"])


def path_in_book(document):
    """Returns the chapter's path for a document, both relative: crates/README.md -> crates.md."""
    folder, name = os.path.split(document)
    if not folder and name == "README.md":
        return "index.md"
    if folder == "docs" or folder.startswith("docs/"):
        name = "index.md" if name == "README.md" else name
        return os.path.relpath(os.path.join(folder, name), "docs")
    stem = folder if name == "README.md" else os.path.splitext(document)[0]
    return stem.replace("/", "-").lower() + ".md"


def rewrite(root, document, text, pages):
    """Returns `text`, the content of `document`, with its links pointing into the book."""

    def link(match):
        image, label, target = match.groups()
        path, _, anchor = target.partition("#")
        if not path or "://" in path:
            return match.group()
        path = os.path.normpath(os.path.join(os.path.dirname(document), path))
        file = os.path.join(root, path)
        if not os.path.exists(file):
            sys.exit(f"{document} links to {path}, which does not exist")
        if image:
            with open(file, "rb") as image_file:
                data = base64.b64encode(image_file.read()).decode()
            return f"![{label}](data:{mimetypes.guess_type(file)[0]};base64,{data})"
        if path in pages:
            page = os.path.relpath(pages[path], os.path.dirname(pages[document]))
            return f"[{label}]({page}{'#' + anchor if anchor else ''})"
        return label if label.strip("`") == path else f"{label} (`{path}`)"

    parts, end = [], 0
    for fence in FENCE.finditer(text):
        parts += [LINK.sub(link, text[end : fence.start()]), fence.group()]
        end = fence.end()
    return "".join(parts + [LINK.sub(link, text[end:])])


def main():
    if sys.argv[1:2] == ["supports"]:
        return
    context, book = json.load(sys.stdin)
    root, source = context["root"], context["config"]["book"]["src"]
    documents = [(chapter, os.path.normpath(os.path.join(source, chapter["source_path"])))
                 for chapter in chapters(book["items"]) if chapter["source_path"]]
    pages = {document: path_in_book(document) for _, document in documents}
    for chapter, document in documents:
        chapter["path"] = pages[document]
        chapter["content"] = rewrite(root, document, chapter["content"], pages)
    json.dump(book, sys.stdout)


main()
