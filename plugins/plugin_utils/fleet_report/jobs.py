# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Jobs on the page: a group for each job, with its deviations."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from xml.etree.ElementTree import Element

from .elements import make
from .finding import BAD, SEVERITIES
from .model import Deviation, Job
from .names import few

#: Deviations of a job, and names of its nodes
_LISTED, _NAMES = 1000, 200

#: Rank of a job without a deviation, after the severities
_RIGHT = 6

#: Numbers of hosts, as the page's script reads them
Places = Callable[[Iterable[str]], str]

#: A status with a look
Tag = Callable[[str, str], Element]


def sections(jobs: Sequence[Job], places: Places, tag: Tag) -> Iterator[Element]:
    """None without jobs."""
    if jobs:
        yield make("section", make("h2", "Jobs"), *(_job(job, places, tag) for job in jobs))


def _job(job: Job, places: Places, tag: Tag) -> Element:
    bad = [deviation for deviation in job.deviations if deviation.verdict in BAD]
    worst = bad[0].severity if bad else ""
    nodes = f"{len(job.nodes):,} node{'' if len(job.nodes) == 1 else 's'}"
    deviations = f"{len(bad) or 'no'} deviation{'' if len(bad) == 1 else 's'}"
    return make(
        "details",
        make(
            "summary",
            make("span", tag(job.verdict, worst or "ok"), worst, class_="tags"),
            make("span", job.name, class_="title"),
            make("span", nodes, class_="count"),
            make("span", f"ranks: {job.seen}", class_="why"),
            make("span", f"{deviations}, {job.alike} values alike", class_="why"),
        ),
        make("dl", make("dt", "nodes"), make("dd", few(job.nodes, _NAMES), class_="hosts")),
        _deviations(job, places, tag),
        class_="group",
        data_rank=SEVERITIES.index(worst) if worst else _RIGHT,
        data_status="|".join(
            dict.fromkeys((job.verdict, *(deviation.verdict for deviation in job.deviations)))
        ),
        data_hosts=places(job.nodes),
    )


def _deviations(job: Job, places: Places, tag: Tag) -> Element | None:
    if not job.deviations:
        return None
    rest = len(job.deviations) - _LISTED
    more = make("li", f"and {rest:,} more: see the result of jobs.yml") if rest > 0 else None
    return make("ul", *(_deviation(deviation, places, tag) for deviation in job.deviations[:_LISTED]), more)


def _deviation(deviation: Deviation, places: Places, tag: Tag) -> Element:
    look = deviation.severity if deviation.verdict in BAD else "none"
    who = make("strong", f"{deviation.who} ")
    return make("li", tag(deviation.verdict, look), who, deviation.text, data_hosts=places(deviation.nodes))
