# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sphinx's settings for the site of `make docs`: what antsibull-docs and tools/docs_pages.py have written."""

from __future__ import annotations

from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment

project = "mlnode.tuning"
project_copyright = "mlnode.tuning contributors"
extensions = ["myst_parser", "sphinx_antsibull_ext"]
html_title = project
html_theme = "furo"
html_static_path = ["site.css"]
html_css_files = ["site.css"]
html_copy_source = False
# It would have the environment variables only, which have a page.
html_use_index = False
nitpicky = True
# Blocks without a language are text, not Python. Options keep both dashes.
highlight_language = "text"
smartquotes = False
# A forge makes anchors of the same names.
myst_heading_anchors = 4

ANSIBLE = "https://docs.ansible.com/ansible/latest/"
#: Reference target → page of Ansible's documentation, whose index would have to be fetched, and its title
ELSEWHERE = {
    "action_plugins": ("plugins/action.html", "Action plugins"),
    "ansible_configuration_settings": ("reference_appendices/config.html", "Ansible Configuration Settings"),
    "callback_plugins": ("plugins/callback.html", "Callback plugins"),
    "common_return_values": ("reference_appendices/common_return_values.html", "Common Return Values"),
    "ANSIBLE_CALLBACKS_ENABLED": (
        "reference_appendices/config.html#envvar-ANSIBLE_CALLBACKS_ENABLED",
        "ANSIBLE_CALLBACKS_ENABLED",
    ),
}


def elsewhere(
    _app: Sphinx, _env: BuildEnvironment, node: pending_xref, text: nodes.Element
) -> nodes.reference | None:
    """A link to Ansible's documentation; a reference without a text shows the title of the page."""
    target = node["reftarget"]
    if target not in ELSEWHERE:
        return None
    page, title = ELSEWHERE[target]
    if text.astext() == target:
        text = nodes.inline("", title, classes=text["classes"])
    return nodes.reference("", "", text, refuri=ANSIBLE + page, internal=False)


def without_contents(_app: Sphinx, page: nodes.document) -> None:
    """Remove lists of contents and their links in titles: the theme refuses a list in addition to its own."""
    for topic in [*page.findall(nodes.topic)]:
        if "contents" in topic["classes"]:
            topic.parent.remove(topic)
            for title in page.findall(nodes.title):
                title.attributes.pop("refid", None)


def with_dash(_app: Sphinx, page: nodes.document) -> None:
    """Join name and description in the titles of the reference with a dash, which no line break splits."""
    for title in page.findall(nodes.title):
        for text in [*title.findall(nodes.Text)]:
            text.parent.replace(text, nodes.Text(text.replace(" -- ", " \N{EN DASH} ")))


def setup(app: Sphinx) -> None:
    app.connect("doctree-read", without_contents)
    # Before Sphinx collects the titles, with priority 500
    app.connect("doctree-read", with_dash, priority=400)
    app.connect("missing-reference", elsewhere)
