// The trace of an answer: a timeline of its spans, with tokens and cost.

import { button, formatDollars, formatNumber, formatSeconds, h, plain } from "./dom.js";
import { get } from "./api.js";
import { openPanel } from "./panel.js";
import { t, tn } from "./words.js";

const MIN_SHOWN_S = 0.001; // seconds; shorter steps are hidden by default

export function openTrace(id, from) {
  return openPanel({ title: t("Trace"), subtitle: plain(id) }, from, async (body, isCurrent) => {
    body.append(h("p", { class: "waiting" }, t("Loading the trace")));
    try {
      const trace = await get(`traces/${encodeURIComponent(id)}`);
      if (isCurrent()) body.replaceChildren(...renderTrace(trace));
    } catch (error) {
      if (isCurrent()) body.replaceChildren(h("p", { class: "trouble", role: "alert" }, plain(error.message)));
    }
  });
}

function renderTrace(trace) {
  const spans = trace.spans ?? [];
  const zero = Math.min(...spans.map((span) => span.start));
  const whole = Math.max(...spans.map((span) => span.end ?? span.start)) - zero;
  const usage = trace.usage ?? {};
  const fact = (term, value) => [h("dt", {}, term), h("dd", {}, value)];
  return [
    h("p", { class: "asked", dir: "auto" }, plain(trace.question)),
    h("dl", { class: "facts" },
      fact("Status", plain(trace.status)), fact("Model", plain(trace.model ?? t("none"))), fact("Time", spans.length ? formatSeconds(whole) : t("unknown")),
      fact("Tokens", t("{prompt} prompt, {completion} completion, {embedding} embedding", { prompt: formatNumber(usage.prompt_tokens), completion: formatNumber(usage.completion_tokens), embedding: formatNumber(usage.embedding_tokens) })),
      fact("Cost", formatDollars(usage.total_cost_usd)), trace.error && fact("Error", plain(trace.error))),
    ...(spans.length ? timeline(spans, zero, whole || 1) : [h("p", { class: "note" }, t("No spans are stored."))]),
  ];
}

function timeline(spans, zero, whole) {
  const depths = new Map();
  const rows = spans.map((span) => {
    const depth = depths.has(span.parent) ? depths.get(span.parent) + 1 : 0;
    depths.set(span.id, depth);
    const duration = Math.max((span.end ?? span.start) - span.start, 0);
    const bar = h("span", { class: "bar-fill" });
    bar.style.setProperty("--from", `${(((span.start - zero) / whole) * 100).toFixed(2)}%`);
    bar.style.setProperty("--share", `${((duration / whole) * 100).toFixed(2)}%`);
    const brief = duration < MIN_SHOWN_S && !["llm_call", "tool", "error"].includes(span.type) && !span.attributes?.hit;
    const item = h("li", { class: `span ${/^[a-z_]+$/.test(span.type) ? span.type : ""} ${brief ? "brief" : ""}` }, ...spanDetails(span, [
      h("span", { class: "name" }, plain(span.name)),
      h("span", { class: "lane", "aria-hidden": "true" }, bar),
      h("span", { class: "took" }, formatSeconds(duration)),
    ]));
    item.style.setProperty("--depth", Math.min(depth, 6));
    return item;
  });
  const list = h("ol", { class: "timeline", "aria-label": t("Spans by start time") }, rows);
  const count = rows.filter((row) => row.classList.contains("brief")).length;
  const label = (whole) => (whole ? t("Hide short steps") : tn("Show {n} step under 1 ms|Show {n} steps under 1 ms", count));
  const toggle = button(label(false), () => {
    toggle.textContent = label(list.classList.toggle("whole"));
  }, { class: "more-steps" });
  return count ? [list, toggle] : [list];
}

function spanDetails(span, line) {
  const known = Object.entries(span.attributes ?? {}).filter(([, value]) => value !== null && value !== "");
  if (!known.length) return [h("div", { class: "row" }, line)];
  const shown = (value) => plain(typeof value === "string" ? value : JSON.stringify(value, null, 1)).slice(0, 4000);
  return [h("details", {}, h("summary", { class: "row" }, line), h("dl", { class: "attributes" }, known.map(([key, value]) => [h("dt", {}, plain(key)), h("dd", {}, shown(value))])))];
}
