// A passage in its document: the indexed text, with the lines of a citation or hit highlighted.

import { announce, button, byId, download, formatLocation, h, nameElement, plain, shortName } from "./dom.js";
import { buildPath, fetchBlob, get } from "./api.js";
import { hasOriginal, renderOriginal } from "./original.js";
import { openPanel } from "./panel.js";
import { askOnlyIn } from "./scope.js";
import { said, t, tn } from "./words.js";

let asText = false; // what the reader chose last

/**
 * Opens the document of a citation or hit at its lines.
 *
 * @param at {source, document_id, page, start_line, end_line, quote?, verified?, stale?, support?}
 * @param from the element that opens the panel
 * @param others {list, index}: the list for the previous and next buttons, or null
 */
export function openPassage(at, from, others = null) {
  const source = shortName(at.source);
  const cut = source.lastIndexOf("/") + 1;
  const subtitle = [nameElement(source.slice(0, cut)), at.start_line ? [" ", formatLocation(at), " ", ...statusMarks(at)] : []];
  return openPanel({ title: nameElement(source.slice(cut)), subtitle, tools: navigationButtons(others, from) }, from, async (body, isCurrent) => {
    if (!at.document_id) return body.append(...quoteOnly(at)); // of a link that needs no token
    body.append(h("p", { class: "waiting" }, t("Loading the document")));
    try {
      const found = await get(buildPath(`documents/${encodeURIComponent(at.document_id)}`, { start_line: at.start_line, end_line: at.end_line }));
      if (isCurrent()) await renderViews(body, found, at, isCurrent);
    } catch (error) {
      if (isCurrent()) body.replaceChildren(...missingNotice(error, at));
    }
  });
}

const quoteOnly = ({ quote }) => [h("blockquote", { class: "document gone", dir: "auto" }, plain(quote)), h("p", { class: "note" }, t("The link shows the quote; the document is for those who may use the server."))];

/** A document that was indexed again or removed: shows the quote instead. */
function missingNotice(error, { quote }) {
  if (error.status !== 404) return [h("p", { class: "trouble", role: "alert" }, plain(error.message))];
  return [
    h("p", { class: "note warn", role: "alert" }, t("This version of the document is no longer in the knowledge base: it was indexed again or removed. Ask again for an answer from the current documents.")),
    quote ? h("blockquote", { class: "document gone", dir: "auto" }, plain(quote)) : "",
  ];
}

/** Labels for what was checked of a citation. `support` is missing in hits and in sessions of earlier versions. */
export function statusMarks({ verified, stale, support }) {
  const marks = [];
  if (verified === false) marks.push(h("span", { class: "mark bad", title: t("The quote was not found in the indexed text") }, t("not verified")));
  else if (support) marks.push(h("span", { class: `mark ${supportLevel(support)}`, title: SUPPORT_TITLES[supportLevel(support)] }, plain(said(support))));
  else if (verified === true) marks.push(h("span", { class: "mark good", title: t("The quote matches the indexed text exactly") }, t("verified")));
  if (stale) marks.push(h("span", { class: "mark warn", title: t("The file has changed or was removed since it was indexed") }, t("changed since")));
  return marks;
}

/** The other files that hold a passage that says the same; the first three, the rest as a number. */
export function alsoIn({ also_in: sources = [] }) {
  if (!sources.length) return false;
  const more = sources.length > 3 ? t(" and {n} more", { n: sources.length - 3 }) : "";
  return h("span", { class: "where also", dir: "auto" }, plain(`${t("also in:")} ${sources.slice(0, 3).join(", ")}${more}`));
}

const SUPPORT_TITLES = {
  good: t("What the answer says was compared with this passage"),
  warn: t("The passage holds only a part of what the answer says, or nothing in the answer could be compared with it"),
  bad: t("The passage does not hold what the answer says"),
};

/** The class of a `support` text of a citation. */
export const supportLevel = (support) => (support === "not supported" ? "bad" : /^(?:partly|not checked)/.test(support) ? "warn" : "good");

function navigationButtons(others, from) {
  if (!others || others.list.length < 2) return [];
  const { list, index } = others;
  const to = (next) => () => openPassage(list[next], from, { list, index: next });
  return [
    button(t("Previous"), to(index - 1), { disabled: index === 0 }),
    h("span", { class: "count" }, t("{n} of {count}", { n: index + 1, count: list.length })),
    button(t("Next"), to(index + 1), { disabled: index === list.length - 1 }),
  ];
}

/** The document as its readers know it, or its text; a file that has changed is shown as the text that was indexed. */
async function renderViews(body, found, at, isCurrent) {
  const line = h("p", { class: "trouble", role: "alert", hidden: true });
  const content = h("div", {});
  const choices = hasOriginal(found) ? [[t("Original"), false], [t("Text"), true]].map(([label, value]) => button(label, () => choose(value), { "aria-pressed": "false" })) : [];
  const save = button(t("Download"), async () => {
    line.hidden = true;
    try {
      download(await fetchBlob(`documents/${encodeURIComponent(at.document_id)}/file`), at.source.split("/").pop() || "document");
    } catch (error) {
      line.textContent = plain(error.message);
      line.hidden = false;
    }
  });
  const only = byId("question") && button(t("Only this document"), () => {
    askOnlyIn(at.source, at.source.split("/").pop());
    announce(t("The next questions ask only this document."));
  });
  const overview = button(t("Overview"), async () => {
    line.hidden = true;
    try {
      const about = await get(`documents/${encodeURIComponent(at.document_id)}/overview`);
      content.replaceChildren(...overviewCard(about));
    } catch (error) {
      line.textContent = plain(error.message);
      line.hidden = false;
    }
  });
  const bar = h("div", { class: "tools views-bar", role: "group", "aria-label": t("This document") }, choices, overview, save, only);
  body.replaceChildren(bar, line, content);
  async function choose(value) {
    asText = value;
    await show();
  }
  async function show() {
    const text = asText || !choices.length;
    choices.forEach((choice, i) => choice.setAttribute("aria-pressed", String(text === (i === 1))));
    if (!text) {
      try {
        await renderOriginal(content, found, at, () => isCurrent() && !asText);
        if (isCurrent() && !asText) announce(t("{name} is open beside the answer. Escape closes it.", { name: at.source }));
        return;
      } catch (error) {
        if (!isCurrent() || asText) return;
        choices.forEach((choice, i) => choice.setAttribute("aria-pressed", String(i === 1)));
        line.textContent = plain(`${error.message}. ${t("This is the indexed text.")}`);
        line.hidden = found.stale; // then the text says it
      }
    }
    renderDocument(content, found, at);
  }
  await show();
}

/** What a document is about: some of its sentences, and its main sections. */
function overviewCard({ title, format, language, pages, characters, summary, sections }) {
  const facts = [format, language, pages > 0 && tn("{n} page|{n} pages", pages), tn("{n} character|{n} characters", characters)].filter(Boolean);
  return [h("div", { class: "original prose overview", dir: "auto" }, h("h3", {}, plain(title)), h("p", { class: "where" }, plain(facts.join(" \u00b7 "))),
    summary.length ? summary.map((text) => h("p", {}, plain(text))) : h("p", { class: "empty" }, t("No text was found.")),
    sections.length > 0 && [h("h4", {}, t("Sections")), h("ul", {}, sections.map((name) => h("li", {}, plain(name))))])];
}

function renderDocument(body, found, at) {
  const lines = found.text.split("\n");
  const first = found.first_line ?? 1;
  const pages = pageLines(found, lines, first);
  const cited = new Map(quoteLines(at).map((quote, i) => [at.start_line + i, quote]));
  const rows = lines.map((line, i) => {
    const n = first + i;
    const isCited = n >= at.start_line && n <= at.end_line;
    return [
      pages.has(n) && h("p", { class: "page" }, t("Page {n}", { n: pages.get(n) })),
      h("div", { class: isCited ? "line cited" : "line", "data-line": n }, h("span", { class: "n", "aria-hidden": "true" }, n),
        h("span", { class: "t" }, isCited ? highlightQuote(line, cited.get(n)) : plain(line))),
    ];
  });
  body.replaceChildren(...documentNotes(found, at, first, lines.length), h("div", { class: "document", role: "document", "aria-label": t("Text of the document") }, rows));
  const target = body.querySelector(".cited");
  if (!target) return;
  target.setAttribute("aria-label", `${t("Cited:")} ${formatLocation(at)}`);
  target.setAttribute("role", "group");
  target.scrollIntoView({ block: "center", behavior: "instant" });
  announce(t("{name} is open beside the answer. Escape closes it.", { name: `${at.source}, ${formatLocation(at)}` }));
}

function documentNotes(found, at, first, count) {
  const notes = [];
  if (found.stale || at.stale) {
    notes.push(h("p", { class: "note warn" }, t("The file has changed or was removed since it was indexed. This is the indexed text; an update of its source reads it again.")));
  }
  if (first > 1 || (found.lines && first + count - 1 < found.lines)) {
    notes.push(h("p", { class: "note" }, t("Lines {first} to {last} of {lines}: the document is too long to show in full.", { first, last: first + count - 1, lines: found.lines })));
  }
  return notes;
}

const quoteLines = ({ quote }) => (quote ? quote.split("\n") : []);

/** A line with the quote highlighted, if the line contains it. */
function highlightQuote(line, quote) {
  const at = quote ? line.indexOf(quote) : -1;
  if (at < 0) return plain(line);
  return [plain(line.slice(0, at)), h("mark", {}, plain(quote)), plain(line.slice(at + quote.length))];
}

/** Line number -> page that starts there. */
function pageLines(found, lines, first) {
  const pages = new Map();
  for (const [i, page] of (found.pages ?? []).entries()) {
    const line = typeof page === "object" ? page.start_line ?? page.line : page;
    pages.set(line, typeof page === "object" ? page.page : i + 1);
  }
  return pages;
}
