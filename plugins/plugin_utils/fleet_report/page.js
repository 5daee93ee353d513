// SPDX-FileCopyrightText: mlnode.tuning contributors
// SPDX-License-Identifier: GPL-3.0-or-later
// What hosts said only ever becomes textContent.
"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const { texts, rows, knobs, hosts, states, statuses, severities, fields } = data;
  const [NAME, STATE, GROUPS, WORDS, CELLS] = [0, 1, 2, 3, 4];
  const STATUS = 0, SEVERITY = 1;
  const field = Object.fromEntries(fields.map((name, at) => [name, at + 2]));
  const text = (number) => (number < 0 ? null : texts[number]);
  const byId = (id) => document.getElementById(id);
  const make = (tag, className, content) => {
    const made = document.createElement(tag);
    if (className) made.className = className;
    if (content !== undefined && content !== null) made.textContent = content;
    return made;
  };
  // Characters that cannot be seen, or that would turn the direction of what follows.
  const hidden = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]/u;
  const shown = (value) =>
    hidden.test(value)
      ? Array.from(value, (char) =>
          hidden.test(char) ? `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}` : char).join("")
      : value;
  const number = new Intl.NumberFormat("en").format;

  // -- names of hosts: runs of numbers in one word, as in names.py --

  const natural = new Intl.Collator("en", { numeric: true }).compare;
  const DIGITS = 9, LEAST = 3;

  function forms(name) {
    const found = [];
    for (const match of name.matchAll(/[0-9]+/g)) {
      const [digits] = match, end = match.index + digits.length;
      if (digits.length > DIGITS) continue;
      const [before, after] = [name.slice(0, match.index), name.slice(end)];
      found.unshift({ key: `${before}\n${digits.length}\n${after}`, before, after, digits });
    }
    return found;
  }

  function folded(names) {
    const sizes = new Map(), alike = new Map(), words = [];
    const known = names.map((name) => [name, forms(name)]);
    for (const [, found] of known) for (const form of found) sizes.set(form.key, (sizes.get(form.key) || 0) + 1);
    for (const [name, found] of known) {
      if (!found.length) { words.push({ first: name, word: name, count: 1 }); continue; }
      const best = found.reduce((most, form) => (sizes.get(form.key) > sizes.get(most.key) ? form : most));
      if (!alike.has(best.key)) alike.set(best.key, { ...best, numbers: [] });
      alike.get(best.key).numbers.push(best.digits);
    }
    for (const { before, after, numbers } of alike.values()) {
      numbers.sort();
      for (let start = 0, end = 0; start < numbers.length; start = end) {
        end = start + 1;
        while (end < numbers.length && +numbers[end] === +numbers[end - 1] + 1) end += 1;
        const run = numbers.slice(start, end);
        if (run.length < LEAST) for (const one of run) words.push({ first: before + one + after, word: before + one + after, count: 1 });
        else words.push({ first: before + run[0] + after, word: `${before}[${run[0]}:${run[run.length - 1]}]${after}`, count: run.length });
      }
    }
    return words.sort((one, other) => natural(one.first, other.first));
  }

  // At most so many words, and how many hosts the rest are.
  function few(at, most) {
    const words = folded(at.map((one) => shown(texts[hosts[one][NAME]])));
    const named = words.slice(0, most);
    const rest = at.length - named.reduce((sum, one) => sum + one.count, 0);
    return named.map((one) => one.word).join(", ") + (rest ? ` and ${number(rest)} more` : "");
  }

  // -- what a finding looks like: a colour and a sign, so that no colour has to be distinguished from another --

  const bad = new Set(data.bad), neither = new Set(data.neither);
  const SIGNS = { drifted: "≠", fail: "≠", warn: "!", overridden: "↑", pending: "↻", pending_reboot: "↻", refused: "⊘", unknown: "?" };
  const looks = rows.map((row) => {
    const status = row[STATUS];
    if (bad.has(status) && row[field.ignored] >= 0) return { rank: 4, name: "ignored", sign: "z" };
    if (bad.has(status)) return { rank: row[SEVERITY], name: severities[row[SEVERITY]], sign: SIGNS[statuses[status]] || "≠" };
    if (neither.has(status)) return { rank: 5, name: "none", sign: "" };
    return { rank: 6, name: "ok", sign: statuses[status] === "changed" ? "+" : "" };
  });
  const isBad = (row) => looks[row].rank < 4;
  const statusOf = (row) => (looks[row].name === "ignored" ? "ignored" : statuses[rows[row][STATUS]]);

  const badKnobs = new Uint32Array(knobs.length);
  for (const host of hosts) host[CELLS].forEach((row, at) => { if (row >= 0 && isBad(row)) badKnobs[at] += 1; });

  // In pixels, in bold: a host that could not be reached has its name in bold.
  const pen = document.createElement("canvas").getContext("2d");
  pen.font = "600 14px system-ui, sans-serif";
  const titles = hosts.map((host) => shown(texts[host[NAME]])), letters = Math.max(0, ...titles.map((name) => name.length));
  const longestName = Math.max(0, ...titles.filter((name) => name.length === letters).slice(0, 100).map((name) => pen.measureText(name).width));

  // Columns: what differs is in sight without a scroll, however many there are.
  const worstFirst = [...new Set([...data.outliers.flatMap(([at]) => at), ...knobs.keys()])];

  // -- filter --

  const lower = new Map();
  const has = (value, word) => {
    if (value < 0) return false;
    let known = lower.get(value);
    if (known === undefined) {
      known = shown(texts[value]).toLowerCase();
      lower.set(value, known);
    }
    return known.includes(word);
  };
  const wanted = { words: [], severity: "", status: "", group: "", state: "" };
  let shownHosts = [], shownKnobs = [], matches = null, named = null, narrowed = false;

  function apply() {
    const finding = wanted.severity !== "" || wanted.status !== "";
    narrowed = finding || wanted.words.length > 0;
    const rowFits = rows.map((row, at) =>
      (wanted.severity === "" || (isBad(at) && row[SEVERITY] <= +wanted.severity)) &&
      (wanted.status === "" ||
        (wanted.status === "bad" ? isBad(at) : wanted.status === statusOf(at))));
    const inHost = wanted.words.map((word) => hosts.map((host) =>
      has(host[NAME], word) || host[WORDS].some((one) => has(one, word))));
    const inKnob = wanted.words.map((word) => knobs.map((knob) => has(knob[1], word) || has(knob[0], word)));
    const inRow = wanted.words.map((word) => rows.map((row, at) =>
      statusOf(at).includes(word) || row.some((value, place) => place > 1 && has(value, word))));
    const group = wanted.group === "" ? -1 : +wanted.group;
    const columns = new Uint8Array(knobs.length);
    matches = new Map();
    named = new Set();
    shownHosts = [];
    let found = 0;
    hosts.forEach((host, at) => {
      if (group >= 0 && !host[GROUPS].includes(group)) return;
      if (wanted.state !== "" && host[STATE] !== +wanted.state) return;
      const fits = new Uint8Array(knobs.length);
      let any = 0;
      host[CELLS].forEach((row, knob) => {
        if (row < 0 || !rowFits[row]) return;
        for (let word = 0; word < wanted.words.length; word += 1)
          if (!inHost[word][at] && !inKnob[word][knob] && !inRow[word][row]) return;
        fits[knob] = 1;
        columns[knob] = 1;
        any += 1;
      });
      // A host that could not be looked at has no findings, and is found by its name and its words. It is not as
      // expected either.
      const lost = wanted.status === "bad" && wanted.severity === "" && states[host[STATE]] in STATE_RANKS;
      if ((!finding || lost) && inHost.every((one) => one[at])) named.add(at);
      if (!any && !named.has(at)) return;
      found += any;
      matches.set(at, fits);
      shownHosts.push(at);
    });
    const byWorst = byId("order").value === "worst";
    shownKnobs = (byWorst ? worstFirst : knobs.map((_, at) => at)).filter((at) => !narrowed || columns[at]);
    if (byWorst) shownHosts.sort((one, other) => data.places[one] - data.places[other]);
    byId("found").textContent =
      `${number(shownHosts.length)} of ${number(hosts.length)} hosts` +
      (narrowed ? `, ${number(found)} finding${found === 1 ? "" : "s"}` : "");
    active = { host: Math.min(active.host, Math.max(0, shownHosts.length - 1)),
      knob: Math.min(active.knob, Math.max(0, shownKnobs.length - 1)) };
    draw();
  }

  // -- map: only rows in sight exist --

  const map = byId("map"), list = byId("list"), pairs = byId("pairs"), lines = byId("rows"), head = byId("head");
  let ROW = 22;
  const phone = matchMedia("(max-width: 760px)");
  let active = { host: 0, knob: 0 };
  const drawn = new Map();

  const VIEWS = { map: drawMap, list: drawList, pairs: drawPairs };

  function draw() {
    const now = Object.keys(VIEWS).find((name) => byId(`view-${name}`).getAttribute("aria-pressed") === "true");
    for (const name of Object.keys(VIEWS)) byId(name).hidden = name !== now;
    byId("outliers").hidden = now !== "map" || !data.outliers.length;
    VIEWS[now]();
  }

  function drawMap() {
    drawn.clear();
    lines.replaceChildren();
    const style = getComputedStyle(document.documentElement);
    // As wide as the longest name needs, unless the columns need that room.
    const spare = map.clientWidth - 18 - shownKnobs.length * (phone.matches ? 26 : 16);
    const most = Math.max(parseInt(style.getPropertyValue("--longest-name"), 10), phone.matches ? 0 : spare);
    const name = Math.min(most, Math.max(80, Math.ceil(longestName) + 18));
    map.style.setProperty("--name", `${name}px`);
    ROW = parseInt(style.getPropertyValue("--row"), 10);
    const room = map.clientWidth - name - 18;
    const cell = Math.max(phone.matches ? 26 : 16, Math.min(30, Math.floor(room / Math.max(1, shownKnobs.length))));
    map.style.setProperty("--columns", shownKnobs.length);
    map.style.setProperty("--cell", `${cell}px`);
    // As high as the longest name needs, at 12 px.
    const longest = shownKnobs.reduce((most, at) => Math.max(most, shown(texts[knobs[at][1]]).length), 0);
    map.style.setProperty("--labels", `${Math.max(60, Math.min(phone.matches ? 150 : 235, longest * 8 + 14))}px`);
    map.setAttribute("aria-rowcount", shownHosts.length + 1);
    map.setAttribute("aria-colcount", shownKnobs.length + 1);
    drawHead();
    lines.style.height = `${shownHosts.length * ROW}px`;
    lines.style.width = `${name + cell * shownKnobs.length}px`;
    if (!shownHosts.length) lines.append(make("div", "nothing", "Nothing fits this filter."));
    drawRows();
  }

  function drawHead() {
    const kinds = make("div", "line");
    const labels = make("div", "line");
    kinds.setAttribute("aria-hidden", "true");
    labels.setAttribute("role", "row");
    labels.setAttribute("aria-rowindex", 1);
    kinds.append(make("div", "corner"));
    const corner = make("div", "corner", "host");
    corner.setAttribute("role", "columnheader");
    labels.append(corner);
    let last = null, band = null, span = 0;
    for (const at of shownKnobs) {
      const [kind, key] = knobs[at];
      if (kind !== last) {
        if (band) band.style.gridColumn = `span ${span}`;
        band = make("div", "kind", shown(texts[kind]));
        band.title = shown(texts[kind]);
        kinds.append(band);
        [last, span] = [kind, 0];
      }
      span += 1;
      const label = make("div", badKnobs[at] ? "label bad" : "label");
      label.setAttribute("role", "columnheader");
      const words = make("span", "", shown(texts[key]));
      label.title = shown(texts[key]);
      label.append(words);
      labels.append(label);
    }
    if (band) band.style.gridColumn = `span ${span}`;
    head.replaceChildren(kinds, labels);
  }

  function drawRows() {
    if (map.hidden || !shownHosts.length) return;
    const top = Math.max(0, map.scrollTop - head.offsetHeight);
    const first = Math.max(0, Math.floor(top / ROW) - 8);
    const last = Math.min(shownHosts.length, Math.ceil((map.scrollTop + map.clientHeight) / ROW) + 8);
    for (const [at, line] of drawn) if (at < first || at >= last) { line.remove(); drawn.delete(at); }
    const fresh = document.createDocumentFragment();
    for (let at = first; at < last; at += 1) {
      if (drawn.has(at)) continue;
      const line = oneLine(at);
      drawn.set(at, line);
      fresh.append(line);
    }
    lines.append(fresh);
    mark();
  }

  function oneLine(at) {
    const host = hosts[shownHosts[at]];
    const fits = matches.get(shownHosts[at]);
    const line = make("div", "line");
    line.style.top = `${at * ROW}px`;
    line.setAttribute("role", "row");
    line.setAttribute("aria-rowindex", at + 2);
    line.dataset.at = at;
    const name = make("div", `name is-${states[host[STATE]].split(" ").pop()}`, shown(texts[host[NAME]]));
    name.setAttribute("role", "rowheader");
    name.title = [shown(texts[host[NAME]]), states[host[STATE]], ...host[WORDS].map((one) => shown(texts[one]))].join("\n");
    line.append(name);
    if (host[CELLS].every((row) => row < 0)) {
      // Nothing was reported about it: the reason takes the place of the cells.
      const why = make("div", "message", [states[host[STATE]], ...host[WORDS].map((one) => shown(texts[one]))].join(": "));
      why.setAttribute("role", "gridcell");
      line.append(why);
      return line;
    }
    shownKnobs.forEach((knob, column) => {
      const row = host[CELLS][knob];
      const look = row < 0 ? null : looks[row];
      const cell = make("div", look ? `cell ${look.name}` : "cell empty", look ? look.sign : "");
      if (narrowed && row >= 0 && !fits[knob]) cell.classList.add("dim");
      cell.setAttribute("role", "gridcell");
      cell.setAttribute("aria-colindex", column + 2);
      cell.setAttribute("aria-label", look
        ? `${shown(texts[knobs[knob][1]])}: ${statusOf(row)}${isBad(row) ? `, ${severities[rows[row][SEVERITY]]}` : ""}`
        : `${shown(texts[knobs[knob][1]])}: not reported`);
      line.append(cell);
    });
    return line;
  }

  function mark() {
    for (const old of lines.querySelectorAll(".active")) { old.classList.remove("active"); old.removeAttribute("id"); }
    const line = drawn.get(active.host);
    const cell = line && (line.children[active.knob + 1] || line.lastChild);
    map.removeAttribute("aria-activedescendant");
    if (!cell) return;
    cell.id = "active";
    map.setAttribute("aria-activedescendant", "active");
    if (document.activeElement === map || !byId("details").hidden) cell.classList.add("active");
  }

  function move(host, knob) {
    active = { host: Math.max(0, Math.min(shownHosts.length - 1, host)),
      knob: Math.max(0, Math.min(shownKnobs.length - 1, knob)) };
    const above = head.offsetHeight, top = active.host * ROW + above;
    if (top < map.scrollTop + above) map.scrollTop = top - above;
    else if (top + ROW > map.scrollTop + map.clientHeight - 16) map.scrollTop = top + ROW - map.clientHeight + 16;
    drawRows();
    const cell = drawn.get(active.host)?.children[active.knob + 1];
    if (cell && !cell.classList.contains("message")) {
      const name = drawn.get(active.host).firstChild.offsetWidth;
      const left = cell.offsetLeft;
      if (left < map.scrollLeft + name) map.scrollLeft = left - name;
      else if (left + cell.offsetWidth > map.scrollLeft + map.clientWidth) map.scrollLeft = left + cell.offsetWidth - map.clientWidth + 4;
    }
    mark();
    if (!byId("details").hidden) detailActive();
  }

  // -- list: what has one cause, or is one setting on many hosts, is a row --

  // Ranks of hosts as a whole, among those of findings: before all of them, or after all that are not right.
  const STATE_RANKS = { unreachable: -3, failed: -2, "never answered": -1, "not checked": 3.5 };

  function troubles() {
    const alike = new Map();
    for (const at of shownHosts) {
      const rank = STATE_RANKS[states[hosts[at][STATE]]];
      if (rank === undefined || !named.has(at)) continue;
      const words = hosts[at][WORDS].map((one) => texts[one]).join("; ") || "no module reported anything about it";
      const key = `${rank} ${words}`;
      if (!alike.has(key)) alike.set(key, { rank, state: hosts[at][STATE], why: words, hosts: [], parts: [] });
      alike.get(key).hosts.push(at);
    }
    return [...alike.values()];
  }

  function findings() {
    const alike = new Map();
    for (const at of shownHosts) {
      const fits = matches.get(at);
      for (const knob of shownKnobs) {
        const row = hosts[at][CELLS][knob];
        // Without a filter, what is fine is not listed.
        if (row < 0 || !fits[knob] || (!narrowed && !isBad(row))) continue;
        const key = `${knob} ${statusOf(row)} ${looks[row].rank}`;
        let part = alike.get(key);
        if (!part) {
          part = { knob, rank: looks[row].rank, hosts: [], cells: new Map() };
          alike.set(key, part);
        }
        part.hosts.push(at);
        const cell = part.cells.get(row);
        if (cell) cell.push(at); else part.cells.set(row, [at]);
      }
    }
    const merged = new Map();
    for (const part of alike.values()) {
      const reasons = new Set([...part.cells.keys()].map((row) => rows[row][field.why]));
      const why = reasons.size === 1 ? text([...reasons][0]) || "" : `${number(reasons.size)} reasons`;
      const key = reasons.size === 1 && why ? `${part.rank < 4} ${why} ${part.hosts}` : merged.size;
      const known = merged.get(key);
      if (!known) merged.set(key, { rank: part.rank, why, hosts: part.hosts, parts: [part] });
      else { known.parts.push(part); known.rank = Math.min(known.rank, part.rank); }
    }
    for (const item of merged.values()) item.parts.sort((one, other) => one.rank - other.rank);
    return [...merged.values()];
  }

  // The one value that all have; otherwise how many there are.
  function common(item, name) {
    const values = new Set();
    for (const part of item.parts) for (const row of part.cells.keys()) values.add(rows[row][field[name]]);
    if (values.size > 1) return `${number(values.size)} values`;
    return values.size ? text([...values][0]) : null;
  }

  // The command that repairs it, for these hosts: as in repair.py. A name of other characters is in no command.
  const plain = /^[A-Za-z0-9][A-Za-z0-9_.-]*$/;
  function repairOf(item) {
    const found = new Set();
    for (const part of item.parts) for (const row of part.cells.keys()) found.add(rows[row][field.repair]);
    if (found.size !== 1) {
      // Several areas or ways, of which one playbook does all that only has to be applied again.
      const all = [...found].map((one) => text(one) || "");
      const site = "ansible-playbook mlnode.tuning.site{limit}";
      return all.length && all.every((one) => one.startsWith(site)) && !all.some((one) => one.includes(" -e ")) ? limited(site, item.hosts) : "";
    }
    return limited(text([...found][0]) || "", item.hosts);
  }

  function limited(command, at) {
    const names = at.map((one) => texts[hosts[one][NAME]]);
    const fit = names.length <= data.most_limited && names.every((name) => plain.test(name));
    const listed = fit ? names.join(",") : "all";
    return command.replace("{limit}", fit && names.length < hosts.length ? ` --limit ${listed}` : "").replace("{hosts}", listed);
  }

  const keyOf = (part) => shown(texts[knobs[part.knob][1]]);

  function titleOf(item) {
    if (!item.parts.length) return "the whole host";
    return keyOf(item.parts[0]) + (item.parts.length > 1 ? ` and ${number(item.parts.length - 1)} more` : "");
  }

  function tags(item) {
    if (!item.parts.length) return [[states[item.state], item.rank < 0 ? "high" : "none"]];
    const found = new Map();
    for (const part of item.parts) for (const row of part.cells.keys()) if (!found.has(statusOf(row))) found.set(statusOf(row), looks[row].name);
    return [...found];
  }

  const tag = ([word, look]) => make("span", `tag ${look}`, word);
  const severityOf = (item) => (item.parts.length && item.rank < 4 ? severities[item.rank] : "");
  const COLUMNS = ["severity", "status", "setting or check", "want", "runtime", "boot", "why", "repair", "hosts"];

  function oneRow(item) {
    const line = make("tr");
    line.setAttribute("role", "row");
    line.tabIndex = 0;
    const cells = [severityOf(item), null, titleOf(item), ...["want", "runtime", "boot"].map((name) => common(item, name)), item.why, repairOf(item),
      `${number(item.hosts.length)}: ${few(item.hosts, 6)}`];
    cells.forEach((value, at) => {
      const name = COLUMNS[at].split(" ")[0];
      const cell = make("td", `${name}${at > 2 && at < 6 ? " value" : ""}`, value === null ? "" : shown(value));
      cell.setAttribute("role", "cell");
      cell.dataset.name = COLUMNS[at];
      line.append(cell);
    });
    line.children[1].append(...tags(item).map(tag));
    if (item.parts.length > 1) line.children[2].append(make("div", "also", item.parts.slice(1, 4).map(keyOf).join(", ") + (item.parts.length > 4 ? ", …" : "")));
    const choose = () => {
      detailGroup(item);
      for (const old of list.querySelectorAll("[aria-current]")) old.removeAttribute("aria-current");
      line.setAttribute("aria-current", "true");
    };
    line.addEventListener("click", choose);
    line.addEventListener("keydown", (event) => { if (event.key === "Enter") choose(); });
    return line;
  }

  function drawList() {
    const found = [...troubles(), ...findings()].sort((one, other) => one.rank - other.rank || one.hosts.length - other.hosts.length);
    if (!found.length) {
      list.replaceChildren(make("div", "nothing", narrowed ? "Nothing fits this filter." : "Everything that was checked is as expected."));
      return;
    }
    const most = 1000;
    const table = make("table"), thead = make("thead"), body = make("tbody"), top = make("tr");
    for (const [part, role] of [[table, "table"], [thead, "rowgroup"], [body, "rowgroup"], [top, "row"]]) part.setAttribute("role", role);
    for (const title of COLUMNS) {
      const cell = make("th", "", title);
      cell.scope = "col";
      if (["want", "runtime", "boot"].includes(title)) cell.className = "value";
      cell.setAttribute("role", "columnheader");
      top.append(cell);
    }
    thead.append(top);
    body.append(...found.slice(0, most).map(oneRow));
    table.append(thead, body);
    list.replaceChildren(table);
    if (found.length > most) list.append(make("div", "nothing", `and ${number(found.length - most)} more: narrow the filter`));
  }

  // -- pairs: what was measured between two hosts, or of many, between the leaves that they are on --

  const [ONE, OTHER, RAIL, SHARE, VERDICT, VALUE, REASON] = [0, 1, 2, 3, 4, 5, 6];
  // Hosts that have a row of their own; of more, a row is a leaf, or hosts with names that follow each other.
  const ROWS = 64;
  const FAIL = statuses.indexOf("fail"), UNKNOWN = statuses.indexOf("unknown");
  let inside = null, matrix = null;

  function grouped(names, leafOf) {
    if (names.length <= ROWS) return names.map((at) => ({ title: shown(texts[hosts[at][NAME]]), hosts: [at] }));
    const leaves = new Map();
    for (const at of names) leaves.set(leafOf[at], [...(leaves.get(leafOf[at]) || []), at]);
    if (leaves.size > 1 && leaves.size <= ROWS) return [...leaves].map(([leaf, members]) => ({ title: shown(leaf) || "no leaf", hosts: members }));
    const sorted = [...names].sort((one, other) => natural(leafOf[one], leafOf[other]) || one - other);
    const size = Math.ceil(sorted.length / ROWS);
    return Array.from({ length: Math.ceil(sorted.length / size) }, (_, at) => sorted.slice(at * size, (at + 1) * size))
      .map((members) => ({ title: few(members, 1), hosts: members }));
  }

  // The worst first: what has no result may be as bad as any.
  const worse = (one, other) => (one[VERDICT] === UNKNOWN ? -1 : one[SHARE] ?? 9) - (other[VERDICT] === UNKNOWN ? -1 : other[SHARE] ?? 9);
  const low = (found) => found.filter((pair) => pair[VERDICT] === FAIL || pair[VERDICT] === UNKNOWN);

  // Colour and sign by the worst pair: an average would hide it.
  function lookOf(found) {
    const [worst] = low(found).sort(worse);
    if (!worst) return ["ok", ""];
    if (worst[SHARE] === null || worst[VERDICT] === UNKNOWN) return ["none", "?"];
    const share = worst[SHARE];
    if (share >= 1) return ["medium", "!"];
    return [share < 0.8 ? "high" : share < 0.95 ? "medium" : "low", String(Math.floor(100 * share))];
  }

  const percent = (pair) => (pair[SHARE] === null ? "" : `, ${Math.floor(100 * pair[SHARE])} % of the limit`);

  function drawPairs() {
    const campaign = data.campaigns[+byId("campaign").value];
    const chosen = new Set(shownHosts.filter((at) => !inside || inside.has(at)));
    const between = (least) => campaign.pairs.filter((pair) => chosen.has(pair[ONE]) + chosen.has(pair[OTHER]) >= least);
    // A filter may leave one host: then with its partners.
    const both = between(2), found = both.length ? both : between(1);
    const partners = new Set(found.flatMap((pair) => [pair[ONE], pair[OTHER]]));
    const names = [...new Set([...chosen, ...partners])].filter((at) => at in campaign.leaves);
    const rowsOf = grouped(names, campaign.leaves), place = new Map(), cells = new Map();
    rowsOf.forEach((group, row) => { for (const at of group.hosts) place.set(at, row); });
    for (const pair of found) {
      const ends = [place.get(pair[ONE]), place.get(pair[OTHER])];
      for (const key of new Set([`${ends[0]} ${ends[1]}`, `${ends[1]} ${ends[0]}`])) cells.set(key, [...(cells.get(key) || []), pair]);
    }
    matrix = { groups: rowsOf, cells };
    const many = rowsOf.length < names.length;
    byId("pairs-note").textContent = `${shown(campaign.title)}: ${number(found.length)} pairs between ${number(names.length)} hosts, ${number(low(found).length)} not right. ` +
      (many ? "A cell has the worst pair of two groups of hosts" : "A cell has the worst rail of a pair") +
      ", in percent of its limit where it is less; an empty one was not measured.";
    byId("pairs-all").hidden = !inside;
    if (!found.length) { byId("matrix").replaceChildren(make("div", "nothing", "No pair that fits this filter was measured.")); return; }
    const cell = Math.max(phone.matches ? 26 : 20, Math.min(34, Math.floor((pairs.clientWidth - 190) / rowsOf.length)));
    pairs.style.setProperty("--cell", `${cell}px`);
    const table = make("table"), head = make("thead"), body = make("tbody"), top = make("tr");
    top.append(make("td", "corner"));
    for (const group of rowsOf) {
      const title = make("th");
      title.scope = "col";
      title.append(make("span", "", group.title));
      top.append(title);
    }
    head.append(top);
    rowsOf.forEach((group, row) => {
      const line = make("tr"), title = make("th", "", group.title);
      title.scope = "row";
      title.title = group.title;
      line.append(title, ...rowsOf.map((_, column) => oneCell(row, column)));
      body.append(line);
    });
    table.append(head, body);
    byId("matrix").replaceChildren(table);
    const first = body.querySelector("td[tabindex]");
    if (first) first.tabIndex = 0;
  }

  function oneCell(row, column) {
    const cell = make("td"), found = matrix.cells.get(`${row} ${column}`);
    if (!found) return cell;
    const [look, sign] = lookOf(found);
    cell.append(make("div", `cell ${look}`, sign));
    cell.tabIndex = -1;
    cell.dataset.key = `${row} ${column}`;
    cell.setAttribute("aria-label", `${titleOfCell(row, column)}: ${sign === "?" ? "unknown" : sign ? `${sign} %` : "as expected"}`);
    return cell;
  }

  const titleOfCell = (row, column) => (row === column ? matrix.groups[row].title : `${matrix.groups[row].title} – ${matrix.groups[column].title}`);

  function detailPair(cell) {
    const [row, column] = cell.dataset.key.split(" ").map(Number);
    const found = [...matrix.cells.get(cell.dataset.key)].sort(worse), bad = low(found);
    const groups = [...new Set([matrix.groups[row], matrix.groups[column]])];
    const lone = groups.length === 2 && groups.every((group) => group.hosts.length === 1);
    for (const old of pairs.querySelectorAll("td[tabindex='0']")) old.tabIndex = -1;
    cell.tabIndex = 0;
    byId("details-title").textContent = titleOfCell(row, column);
    const most = 100;
    const parts = found.slice(0, most).map((pair) => {
      const line = make("li");
      const ends = lone ? `rail ${pair[RAIL]}` : `${few([pair[ONE]], 1)} – ${few([pair[OTHER]], 1)}, rail ${pair[RAIL]}`;
      line.append(make("strong", "", ends), ` ${statuses[pair[VERDICT]]}: ${shown(texts[pair[VALUE]])}${percent(pair)}`);
      if (texts[pair[REASON]]) line.append(make("div", "also", shown(texts[pair[REASON]])));
      return line;
    });
    if (found.length > most) parts.push(make("li", "", `and ${number(found.length - most)} more`));
    open([["pairs", number(found.length)], ["not right", number(bad.length)]], parts,
      lone ? null : { inside: groups.flatMap((group) => group.hosts) });
  }

  // The next cell with something in it, in this row or column.
  function step(cell, key) {
    const [row, column] = cell.dataset.key.split(" ").map(Number);
    const [down, right] = { ArrowDown: [1, 0], ArrowUp: [-1, 0], ArrowRight: [0, 1], ArrowLeft: [0, -1] }[key];
    for (let at = 1; at < matrix.groups.length; at += 1) {
      const next = pairs.querySelector(`td[data-key="${row + down * at} ${column + right * at}"]`);
      if (next) { cell.tabIndex = -1; next.tabIndex = 0; next.focus(); return; }
    }
  }

  // -- details --

  function detailActive() {
    if (shownHosts.length) detail(shownHosts[active.host], shownKnobs[active.knob]);
  }

  function detail(at, knob) {
    const host = hosts[at];
    const row = knob === undefined ? -1 : host[CELLS][knob];
    const values = [];
    const add = (name, value, className) => { if (value !== null && value !== undefined) values.push([name, value, className]); };
    byId("details-title").textContent = shown(knob === undefined ? texts[host[NAME]] : texts[knobs[knob][1]]);
    if (knob !== undefined) add("host", texts[host[NAME]]);
    add("state", states[host[STATE]]);
    if (host[GROUPS].length) add("groups", host[GROUPS].map((one) => texts[one]).join(", "));
    for (const one of host[WORDS]) add("reported", texts[one]);
    if (row >= 0) {
      const found = rows[row];
      add("status", statusOf(row), `status ${looks[row].name}`);
      add("severity", severities[found[SEVERITY]]);
      for (const name of ["declared", "want", "runtime", "boot"])
        add(name, found[field[name]] < 0 ? "–" : texts[found[field[name]]] === "" ? '""' : texts[found[field[name]]], "code");
      for (const [name, title] of [["boot_source", "boot from"], ["origin", "before us"], ["path", "path"]])
        add(title, text(found[field[name]]), "code");
      add("why", text(found[field.reason]));
      add("repair", limited(text(found[field.repair]) || "", [at]) || null, "code");
      add("ignored", text(found[field.ignored]));
      let same = 0, all = 0;
      for (const other of hosts) {
        if (other[CELLS][knob] >= 0) all += 1;
        if (other[CELLS][knob] === row) same += 1;
      }
      add("the same on", `${number(same)} of ${number(all)} hosts`);
      if (badKnobs[knob]) add("not right on", `${number(badKnobs[knob])} of ${number(all)} hosts`);
    } else if (knob !== undefined) add("status", "not reported by this host");
    open(values);
  }

  // A row of the list: its values, or where there are many, each with its hosts.
  function detailGroup(item) {
    const values = [];
    const add = (name, value, className) => { if (value) values.push([name, value, className]); };
    byId("details-title").textContent = titleOf(item);
    for (const [word, look] of tags(item)) add("status", word, `status ${look}`);
    add("severity", severityOf(item));
    add("why", item.why);
    add("repair", repairOf(item), "code");
    const lone = item.parts.length === 1 && item.parts[0].cells.size === 1;
    const each = [];
    for (const part of item.parts) for (const [row, at] of part.cells) each.push([part, rows[row], at]);
    if (lone) {
      const found = each[0][1];
      for (const name of ["declared", "want", "runtime", "boot"]) add(name, found[field[name]] < 0 ? "–" : text(found[field[name]]) || '""', "code");
      for (const [name, title] of [["boot_source", "boot from"], ["origin", "before us"], ["path", "path"]]) add(title, text(found[field[name]]), "code");
      add("ignored", text(found[field.ignored]));
    }
    add("hosts", `${number(item.hosts.length)} of ${number(hosts.length)}: ${few(item.hosts, 200)}`);
    const most = 100;
    const lines = (lone ? [] : each).slice(0, most).map(([part, found, at]) => {
      const said = ["want", "runtime", "boot"].filter((name) => found[field[name]] >= 0).map((name) => `${name} ${text(found[field[name]]) || '""'}`);
      const line = make("li");
      line.append(make("strong", "", item.parts.length > 1 ? keyOf(part) : few(at, 20)), ` ${shown(said.join(", "))}`);
      return line;
    });
    if (!lone && each.length > most) lines.push(make("li", "", `and ${number(each.length - most)} more`));
    open(values, lines, item);
  }

  let opener = null, selected = null;

  function open(values, parts = [], item = null) {
    const place = byId("details-values");
    place.replaceChildren();
    for (const [name, value, className] of values) {
      place.append(make("dt", "", name));
      const dd = make("dd", className === "code" ? "code" : "");
      if (className?.startsWith("status ")) dd.append(make("span", `tag ${className.slice(7)}`, shown(value)));
      else dd.textContent = shown(value);
      place.append(dd);
    }
    byId("details-parts").replaceChildren(...parts);
    byId("details-parts").hidden = !parts.length;
    selected = item;
    byId("only").hidden = !item;
    byId("only").textContent = item?.inside ? "Show these hosts" : "Show on the map";
    const opened = byId("details").hidden;
    if (opened) opener = document.activeElement;
    byId("details").hidden = false;
    byId("details").scrollTop = 0;
    if (opened && !map.hidden) fit();
    mark();
  }

  function close() {
    if (byId("details").hidden) return;
    byId("details").hidden = true;
    for (const old of list.querySelectorAll("[aria-current]")) old.removeAttribute("aria-current");
    if (!map.hidden) { fit(); map.focus(); } else if (opener?.isConnected) opener.focus();
  }

  // Filter the map by a row of the list.
  function only(item) {
    close();
    if (item.inside) { inside = new Set(item.inside); drawPairs(); return; }
    if (item.parts.length) find(item.parts.length > 1 ? item.why : keyOf(item.parts[0]), item.rank < 4);
    else { wanted.state = String(item.state); press(); }
    view("map");
    read();
  }

  function find(words, isWrong) {
    byId("search").value = shown(words).split('"').filter(Boolean).map((part) => `"${part}"`).join(" ");
    byId("status").value = isWrong ? "bad" : "";
  }

  // The map has another width: cells in it get another one, too.
  function fit() {
    const { scrollTop, scrollLeft } = map;
    drawMap();
    map.scrollTop = scrollTop;
    map.scrollLeft = scrollLeft;
    drawRows();
  }

  // -- controls --

  function option(select, value, title) {
    const made = make("option", "", title);
    made.value = value;
    byId(select).append(made);
  }

  function controls() {
    option("severity", "", "any");
    for (const [at, severity] of severities.entries()) option("severity", at, at ? `${severity} and worse` : severity);
    const present = new Set();
    for (const host of hosts) for (const row of host[CELLS]) if (row >= 0) present.add(statusOf(row));
    option("status", "", "any");
    option("status", "bad", "not as expected");
    for (const status of [...statuses, "ignored"]) if (present.has(status)) option("status", status, status);
    option("group", "", "all");
    const groups = new Set(hosts.flatMap((host) => host[GROUPS]));
    for (const group of [...groups].sort((one, other) => (texts[one] < texts[other] ? -1 : 1)))
      option("group", group, shown(texts[group]));
    states.forEach((state, at) => {
      const count = hosts.filter((host) => host[STATE] === at).length;
      if (!count) return;
      const button = make("button", "", `${number(count)} ${state === "differs" && count > 1 ? "differ" : state}`);
      button.type = "button";
      button.setAttribute("aria-pressed", "false");
      button.dataset.state = at;
      button.addEventListener("click", () => {
        wanted.state = wanted.state === String(at) ? "" : String(at);
        press();
        apply();
      });
      byId("states").append(button);
    });
    chips();
    for (const [name, sign, title] of [["high", "≠", "not right, high"], ["medium", "≠", "medium"], ["low", "≠", "low"],
      ["ok", "", "as expected"], ["none", "", "not there, or does not apply"], ["ignored", "z", "ignored until a date"]]) {
      const item = make("li");
      item.append(make("span", `swatch ${name}`, sign), title);
      byId("legend").append(item);
    }
    byId("legend").append(make("li", "", "≠ differs  ↑ overridden at boot  ↻ waits for a restart or reboot  ⊘ refused  ? unknown  ! warning  + changed now"));
    byId("made").textContent = `mlnode ${data.version}`;
    byId("merged").textContent = `merged: ${data.merged.map(shown).join(". ")}`;
    byId("merged").hidden = !data.merged.length;
    byId("headline").textContent = `${shown(data.playbook)}${data.check_mode ? " (check mode)" : ""}, ${data.ended}`;
  }

  // What differs, as filters: the worst ones, and the others on demand.
  function chips() {
    const most = 6;
    const made = data.outliers.map(([at, severity, count, of, why]) => {
      const key = texts[knobs[at[0]][1]], rest = at.length - 1;
      const button = make("button");
      button.type = "button";
      button.append(make("span", `dot ${severities[severity]}`),
        `${number(count)} of ${number(hosts.length)} differ${count === 1 ? "s" : ""} in ${shown(key)}${rest ? ` and ${number(rest)} more` : ""}`);
      button.title = [`${severities[severity]}: show only these`, of < hosts.length ? `${number(of)} of ${number(hosts.length)} hosts report it` : "", shown(texts[why])].filter(Boolean).join("\n");
      button.addEventListener("click", () => { find(rest ? texts[why] : key, true); read(); });
      return button;
    });
    byId("outliers").append(...made.slice(0, most));
    if (made.length <= most) return;
    const more = make("button", "more", `and ${number(made.length - most)} more`);
    more.type = "button";
    more.addEventListener("click", () => { more.replaceWith(...made.slice(most)); if (!map.hidden) fit(); made[most].focus(); });
    byId("outliers").append(more);
  }

  function press() {
    for (const button of byId("states").children)
      button.setAttribute("aria-pressed", String(button.dataset.state === wanted.state));
  }

  function read() {
    // A word in quotes holds its blanks.
    wanted.words = [...byId("search").value.toLowerCase().matchAll(/"([^"]+)"|[^\s"]+/g)].map((match) => match[1] || match[0]);
    for (const name of ["severity", "status", "group"]) wanted[name] = byId(name).value;
    map.scrollTop = 0;
    apply();
  }

  function view(name) {
    for (const one of Object.keys(VIEWS)) byId(`view-${one}`).setAttribute("aria-pressed", String(one === name));
    if (matches) draw();
  }

  byId("app").hidden = false;
  controls();
  for (const name of ["severity", "status", "group", "order"]) byId(name).addEventListener("change", read);
  byId("search").addEventListener("input", read);
  byId("filter").addEventListener("submit", (event) => event.preventDefault());
  byId("filter").addEventListener("reset", () => setTimeout(() => { wanted.state = ""; press(); read(); }));
  byId("view-map").addEventListener("click", () => view("map"));
  byId("view-list").addEventListener("click", () => view("list"));
  byId("view-pairs").addEventListener("click", () => view("pairs"));
  byId("view-pairs").hidden = !data.campaigns.length;
  byId("campaign").hidden = data.campaigns.length < 2;
  for (const [at, campaign] of data.campaigns.entries()) option("campaign", at, shown(campaign.title));
  byId("campaign").addEventListener("change", drawPairs);
  byId("pairs-all").addEventListener("click", () => { inside = null; drawPairs(); });
  pairs.addEventListener("click", (event) => { const cell = event.target.closest("td[data-key]"); if (cell) { cell.focus(); detailPair(cell); } });
  pairs.addEventListener("keydown", (event) => {
    const cell = event.target.closest("td[data-key]");
    if (!cell || event.altKey || event.metaKey || event.ctrlKey) return;
    if (event.key === "Enter" || event.key === " ") detailPair(cell);
    else if (/^Arrow/.test(event.key)) step(cell, event.key);
    else return;
    event.preventDefault();
  });
  byId("close").addEventListener("click", close);
  byId("only").addEventListener("click", () => only(selected));
  map.addEventListener("scroll", drawRows, { passive: true });
  map.addEventListener("focus", mark);
  map.addEventListener("blur", mark);
  lines.addEventListener("click", (event) => {
    const line = event.target.closest(".line");
    if (!line) return;
    const column = [...line.children].indexOf(event.target.closest(".line > *")) - 1;
    if (column >= 0 && !event.target.closest(".message")) {
      move(+line.dataset.at, column);
      detailActive();
    } else detail(shownHosts[+line.dataset.at]);
  });
  map.addEventListener("keydown", (event) => {
    const page = Math.max(1, Math.floor((map.clientHeight - head.offsetHeight) / ROW) - 1);
    const { host, knob } = active;
    const moves = { ArrowDown: [host + 1, knob], ArrowUp: [host - 1, knob], ArrowLeft: [host, knob - 1], ArrowRight: [host, knob + 1],
      PageDown: [host + page, knob], PageUp: [host - page, knob],
      Home: [event.ctrlKey ? 0 : host, 0], End: [event.ctrlKey ? shownHosts.length - 1 : host, shownKnobs.length - 1] };
    if (event.key === "Enter" || event.key === " ") detailActive();
    else if (moves[event.key] && !event.altKey && !event.metaKey) move(...moves[event.key]);
    else return;
    event.preventDefault();
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "/" && !/INPUT|SELECT/.test(document.activeElement.tagName)) { byId("search").focus(); event.preventDefault(); }
    if (event.key === "Escape") close();
  });
  let waiting = 0;
  addEventListener("resize", () => { cancelAnimationFrame(waiting); waiting = requestAnimationFrame(() => { if (!map.hidden) fit(); }); });
  // A map of many columns is wider than a phone.
  if (phone.matches) view("list");
  apply();
})();
