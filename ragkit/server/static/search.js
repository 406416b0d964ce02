// Passages without an answer: what is found for a question, and why each hit stands where it stands.

import { announce, byId, figures, h, place, plain, sourceName } from "./dom.js";
import { send } from "./api.js";
import { openPassage } from "./passage.js";

const MODES = [["", "as the pipeline says"], ["hybrid", "hybrid"], ["dense", "dense"], ["lexical", "lexical"]];

export function showSearch(query) {
  const field = h("input", { type: "search", id: "query", name: "q", value: query.get("q") ?? "", placeholder: "Search the passages", "aria-label": "Search", autocomplete: "off", enterkeyhint: "search" });
  const mode = h("select", { name: "mode", id: "mode" }, MODES.map(([value, text]) => h("option", { value, selected: value === (query.get("mode") ?? "") }, text)));
  const count = h("input", { type: "number", name: "top_k", id: "top-k", min: 1, max: 50, value: query.get("k") ?? 8 });
  const where = h("input", { type: "text", name: "where", id: "where", value: query.get("where") ?? "", placeholder: 'format == "pdf"', autocomplete: "off", spellcheck: "false" });
  const results = h("section", { id: "results", "aria-label": "Hits", "aria-live": "off" });
  const form = h("form", { class: "search", role: "search", on: { submit: (event) => {
    event.preventDefault();
    location.hash = `#/search?${new URLSearchParams({ q: field.value, mode: mode.value, k: count.value, where: where.value })}`;
  } } },
  field, h("button", { type: "submit", class: "first" }, "Search"),
  h("div", { class: "options" }, h("label", { for: "mode" }, "Mode ", mode), h("label", { for: "top-k" }, "Hits ", count), h("label", { for: "where" }, "Only where ", where)));
  byId("main").replaceChildren(h("div", { class: "view" }, h("h1", {}, "Search"), form, results));
  document.title = "Search - ragkit";
  if (field.value.trim()) run(results, { query: field.value.trim(), top_k: Number(count.value) || 8, mode: mode.value, where: where.value.trim() });
  else {
    results.append(h("p", { class: "empty" }, "Hits are shown with their scores: nearness of meaning (dense), shared words (lexical), and what each adds to the rank."));
    field.focus();
  }
}

async function run(results, { query, top_k, mode, where }) {
  results.replaceChildren(h("p", { class: "waiting" }, "Searching"));
  try {
    const found = await send("POST", "v1/search", { query, top_k, explain: true, ...(mode && { mode }), ...(where && { where }) });
    if (!results.isConnected) return;
    results.replaceChildren(...(found.hits.length ? list(found.hits) : [h("p", { class: "empty" }, "Nothing was found. Try other words, or another mode.")]));
    announce(found.hits.length ? `${figures(found.hits.length, "hit")}.` : "Nothing was found.");
  } catch (error) {
    results.replaceChildren(h("p", { class: "trouble", role: "alert" }, plain(error.message)));
  }
}

function list(hits) {
  const most = Math.max(...hits.map((one) => one.score), 1e-9);
  return [legend(hits), h("ol", { class: "hits" }, hits.map((one, index) => hit(one, hits, index, most)))];
}

function legend(hits) {
  const names = [...new Set(hits.flatMap((one) => Object.keys(one.explain?.shares ?? {})))];
  return h("p", { class: "legend" }, `${figures(hits.length, "hit")}, best first. The bar is the fused score: `,
    names.map((one) => [h("span", { class: `key ${kind(one)}`, "aria-hidden": "true" }), ` ${plain(one)} `]));
}

const kind = (retriever) => (["dense", "lexical", "rerank"].includes(retriever) ? retriever : "other");

function hit(one, hits, index, most) {
  return h("li", { class: "hit" },
    h("button", { type: "button", class: "hit-open", on: { click: (event) => openPassage(one, event.currentTarget, { list: hits, index }) } },
      h("span", { class: "chip", "aria-hidden": "true" }, one.rank), h("span", { class: "what" }, sourceName(one.source), " ", h("span", { class: "where" }, place(one)))),
    one.heading?.length > 0 && h("p", { class: "heading", dir: "auto" }, plain(one.heading.join(" \u203a "))),
    h("p", { class: "passage", dir: "auto" }, plain(one.text.trim())),
    why(one, most));
}

/** One bar per hit, cut into what each retriever adds; beside it the raw scores and the ranks. */
function why(one, most) {
  const { ranks = {}, shares = {} } = one.explain ?? {};
  const bar = h("span", { class: "bar", "aria-hidden": "true" }, Object.entries(shares).map(([retriever, share]) => {
    const part = h("span", { class: kind(retriever) });
    part.style.setProperty("--share", `${Math.max((share / most) * 100, 0).toFixed(1)}%`);
    return part;
  }));
  const raw = { dense: "cosine", lexical: "BM25", rerank: "reranker" };
  const reasons = Object.entries(one.scores ?? {}).filter(([, score]) => score !== null).map(([retriever, score]) => h("span", { class: "reason" },
    h("span", { class: `key ${kind(retriever)}`, "aria-hidden": "true" }), ` ${plain(retriever)} `,
    ranks[retriever] ? `rank ${ranks[retriever]}, ` : "", `${raw[retriever] ?? "score"} ${score.toFixed(2)}`, shares[retriever] === undefined ? "" : `, adds ${shares[retriever].toFixed(2)}`));
  return h("div", { class: "why" }, bar, h("span", { class: "score" }, one.score.toFixed(2)), reasons);
}
