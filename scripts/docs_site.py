"""What `make docs` does beyond MkDocs, as hooks of mkdocs.yml: folders in the navigation, anchors as GitHub makes them, and
links that leave docs/, which lead to copies of those files in the site, since the site has to work alone.

Relies on MkDocs 1.6 alone.
"""

import os
import pathlib
import re

from mkdocs.structure.files import File

ROOT = pathlib.Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
# A link, or code, in which there are none.
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s#]+)(#[^)\s]*)?\)|^```.*?^```|`[^`\n]*`", re.M | re.S)

# Long lists and ledgers have every word; the search shows pages that explain it first.
RARE = re.compile(r"adr/|api/|measurements/|ops/|reference/flags")


def slug(title, separator):
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", separator)


def title_of(page):
    return re.search(r"^# (.*)$", page.read_text(), re.M)[1].replace("`", "")


def expanded(entry):
    """An entry of the navigation; a folder becomes its pages, README first."""
    if isinstance(entry, list):
        return [expanded(each) for each in entry]
    if isinstance(entry, dict):
        return {name: expanded(value) for name, value in entry.items()}
    if not entry.endswith("/"):
        return entry
    pages = sorted((DOCS / entry).glob("*.md"), key=lambda page: (page.name != "README.md", page.name))
    return [entry + page.name if page.name == "README.md" else {title_of(page): entry + page.name} for page in pages]


def on_config(config):
    config.nav = expanded(config.nav)
    config.mdx_configs["toc"]["slugify"] = slug
    return config


def outside(page, target):
    """The file of the tree, outside of docs, that a link of this page leads to."""
    if re.match(r"\w+:", target):
        return None
    file = pathlib.Path(os.path.normpath(page.parent / target))
    return None if file.is_relative_to(DOCS) else file


def copy_of(file):
    """Its address in the site: text, whatever it is, so that a browser shows it."""
    return f"tree/{file.relative_to(ROOT)}.txt"


def on_files(files, config):
    for page in DOCS.rglob("*.md"):
        for _, _, target, _ in LINK.findall(page.read_text()):
            file = outside(page, target) if target else None
            if file and file.is_file() and not files.get_file_from_path(copy_of(file)):
                files.append(File.generated(config, copy_of(file), abs_src_path=str(file)))
    return files


def on_page_markdown(markdown, page, config, files):
    source = DOCS / page.file.src_uri
    if RARE.match(page.file.src_uri):
        page.meta["search"] = {"boost": 0.3}

    def link(match):
        image, text, target, anchor = match.groups()
        if not target:
            return match[0]
        file = outside(source, target)
        if not file:
            inside = source.parent / target
            return f"{image}[{text}]({target.rstrip('/')}/README.md{anchor or ''})" if inside.is_dir() else match[0]
        return f"[{text}]({os.path.relpath(DOCS / copy_of(file), source.parent)})" if file.is_file() else text

    return LINK.sub(link, markdown)
