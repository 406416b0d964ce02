// What is in the knowledge base, what it was built with, and its documents.

import { announce, button, byId, bytes, figures, h, plain, sourceName } from "./dom.js";
import { get, path } from "./api.js";
import { openPassage } from "./passage.js";

export async function showStatus() {
  const facts = h("section", { "aria-label": "Facts" }, h("p", { class: "waiting" }, "Looking"));
  const documents = h("section", { "aria-labelledby": "documents-title" });
  const view = h("div", { class: "view" }, h("h1", {}, "Knowledge base"), facts, documents);
  byId("main").replaceChildren(view);
  document.title = "Knowledge base - ragkit";
  try {
    const status = await get("status");
    facts.replaceChildren(...show(status));
    listDocuments(documents);
    announce(`${figures(status.documents, "document")}, ${figures(status.chunks, "passage")}.`);
  } catch (error) {
    facts.replaceChildren(h("p", { class: "trouble", role: "alert" }, plain(error.message)));
  }
}

function show(status) {
  const { split = {}, embed = {} } = status.settings ?? {};
  const row = (term, value) => value !== undefined && value !== null && value !== "" && [h("dt", {}, term), h("dd", {}, value)];
  const cut = split.name && `${split.name}, ${split.chunk_size} ${split.unit ?? ""} with ${split.chunk_overlap} of overlap`;
  return [
    h("ul", { class: "counts" }, [["Documents", status.documents], ["Passages", status.chunks], ["Vectors", status.vectors], ["Not readable", status.failed], ["Changed since", status.stale]].map(([label, value]) =>
      h("li", { class: value && label.includes(" ") ? "warn" : null }, h("strong", {}, Number(value ?? 0).toLocaleString("en")), ` ${label}`))),
    freshness(status),
    h("dl", { class: "facts" }, row("Directory", plain(status.kb)), row("Sources", (status.sources ?? []).map((one) => h("div", {}, sourceName(one)))),
      row("Pipeline", plain(status.pipeline)), row("Splitter", cut && plain(cut)), row("Embedder", embed.fingerprint && plain(embed.fingerprint)),
      row("Store", plain(typeof status.store === "object" ? status.store?.name : status.store)), row("On disk", bytes(status.bytes ?? 0)), row("Generation", status.generation),
      row("Models", (status.server?.models ?? []).map((one) => plain(one.id ?? one)).join(", ")), row("Server", status.server?.version && `ragkit ${plain(status.server.version)}`)),
    failures(status.failures ?? []),
  ].filter(Boolean);
}

function freshness(status) {
  const behind = status.stale || (status.freshness && status.freshness.current === false);
  return h("p", { class: behind ? "note warn" : "note good" }, behind
    ? ["Files have changed since they were indexed. ", h("code", {}, "ragkit index"), " brings the knowledge base up to date."]
    : "Every indexed file is as it was when it was indexed.");
}

function failures(list) {
  if (!list.length) return null;
  return h("section", { "aria-labelledby": "failures-title" }, h("h2", { id: "failures-title" }, "Could not be read"),
    h("ul", { class: "failures" }, list.map((one) => h("li", {}, sourceName(one.source), h("p", { class: "trouble" }, plain([one.error, one.hint].filter(Boolean).join(". ")))))));
}

function listDocuments(section) {
  const rows = h("tbody");
  const more = h("div", { class: "more" });
  const filter = h("input", { type: "search", id: "filter", placeholder: "Filter by name", "aria-label": "Filter documents by name", autocomplete: "off" });
  let asked = 0;
  const load = async (cursor) => {
    asked += 1;
    const mine = asked;
    const found = await get(path("documents", { limit: 50, cursor, q: filter.value.trim() })).catch((error) => ({ trouble: error.message }));
    if (mine !== asked) return;
    if (!cursor) rows.replaceChildren();
    rows.append(...(found.documents ?? []).map(row));
    if (found.trouble) more.replaceChildren(h("p", { class: "trouble", role: "alert" }, plain(found.trouble)));
    else if (!rows.childElementCount) more.replaceChildren(h("p", { class: "empty" }, "No document has such a name."));
    else more.replaceChildren(...(found.next ? [button("Show more", () => load(found.next))] : []));
  };
  filter.addEventListener("input", () => load(""));
  section.replaceChildren(h("div", { class: "section-head" }, h("h2", { id: "documents-title" }, "Documents"), filter),
    h("div", { class: "table", role: "region", tabindex: 0, "aria-labelledby": "documents-title" }, h("table", { class: "documents" },
      h("thead", {}, h("tr", {}, ["Document", "Format", "Passages", "Characters"].map((one) => h("th", { scope: "col" }, one)))), rows)), more);
  load("");
}

function row(one) {
  const open = (event) => openPassage({ source: one.source, document_id: one.id }, event.currentTarget);
  return h("tr", {}, h("td", {}, h("button", { type: "button", class: "plain", on: { click: open } }, sourceName(one.source))),
    h("td", {}, plain(one.format)), h("td", { class: "number" }, Number(one.chunks ?? 0).toLocaleString("en")), h("td", { class: "number" }, Number(one.characters ?? 0).toLocaleString("en")));
}
