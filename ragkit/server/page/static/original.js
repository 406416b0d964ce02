// A document as its readers know it: pages of PDF files as pictures, HTML and Markdown as formatted text, tables as
// tables. Elements are created one by one; nothing of a document is parsed as HTML by the browser.

import { announce, button, h, plain } from "./dom.js";
import { buildPath, fetchBlob, get } from "./api.js";
import { markText } from "./marks.js";
import { t } from "./words.js";
import { documentBlocks, link } from "./markdown.js";

const PICTURE_WIDTHS = [800, 1200, 1800, 2400]; // few, so that the server can keep its pictures
const ZOOMS = [100, 125, 150, 200, 300]; // percent of the width of the panel
const RENDERERS = { pages: renderPages, html: renderHtml, markdown: renderMarkdown, table: renderTable, text: renderHeadings };

/** Whether a document has another view than its lines. */
export const hasOriginal = ({ view, headings = [] }) => view in RENDERERS && (view !== "text" || headings.length > 0);

/** Shows a document with what is cited marked. Throws an ApiError if its file cannot be shown. */
export const renderOriginal = (body, found, at, isCurrent) => RENDERERS[found.view](body, found, at, isCurrent);

// pages

async function renderPages(body, found, at, isCurrent) {
  const path = `documents/${encodeURIComponent(found.id)}`;
  const count = found.pages.length;
  const marked = at.end > at.start ? await get(buildPath(`${path}/rectangles`, { start: at.start, end: at.end })) : { marks: [] };
  let shown = Math.min(marked.marks[0]?.page ?? at.page ?? 1, count);
  let request = 0;
  let zoom = 0; // of ZOOMS
  let found_ = []; // marks of the match that is shown
  const canvas = h("canvas", { role: "img" });
  const sheet = h("div", { class: "sheet" }, canvas);
  const field = h("input", { type: "number", class: "page-field", min: 1, max: count, "aria-label": t("Page"), on: { change: () => turn(Math.min(Math.max(Math.round(Number(field.value)) || 1, 1), count)) } });
  const label = h("span", { class: "count page-of" }, t("of {n}", { n: count }));
  const small = (text, name, work) => button(text, work, { class: "small", "aria-label": name, "data-tip": name });
  const [back, on] = [["\u2039", t("Previous page"), -1], ["\u203a", t("Next page"), 1]].map(([text, name, step]) => small(text, name, () => turn(shown + step)));
  const [out, into] = [["\u2212", t("Zoom out"), -1], ["+", t("Zoom in"), 1]].map(([text, name, step]) => small(text, name, () => setZoom(zoom + step)));
  const scale = h("span", { class: "count" });
  function setZoom(next) {
    zoom = next;
    showState();
    return draw(shown, () => isCurrent()).catch(() => null);
  }
  function showState() {
    [back.disabled, on.disabled, out.disabled, into.disabled] = [shown <= 1, shown >= count, !zoom, zoom === ZOOMS.length - 1];
    field.value = shown;
    scale.textContent = `${ZOOMS[zoom]} %`;
    sheet.style.setProperty("--zoom", ZOOMS[zoom]);
  }
  /** Shows a match of the search on its page. */
  async function showMatch(match) {
    found_ = (await get(buildPath(`${path}/rectangles`, { start: match.start, end: match.end }))).marks.map((mark) => ({ ...mark, isFound: true }));
    await turn(found_[0]?.page ?? match.page ?? shown);
  }
  const trouble = h("p", { class: "trouble", role: "alert", hidden: true });
  async function turn(page) {
    shown = page;
    showState();
    trouble.hidden = true;
    request += 1;
    const current = request;
    try {
      await draw(page, () => current === request && isCurrent());
      announce(t("Page {n} of {count}", { n: page, count }));
    } catch (error) {
      if (current !== request) return;
      trouble.textContent = plain(error.message);
      trouble.hidden = false;
    }
  }
  async function draw(page, isLatest) {
    const wanted = (Math.max(body.clientWidth, 320) * devicePixelRatio * ZOOMS[zoom]) / 100;
    const width = PICTURE_WIDTHS.find((some) => some >= wanted) ?? PICTURE_WIDTHS.at(-1);
    const picture = await createImageBitmap(await fetchBlob(buildPath(`${path}/pages/${page}`, { width })));
    if (!isLatest()) return;
    [canvas.width, canvas.height] = [picture.width, picture.height];
    canvas.getContext("2d").drawImage(picture, 0, 0);
    canvas.setAttribute("aria-label", t("Page {n}, as in the file. The view Text has its words.", { n: page }));
    const boxes = [...found_, ...marked.marks].filter((mark) => mark.page === page).map(markBox);
    sheet.replaceChildren(canvas, ...boxes);
    (boxes[0] ?? sheet).scrollIntoView({ block: boxes.length ? "center" : "start", inline: "center", behavior: "instant" });
  }
  const notes = at.end > at.start && !marked.marks.length ? [h("p", { class: "note" }, t("The cited text was not found on the picture of the page: see it under Text."))] : [];
  await draw(shown, isCurrent); // the first page decides whether the file can be shown
  if (!isCurrent()) return;
  body.replaceChildren(...notes, h("div", { class: "tools pager", role: "group", "aria-label": t("Pages") }, back, field, label, on, out, scale, into, searchField(path, showMatch)), trouble,
    h("div", { class: "sheet-frame", tabindex: 0, role: "region", "aria-label": t("Pages") }, sheet));
  showState();
  sheet.querySelector(".mark-box")?.scrollIntoView({ block: "center", behavior: "instant" });
}

/** A field that finds words in a document, and steps through the matches. */
function searchField(path, showMatch) {
  const field = h("input", { type: "search", class: "find", placeholder: t("Find in the document"), "aria-label": t("Find in the document"), autocomplete: "off", maxlength: 200 });
  const count = h("span", { class: "count" });
  let [asked, matches, at] = ["", [], -1];
  const form = h("form", { class: "finder", role: "search", on: { submit: async (event) => {
    event.preventDefault();
    const words = field.value.trim();
    if (!words) return;
    try {
      if (words !== asked) [asked, matches, at] = [words, (await get(buildPath(`${path}/find`, { q: words }))).matches, -1];
      if (matches.length) await showMatch(matches[(at = (at + 1) % matches.length)]);
      count.textContent = matches.length ? t("{n} of {count}", { n: at + 1, count: matches.length }) : t("No match");
      announce(count.textContent);
    } catch (error) {
      count.textContent = plain(error.message);
    }
  } } }, field, count);
  return form;
}

function markBox(mark) {
  const box = h("div", { class: mark.isFound ? "mark-box found" : "mark-box" });
  for (const name of ["left", "top", "width", "height"]) box.style.setProperty(`--${name}`, `${(100 * mark[name]).toFixed(3)}%`);
  return box;
}

// HTML

async function renderHtml(body, found, at, isCurrent) {
  const { tree } = await get(`documents/${encodeURIComponent(found.id)}/html`);
  if (!isCurrent()) return;
  finish(body, h("div", { class: "original prose", dir: "auto" }, tree.map(buildNode)), at, found);
}

/** An element of a tree of the server; unknown ones become their text. */
function buildNode(node) {
  if (typeof node === "string") return plain(node);
  const children = node.children.map(buildNode);
  if (node.tag === "a") return (node.href && link(node.href, [children])) ?? h("span", {}, children);
  if (/^h[1-6]$/.test(node.tag)) return h(`h${Math.min(Number(node.tag[1]) + 2, 6)}`, {}, children); // h1 and h2 are used by the page
  if (node.tag === "table") return tableRegion(h("table", {}, children));
  if (node.tag === "pre") return h("pre", { tabindex: 0 }, children);
  return h(node.tag, { colspan: node.colspan, rowspan: node.rowspan }, children);
}

const tableRegion = (table) => h("div", { class: "table", role: "group", tabindex: 0, "aria-label": t("Table") }, table);

// Markdown, tables and other formats, from the indexed text

function renderMarkdown(body, found, at) {
  const first = found.first_line ?? 1;
  const blocks = documentBlocks(found.text);
  finish(body, h("div", { class: "original prose", dir: "auto" }, blocks.map(({ node }) => node)), at, found,
    blocks.filter((block) => isCited(at, first + block.first, first + block.last)).map(({ node }) => node));
}

const isCited = (at, first, last) => at.start_line <= last && at.end_line >= first;

/** Rows as `name: value; name: value` below the names of their sheets. */
function renderTable(body, found, at) {
  const first = found.first_line ?? 1;
  const headings = new Set(found.headings.map(({ line }) => line));
  const parts = [];
  let rows = [];
  const flush = () => {
    if (rows.length) parts.push(buildTable(rows, at));
    rows = [];
  };
  for (const [i, line] of found.text.split("\n").entries()) {
    const number = first + i;
    const pieces = line.split("; ").map((piece) => /^([^:]{1,100}): (.*)$/.exec(piece) ?? [piece, "", piece]);
    if (headings.has(number) || (line.trim() && !pieces[0][1])) {
      flush();
      parts.push(h(headings.has(number) ? "h3" : "p", { "data-line": number, class: isCited(at, number, number) ? "cited" : null }, plain(line)));
    } else if (line.trim()) rows.push({ number, pieces });
  }
  flush();
  finish(body, h("div", { class: "original", dir: "auto" }, parts), at, found, []);
}

function buildTable(rows, at) {
  const counts = new Map();
  for (const { pieces } of rows) for (const [, name] of pieces) if (name) counts.set(name, (counts.get(name) ?? 0) + 1);
  const names = [...counts.keys()].filter((name) => counts.get(name) > 1 || rows.length < 3);
  const cells = ({ pieces }) => {
    const values = new Map();
    let last = "";
    for (const [whole, name, value] of pieces) {
      if (names.includes(name) && !values.has(name)) values.set((last = name), value);
      else values.set(last, last ? `${values.get(last)}; ${whole}` : whole); // a value with a semicolon
    }
    return names.map((name, i) => h("td", {}, plain([i ? "" : values.get("") ?? "", values.get(name) ?? ""].filter(Boolean).join("; "))));
  };
  return tableRegion(h("table", {}, h("thead", {}, h("tr", {}, names.map((name) => h("th", { scope: "col" }, plain(name))))),
    h("tbody", {}, rows.map((row) => h("tr", { class: isCited(at, row.number, row.number) ? "cited" : null, "data-line": row.number }, cells(row))))));
}

/** Paragraphs below headings; lines after column names are rows. */
function renderHeadings(body, found, at) {
  const first = found.first_line ?? 1;
  const levels = new Map(found.headings.map(({ line, level }) => [line, level]));
  const lines = found.text.split("\n");
  const parts = [];
  for (let i = 0; i < lines.length; i += 1) {
    const number = first + i;
    const level = levels.get(number);
    if (!lines[i].trim()) continue;
    const cited = isCited(at, number, number) ? "cited" : null;
    if (level === 100 && lines[i].includes(" | ")) {
      const rows = [];
      while (i + 1 < lines.length && lines[i + 1].includes(" | ")) rows.push([first + (i += 1), lines[i]]);
      const cells = (line, tag) => line.split(" | ").map((cell) => h(tag, {}, plain(cell)));
      parts.push(tableRegion(h("table", {}, h("thead", {}, h("tr", { class: cited, "data-line": number }, cells(lines[number - first], "th"))),
        h("tbody", {}, rows.map(([row, line]) => h("tr", { class: isCited(at, row, row) ? "cited" : null, "data-line": row }, cells(line, "td")))))));
    } else parts.push(h(level ? `h${Math.min(level + 2, 6)}` : "p", { class: cited, "data-line": number }, plain(lines[i])));
  }
  const root = h("div", { class: "original prose", dir: "auto" }, parts);
  finish(body, root, at, found, [...root.querySelectorAll(".cited")]);
}

/** Shows a document, and marks the quote in some of its elements; without them, in all. */
function finish(body, root, at, found, within = [root]) {
  const notes = found.stale ? [h("p", { class: "note warn" }, t("The file has changed or was removed since it was indexed. This is the indexed text; an update of its source reads it again."))] : [];
  if (found.first_line > 1 || found.last_line < found.lines) notes.push(h("p", { class: "note" }, t("Lines {first} to {last} of {lines}: the document is too long to show in full.", { first: found.first_line, last: found.last_line, lines: found.lines })));
  body.replaceChildren(...notes, root);
  const quote = at.quote ?? at.text ?? "";
  const marks = quote && within.length ? markText(root, within, quote, at.start / Math.max(1, found.text.length) || 0) : [];
  if (!marks.length) for (const element of within) if (element !== root) element.classList.add("cited");
  (marks[0] ?? root.querySelector(".cited"))?.scrollIntoView({ block: "center", behavior: "instant" });
}
