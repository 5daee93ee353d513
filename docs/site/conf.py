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
nitpicky = True
# Blocks without a language are text, not Python. Options keep both dashes.
highlight_language = "text"
smartquotes = False
# A forge makes anchors of the same names.
myst_heading_anchors = 4

ANSIBLE = "https://docs.ansible.com/ansible/latest/"
#: Reference target → page of Ansible's documentation, whose index would have to be fetched
ELSEWHERE = {
    "action_plugins": "plugins/action.html",
    "ansible_configuration_settings": "reference_appendices/config.html",
    "callback_plugins": "plugins/callback.html",
    "common_return_values": "reference_appendices/common_return_values.html",
    "ANSIBLE_CALLBACKS_ENABLED": "reference_appendices/config.html#envvar-ANSIBLE_CALLBACKS_ENABLED",
}


def elsewhere(
    _app: Sphinx, _env: BuildEnvironment, node: pending_xref, text: nodes.Element
) -> nodes.reference | None:
    page = ELSEWHERE.get(node["reftarget"])
    return nodes.reference("", "", text, refuri=ANSIBLE + page, internal=False) if page else None


def without_contents(_app: Sphinx, page: nodes.document) -> None:
    """Remove lists of contents: the theme shows its own, and an error for a second one."""
    for topic in [*page.findall(nodes.topic)]:
        if "contents" in topic["classes"]:
            topic.parent.remove(topic)


def setup(app: Sphinx) -> None:
    app.connect("doctree-read", without_contents)
    app.connect("missing-reference", elsewhere)
