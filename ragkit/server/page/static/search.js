// The search view: hits for a query, with their scores.

import { announce, byId, formatLocation, h, plain, sourceName } from "./dom.js";
import { send } from "./api.js";
import { alsoIn, openPassage } from "./passage.js";
import { flowing } from "./tip.js";
import { t, tn } from "./words.js";

const MODES = [["", "default"], ["hybrid", "hybrid"], ["dense", "dense"], ["lexical", "lexical"]];

export function showSearch(query) {
  const field = h("input", { type: "search", id: "query", name: "q", value: query.get("q") ?? "", placeholder: t("Search passages"), "aria-label": t("Search"), autocomplete: "off", enterkeyhint: "search" });
  const mode = h("select", { name: "mode", id: "mode" }, MODES.map(([value, text]) => h("option", { value, selected: value === (query.get("mode") ?? "") }, text)));
  const count = h("input", { type: "number", name: "top_k", id: "top-k", min: 1, max: 50, value: query.get("k") ?? 8 });
  const where = h("input", { type: "text", name: "where", id: "where", value: query.get("where") ?? "", placeholder: 'format == "pdf"', autocomplete: "off", spellcheck: "false" });
  const results = h("section", { id: "results", "aria-label": t("Hits"), "aria-live": "off" });
  const form = h("form", { class: "search", role: "search", on: { submit: (event) => {
    event.preventDefault();
    location.hash = `#/search?${new URLSearchParams({ q: field.value, mode: mode.value, k: count.value, where: where.value })}`;
  } } },
  field, h("button", { type: "submit", class: "first" }, t("Search")),
  h("div", { class: "options" }, h("label", { for: "mode" }, t("Mode"), " ", mode), h("label", { for: "top-k" }, t("Hits"), " ", count), h("label", { for: "where" }, t("Only where"), " ", where)));
  byId("main").replaceChildren(h("div", { class: "view" }, h("h1", {}, t("Search")), form, results));
  document.title = `${t("Search")} - ragkit`;
  if (field.value.trim()) runSearch(results, { query: field.value.trim(), top_k: Number(count.value) || 8, mode: mode.value, where: where.value.trim() });
  else {
    results.append(h("p", { class: "empty" }, t("Hits are shown with their scores: semantic similarity (dense), keyword match (lexical), and the share of each in the fused score.")));
    field.focus();
  }
}

async function runSearch(results, { query, top_k, mode, where }) {
  results.replaceChildren(h("p", { class: "waiting" }, t("Searching")));
  try {
    const found = await send("POST", "v1/search", { query, top_k, explain: true, ...(mode && { mode }), ...(where && { where }) });
    if (!results.isConnected) return;
    results.replaceChildren(...(found.hits.length ? hitList(found.hits) : [h("p", { class: "empty" }, t("No results. Try other words or another mode."))]));
    announce(found.hits.length ? tn("{n} hit|{n} hits", found.hits.length) : t("No results."));
  } catch (error) {
    results.replaceChildren(h("p", { class: "trouble", role: "alert" }, plain(error.message)));
  }
}

function hitList(hits) {
  const maxScore = Math.max(...hits.map((hit) => hit.score), 1e-9);
  return [legend(hits), h("ol", { class: "hits" }, hits.map((hit, index) => hitElement(hit, hits, index, maxScore)))];
}

function legend(hits) {
  const names = [...new Set(hits.flatMap((hit) => Object.keys(hit.explain?.shares ?? {})))];
  return h("p", { class: "legend" }, `${tn("{n} hit|{n} hits", hits.length)}, ${t("best first. The bar is the fused score:")} `,
    names.map((name) => [h("span", { class: `key ${scoreKind(name)}`, "aria-hidden": "true" }), ` ${plain(name)} `]));
}

const scoreKind = (retriever) => (["dense", "lexical", "rerank"].includes(retriever) ? retriever : "other");

function hitElement(hit, hits, index, maxScore) {
  return h("li", { class: "hit" },
    h("button", { type: "button", class: "hit-open", on: { click: (event) => openPassage(hit, event.currentTarget, { list: hits, index }) } },
      h("span", { class: "chip", "aria-hidden": "true" }, hit.rank), h("span", { class: "what" }, sourceName(hit.source), " ", h("span", { class: "where" }, formatLocation(hit)))),
    hit.heading?.length > 0 && h("p", { class: "heading", dir: "auto" }, plain(hit.heading.join(" \u203a "))),
    h("p", { class: "passage", dir: "auto" }, plain(flowing(hit.text).trim())),
    hit.also_in?.length > 0 && h("p", { class: "heading" }, alsoIn(hit)),
    scoreDetails(hit, maxScore));
}

/** A bar with the share of each retriever in the fused score, followed by raw scores and ranks. */
function scoreDetails(hit, maxScore) {
  const { ranks = {}, shares = {} } = hit.explain ?? {};
  const bar = h("span", { class: "bar", "aria-hidden": "true" }, Object.entries(shares).map(([retriever, share]) => {
    const part = h("span", { class: scoreKind(retriever) });
    part.style.setProperty("--share", `${Math.max((share / maxScore) * 100, 0).toFixed(1)}%`);
    return part;
  }));
  const raw = { dense: "cosine", lexical: "BM25", rerank: "reranker" };
  const reasons = Object.entries(hit.scores ?? {}).filter(([, score]) => score !== null).map(([retriever, score]) => h("span", { class: "part" },
    h("span", { class: `key ${scoreKind(retriever)}`, "aria-hidden": "true" }), ` ${plain(retriever)} `,
    ranks[retriever] ? `rank ${ranks[retriever]}, ` : "", `${raw[retriever] ?? "score"} ${score.toFixed(2)}`, shares[retriever] === undefined ? "" : `, adds ${shares[retriever].toFixed(2)}`));
  return h("div", { class: "why" }, bar, h("span", { class: "score" }, hit.score.toFixed(2)), reasons);
}
