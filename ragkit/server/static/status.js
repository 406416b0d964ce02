// The status view: contents and settings of the knowledge base, and its documents.

import { announce, button, byId, formatBytes, formatCount, h, plain, sourceName } from "./dom.js";
import { buildPath, get } from "./api.js";
import { openPassage } from "./passage.js";

export async function showStatus() {
  const facts = h("section", { "aria-label": "Facts" }, h("p", { class: "waiting" }, "Loading"));
  const documents = h("section", { "aria-labelledby": "documents-title" });
  const view = h("div", { class: "view" }, h("h1", {}, "Knowledge base"), facts, documents);
  byId("main").replaceChildren(view);
  document.title = "Knowledge base - ragkit";
  try {
    const status = await get("status");
    facts.replaceChildren(...renderStatus(status));
    listDocuments(documents);
    announce(`${formatCount(status.documents, "document")}, ${formatCount(status.chunks, "passage")}.`);
  } catch (error) {
    facts.replaceChildren(h("p", { class: "trouble", role: "alert" }, plain(error.message)));
  }
}

function renderStatus(status) {
  const { split = {}, embed = {} } = status.settings ?? {};
  const row = (term, value) => value !== undefined && value !== null && value !== "" && [h("dt", {}, term), h("dd", {}, value)];
  const cut = split.name && `${split.name}, ${split.chunk_size} ${split.unit ?? ""}, overlap ${split.chunk_overlap}`;
  return [
    h("ul", { class: "counts" }, [["Documents", status.documents], ["Passages", status.chunks], ["Vectors", status.vectors], ["Not readable", status.failed], ["Changed since", status.stale]].map(([label, value]) =>
      h("li", { class: value && label.includes(" ") ? "warn" : null }, h("strong", {}, Number(value ?? 0).toLocaleString("en")), ` ${label}`))),
    freshness(status),
    h("dl", { class: "facts" }, row("Directory", plain(status.kb)), row("Sources", (status.sources ?? []).map((source) => h("div", {}, sourceName(source)))),
      row("Pipeline", plain(status.pipeline)), row("Splitter", cut && plain(cut)), row("Embedder", embed.fingerprint && plain(embed.fingerprint)),
      row("Store", plain(typeof status.store === "object" ? status.store?.name : status.store)), row("On disk", formatBytes(status.bytes ?? 0)), row("Generation", status.generation),
      row("Models", (status.server?.models ?? []).map((model) => plain(model.id ?? model)).join(", ")), row("Server", status.server?.version && `ragkit ${plain(status.server.version)}`)),
    failures(status.failures ?? []),
  ].filter(Boolean);
}

function freshness(status) {
  const behind = status.stale || (status.freshness && status.freshness.current === false);
  return h("p", { class: behind ? "note warn" : "note good" }, behind
    ? ["Files have changed since they were indexed. ", h("code", {}, "ragkit index"), " updates the knowledge base."]
    : "All indexed files are unchanged.");
}

function failures(list) {
  if (!list.length) return null;
  return h("section", { "aria-labelledby": "failures-title" }, h("h2", { id: "failures-title" }, "Could not be read"),
    h("ul", { class: "failures" }, list.map((failure) => h("li", {}, sourceName(failure.source), h("p", { class: "trouble" }, plain([failure.error, failure.hint].filter(Boolean).join(". ")))))));
}

function listDocuments(section) {
  const rows = h("tbody");
  const more = h("div", { class: "more" });
  const filter = h("input", { type: "search", id: "filter", placeholder: "Filter by name", "aria-label": "Filter documents by name", autocomplete: "off" });
  let asked = 0;
  const load = async (cursor) => {
    asked += 1;
    const mine = asked;
    const found = await get(buildPath("documents", { limit: 50, cursor, q: filter.value.trim() })).catch((error) => ({ error: error.message }));
    if (mine !== asked) return;
    if (!cursor) rows.replaceChildren();
    rows.append(...(found.documents ?? []).map(documentRow));
    if (found.error) more.replaceChildren(h("p", { class: "trouble", role: "alert" }, plain(found.error)));
    else if (!rows.childElementCount) more.replaceChildren(h("p", { class: "empty" }, "No documents match."));
    else more.replaceChildren(...(found.next ? [button("Show more", () => load(found.next))] : []));
  };
  filter.addEventListener("input", () => load(""));
  section.replaceChildren(h("div", { class: "section-head" }, h("h2", { id: "documents-title" }, "Documents"), filter),
    h("div", { class: "table", role: "region", tabindex: 0, "aria-labelledby": "documents-title" }, h("table", { class: "documents" },
      h("thead", {}, h("tr", {}, ["Document", "Format", "Passages", "Characters"].map((label) => h("th", { scope: "col" }, label)))), rows)), more);
  load("");
}

function documentRow(row) {
  const open = (event) => openPassage({ source: row.source, document_id: row.id }, event.currentTarget);
  return h("tr", {}, h("td", {}, h("button", { type: "button", class: "plain", on: { click: open } }, sourceName(row.source))),
    h("td", {}, plain(row.format)), h("td", { class: "number" }, Number(row.chunks ?? 0).toLocaleString("en")), h("td", { class: "number" }, Number(row.characters ?? 0).toLocaleString("en")));
}
