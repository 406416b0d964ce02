// The trace of an answer: what was done when, for how many tokens and how much money.

import { button, dollars, figures, h, plain, seconds } from "./dom.js";
import { get } from "./api.js";
import { openPanel } from "./panel.js";

const BRIEF = 0.001; // seconds; shorter steps are left out until they are asked for

export function openTrace(id, from) {
  return openPanel({ title: "Trace", subtitle: plain(id) }, from, async (body, wanted) => {
    body.append(h("p", { class: "waiting" }, "Opening the trace"));
    try {
      const trace = await get(`traces/${encodeURIComponent(id)}`);
      if (wanted()) body.replaceChildren(...show(trace));
    } catch (error) {
      if (wanted()) body.replaceChildren(h("p", { class: "trouble", role: "alert" }, plain(error.message)));
    }
  });
}

function show(trace) {
  const spans = trace.spans ?? [];
  const zero = Math.min(...spans.map((one) => one.start));
  const whole = Math.max(...spans.map((one) => one.end ?? one.start)) - zero;
  const usage = trace.usage ?? {};
  const fact = (term, value) => [h("dt", {}, term), h("dd", {}, value)];
  return [
    h("p", { class: "asked", dir: "auto" }, plain(trace.question)),
    h("dl", { class: "facts" },
      fact("Status", plain(trace.status)), fact("Model", plain(trace.model ?? "none")), fact("Time", spans.length ? seconds(whole) : "unknown"),
      fact("Tokens", `${figures(usage.prompt_tokens ?? 0, "prompt", "prompt")}, ${figures(usage.completion_tokens ?? 0, "completion", "completion")}, ${figures(usage.embedding_tokens ?? 0, "embedding", "embedding")}`),
      fact("Cost", dollars(usage.total_cost_usd)), trace.error && fact("Error", plain(trace.error))),
    ...(spans.length ? timeline(spans, zero, whole || 1) : [h("p", { class: "note" }, "No spans were kept.")]),
  ];
}

function timeline(spans, zero, whole) {
  const depths = new Map();
  const rows = spans.map((span) => {
    const depth = depths.has(span.parent) ? depths.get(span.parent) + 1 : 0;
    depths.set(span.id, depth);
    const took = Math.max((span.end ?? span.start) - span.start, 0);
    const bar = h("span", { class: "bar-fill" });
    bar.style.setProperty("--from", `${(((span.start - zero) / whole) * 100).toFixed(2)}%`);
    bar.style.setProperty("--share", `${((took / whole) * 100).toFixed(2)}%`);
    const brief = took < BRIEF && !["llm_call", "tool", "error"].includes(span.type);
    const item = h("li", { class: `span ${/^[a-z_]+$/.test(span.type) ? span.type : ""} ${brief ? "brief" : ""}` }, ...details(span, [
      h("span", { class: "label" }, plain(span.name)),
      h("span", { class: "lane", "aria-hidden": "true" }, bar),
      h("span", { class: "took" }, seconds(took)),
    ]));
    item.style.setProperty("--depth", Math.min(depth, 6));
    return item;
  });
  const list = h("ol", { class: "timeline", "aria-label": "Spans in the order in which they began" }, rows);
  const count = rows.filter((row) => row.classList.contains("brief")).length;
  const label = (whole) => (whole ? "Hide short steps" : `Show ${figures(count, "step")} under 1 ms`);
  const toggle = button(label(false), () => {
    toggle.textContent = label(list.classList.toggle("whole"));
  }, { class: "more-steps" });
  return count ? [list, toggle] : [list];
}

function details(span, line) {
  const known = Object.entries(span.attributes ?? {}).filter(([, value]) => value !== null && value !== "");
  if (!known.length) return [h("div", { class: "row" }, line)];
  const shown = (value) => plain(typeof value === "string" ? value : JSON.stringify(value, null, 1)).slice(0, 4000);
  return [h("details", {}, h("summary", { class: "row" }, line), h("dl", { class: "attributes" }, known.map(([key, value]) => [h("dt", {}, plain(key)), h("dd", {}, shown(value))])))];
}
