// One answer: its text with numbered citations, the tools it used, how good the evidence is, what it cost.

import { announce, button, dollars, figures, h, place, plain, seconds, sourceName } from "./dom.js";
import { renderInto, rerender } from "./markdown.js";
import { openPassage, stateMarks } from "./passage.js";
import { openTrace } from "./trace.js";

const THRESHOLD = 0.45; // the server's own: below it the answer is that the documents do not say
const ENDINGS = {
  cancelled: "Stopped before it was finished.",
  interrupted: "The server ended before the answer was finished. Ask again to get a whole one.",
  error: "The answer failed before it was finished.",
  running: "This answer is still being written.",
};

/** A question and its answer, as an article that grows while the answer comes. */
export class Turn {
  constructor(question) {
    this.text = "";
    this.tools = h("ul", { class: "calls", "aria-label": "Tool calls" });
    this.body = h("div", { class: "text" });
    this.state = h("p", { class: "waiting" }, "Reading the documents");
    this.end = h("div", { class: "end" });
    this.element = h("article", { class: "turn", "aria-busy": "true" },
      h("h2", { class: "question", dir: "auto" }, plain(question)), this.tools, this.state, this.body, this.end);
    this.frame = 0;
  }

  /** A tool is called. */
  call({ id, name, arguments: given }) {
    this.tools.append(h("li", { "data-call": plain(id) }, h("span", { class: "tool" }, plain(name)), " ", h("span", { class: "given" }, argumentsLine(given)), " ", h("span", { class: "said" }, "running")));
  }

  /** A tool has answered. */
  result({ id, ok, summary, seconds: took }) {
    const item = [...this.tools.children].findLast((one) => one.dataset.call === plain(id));
    if (!item) return;
    item.classList.toggle("failed", !ok);
    item.querySelector(".said").textContent = [ok ? plain(summary) : `failed: ${plain(summary)}`, seconds(took ?? 0)].filter(Boolean).join(", ");
  }

  /** A piece of the text; what is shown is brought up to date once a frame. */
  write(delta) {
    this.text += delta;
    this.state.hidden = true;
    this.frame ||= requestAnimationFrame(() => {
      this.frame = 0;
      renderInto(this.body, this.text, pending);
    });
  }

  /** What was written so far does not count: the model starts over. */
  discard() {
    this.text = "";
    rerender(this.body, "", pending);
  }

  /** The answer as it is kept. */
  finish(message) {
    this.text = message.content;
    const citations = message.citations ?? [];
    const chip = chips(citations);
    rerender(this.body, message.abstained ? withoutSentences(message.content) : message.content, chip);
    this.state.replaceWith(message.abstained ? h("p", { class: "abstained" }, "Not in these documents") : "");
    this.end.replaceChildren(...[
      ENDINGS[message.status] && h("p", { class: "note warn" }, ENDINGS[message.status], message.error ? ` ${plain(message.error.message ?? message.error)}` : ""),
      citations.length > 0 && sources(citations, message.abstained),
      message.status === "done" && figuresLine(message, this),
    ].filter(Boolean));
    this.settle();
    announce(message.abstained ? "Not in these documents." : `The answer is there, with ${figures(citations.length, "citation")}.`);
  }

  /** It ended without an answer: one line, and a way to try again. */
  fail(line, again) {
    this.settle();
    if (this.text) rerender(this.body, this.text, pending);
    this.end.replaceChildren(h("p", { class: "trouble", role: "alert" }, plain(line), " ", again && button("Try again", again)));
  }

  /** The person stopped it. */
  stopped() {
    this.settle();
    rerender(this.body, this.text, pending);
    this.end.replaceChildren(h("p", { class: "note" }, "Stopped."));
    announce("Stopped.");
  }

  settle() {
    cancelAnimationFrame(this.frame);
    this.state.remove();
    this.element.setAttribute("aria-busy", "false");
    for (const one of this.tools.querySelectorAll(".said")) if (one.textContent === "running") one.textContent = "not finished";
  }
}

function argumentsLine(given) {
  const values = typeof given === "string" ? given : Object.values(given ?? {}).map((one) => (typeof one === "string" ? one : JSON.stringify(one))).join(", ");
  return plain(values.length > 160 ? `${values.slice(0, 157)}...` : values);
}

/** While an answer is written nobody knows yet what its numbers stand for. */
const pending = (n) => h("span", { class: "chip pending" }, n);

function chips(citations) {
  const byNumber = new Map(citations.map((one, index) => [one.n, index]));
  return (n) => (byNumber.has(n) ? chipOf(citations, byNumber.get(n)) : null);
}

function chipOf(citations, index) {
  const one = citations[index];
  const state = [one.verified === false && "not verified", one.stale && "changed since"].filter(Boolean).join(", ");
  return button(one.n, (event) => openPassage(one, event.currentTarget, { list: citations, index }), {
    class: `chip${one.verified === false ? " bad" : one.stale ? " warn" : ""}`, title: plain(`${one.source}, ${place(one)}`),
    "aria-label": plain(`Citation ${one.n}: ${one.source}, ${place(one)}${state ? `, ${state}` : ""}`) });
}

/** That it is not there, and what is nearest, is shown in a way of its own. */
const withoutSentences = (text) => text.replace(/^\s*not in these documents\.?\s*(the nearest passages: [[\]\d ,]*$)?/i, "");

function sources(citations, abstained) {
  const items = citations.map((one, index) => h("li", {},
    h("button", { type: "button", class: "cite", on: { click: (event) => openPassage(one, event.currentTarget, { list: citations, index }) } },
      h("span", { class: "chip", "aria-hidden": "true" }, one.n),
      h("span", { class: "what" }, sourceName(one.source), " ", h("span", { class: "where" }, place(one)), " ", ...stateMarks(one)),
      h("span", { class: "quote", dir: "auto" }, plain(one.quote)))));
  return h("section", { class: "sources", "aria-label": abstained ? "Nearest passages" : "Sources" },
    h("h3", {}, abstained ? "The nearest passages" : "Sources"), h("ol", {}, items));
}

function figuresLine(message, turn) {
  const usage = message.usage ?? {};
  const tokens = (usage.prompt_tokens ?? 0) + (usage.completion_tokens ?? 0);
  const copy = async (event) => {
    const pressed = event.currentTarget;
    // there is no clipboard for a page that came over http from another machine
    const done = await Promise.resolve(navigator.clipboard?.writeText(turn.text).then(() => true)).catch(() => false);
    pressed.textContent = done ? "Copied" : "Copying was refused";
    announce(pressed.textContent);
  };
  return h("footer", { class: "figures" }, evidenceBar(message.evidence),
    h("span", {}, plain(message.model)), tokens > 0 && h("span", {}, figures(tokens, "token")), h("span", {}, dollars(usage.total_cost_usd)),
    h("span", { class: "tools" }, message.trace_id && button("Trace", (event) => openTrace(message.trace_id, event.currentTarget)), button("Copy", copy)));
}

/** How likely the passages are to hold the answer, with a tick where the line is drawn. */
export function evidenceBar(value) {
  if (value === null || value === undefined) return null;
  const words = value >= 0.75 ? "strong" : value >= THRESHOLD ? "fair" : "weak";
  const fill = h("span", { class: "fill" });
  fill.style.setProperty("--share", `${Math.round(value * 100)}%`);
  return h("span", { class: `evidence ${words}`, title: `How likely it is that the passages hold the answer; below ${THRESHOLD} the answer is that they do not` },
    "Evidence ", h("span", { class: "track", role: "meter", "aria-label": "Evidence", "aria-valuemin": 0, "aria-valuemax": 1, "aria-valuenow": value.toFixed(2), "aria-valuetext": `${value.toFixed(2)}, ${words}` }, fill),
    ` ${value.toFixed(2)} ${words}`);
}
