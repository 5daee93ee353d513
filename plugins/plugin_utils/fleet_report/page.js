// SPDX-FileCopyrightText: mlnode.tuning contributors
// SPDX-License-Identifier: GPL-3.0-or-later
// Filter the elements of the page. The script creates no element or text from data of hosts.
"use strict";
(() => {
  const byId = (id) => document.getElementById(id);
  const names = JSON.parse(byId("names").textContent).map((name) => name.toLowerCase());
  const number = new Intl.NumberFormat("en").format;
  const sections = [...document.querySelectorAll("details.more")];

  // "0-39,44": places in `names`.
  function members(text) {
    const places = [];
    for (const run of text.split(",")) {
      const [first, last = first] = run.split("-").map(Number);
      for (let at = first; at <= last; at += 1) places.push(at);
    }
    return places;
  }

  // All that an item says but for names of hosts, which are in its data and folded here, and for its parts.
  function wordsOf(element) {
    const copy = element.cloneNode(true);
    for (const folded of copy.querySelectorAll(".hosts, .count, li")) folded.remove();
    return copy.textContent.toLowerCase();
  }

  function itemOf(element) {
    const { rank, status, hosts } = element.dataset;
    const count = element.querySelector(".count");
    const parts = [...element.querySelectorAll("li[data-hosts]")].map(itemOf);
    return { element, parts, count, text: count?.textContent, rank: Number(rank), status: status?.split("|"), hosts: members(hosts) };
  }

  const items = [...document.querySelectorAll("[data-status]")].map(itemOf);
  const alike = [...document.querySelectorAll(".alike")].map(itemOf);

  // The hosts of an item that fit.
  function fitting(item, wanted) {
    if (wanted.severity !== "" && !(item.rank >= 0 && item.rank <= Number(wanted.severity) && item.rank < 3)) return [];
    if (wanted.status === "bad" ? item.rank > 3 : wanted.status && !item.status.includes(wanted.status)) return [];
    return [...new Set([item, ...item.parts].flatMap((part) => matching(part, item, wanted)))];
  }

  // A word matches the text of a part, or of its whole item, or the name of a host.
  function matching(part, item, wanted) {
    if (wanted.words.length) for (const holder of [part, item]) holder.words ??= wordsOf(holder.element);
    const named = wanted.words.filter((word) => !part.words.includes(word) && !item.words.includes(word)).map((word) => wanted.named.get(word));
    if (named.some((hosts) => !hosts.size)) return [];
    return part.hosts.filter((at) => (!wanted.inside || wanted.inside.has(at)) && named.every((hosts) => hosts.has(at)));
  }

  function apply() {
    const value = (id) => byId(id).value;
    // A word in quotes holds its blanks.
    const words = [...value("search").toLowerCase().matchAll(/"([^"]+)"|[^\s"]+/g)].map((match) => match[1] || match[0]);
    const named = new Map(words.map((word) => [word, new Set([...names.keys()].filter((at) => names[at].includes(word)))]));
    const inside = value("group") && new Set(members(value("group")));
    const wanted = { words, named, inside, severity: value("severity"), status: value("status") };
    const narrowed = Boolean(words.length || inside || wanted.severity || wanted.status);
    const shown = new Set();
    for (const item of items) {
      const hosts = narrowed ? fitting(item, wanted) : item.hosts;
      item.element.hidden = !hosts.length;
      if (item.count) item.count.textContent = hosts.length === item.hosts.length ? item.text : `${number(hosts.length)} of these`;
      const left = new Set(hosts);
      for (const part of item.parts) part.element.hidden = !part.hosts.some((at) => left.has(at));
      for (const at of hosts) shown.add(at);
    }
    for (const item of alike) item.element.hidden = narrowed && !item.hosts.some((at) => shown.has(at));
    for (const section of sections) {
      const left = section.querySelector("[data-status]:not([hidden])");
      section.hidden = !left;
      section.open = narrowed && Boolean(left);
    }
    byId("nothing").hidden = items.some((item) => !item.element.hidden);
    byId("found").textContent = `${number(narrowed ? shown.size : names.length)} of ${number(names.length)} hosts`;
  }

  // The summary that is so many steps from the one with the focus, among those in sight.
  function step(from, steps) {
    const seen = [...document.querySelectorAll("summary")].filter((summary) => summary.checkVisibility());
    const at = seen.indexOf(from) + steps;
    seen[Math.max(0, Math.min(seen.length - 1, at))].focus();
  }

  const STEPS = { ArrowDown: 1, ArrowUp: -1, End: Infinity, Home: -Infinity };

  document.addEventListener("keydown", (event) => {
    const { target, key } = event;
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    const open = target.closest("details[open]");
    if (key === "/" && !/INPUT|SELECT/.test(target.tagName)) byId("search").focus();
    else if (key === "Escape" && open) {
      open.open = false;
      open.querySelector("summary").focus();
    } else if (target.tagName === "SUMMARY" && key in STEPS) step(target, STEPS[key]);
    else return;
    event.preventDefault();
  });

  const form = byId("filter");
  form.hidden = false;
  form.addEventListener("input", apply);
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("reset", () => setTimeout(apply));
  apply();
})();
