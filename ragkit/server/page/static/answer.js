// One answer: text with citations, tool calls, evidence, usage and cost.

import { announce, button, formatDollars, formatLocation, formatSeconds, h, plain, shortName, sourceName, timeElement } from "./dom.js";
import { iconButton, setIcon } from "./icons.js";
import { thumbs } from "./feedback.js";
import { renderInto, rerender } from "./markdown.js";
import { recordsAsTables } from "./records.js";
import { alsoIn, openPassage, statusMarks, supportLevel } from "./passage.js";
import { withQuote } from "./tip.js";
import { openTrace } from "./trace.js";
import { said, t, tn } from "./words.js";

const WITH_EVIDENCE = ["answered", "passages", "not_in_documents", "uncited", "cut"]; // a figure beside a refusal would mislead
const STATUS_TEXT = {
  cancelled: t("The answer was stopped."),
  interrupted: t("The server stopped before the answer was complete. Ask again."),
  error: t("The answer failed."),
};

const TOOLS = { search_knowledge_base: t("Search"), aggregate_records: t("Count"), calculator: t("Calculate"), web_search: t("Search the web") };

/** A question and its answer, updated while the answer streams. */
export class ChatTurn {
  /** `asked`: the time of the question, as `toMillis` reads it. `askAgain(question, trace)` replaces this turn. */
  constructor(question, asked, askAgain = null) {
    this.text = "";
    this.question = question;
    this.askAgain = askAgain;
    this.trace = ""; // known at the end
    this.edit = iconButton("edit", t("Edit the question"), () => this.editQuestion(), { hidden: true });
    this.tools = h("ul", { class: "calls", "aria-label": t("Tool calls") });
    this.body = h("div", { class: "text" });
    this.state = h("p", { class: "waiting" }, t("Searching the documents"));
    this.end = h("div", { class: "end" });
    this.element = h("article", { class: "turn", "aria-busy": "true" },
      h("header", { class: "asked" }, h("h2", { class: "question", dir: "auto" }, plain(question)), this.edit, timeElement(asked)), this.tools, this.state, this.body, this.end);
    this.frame = 0;
  }

  /** Puts a field in the place of the question. */
  editQuestion() {
    const heading = this.element.querySelector(".question");
    const field = h("textarea", { name: "edited", rows: 2, "aria-label": t("Edited question"), maxlength: 20_000 });
    field.value = this.question;
    const close = () => {
      form.remove();
      heading.hidden = this.edit.hidden = false;
      this.edit.focus();
    };
    const submit = () => {
      const text = field.value.trim();
      if (!text) return;
      close();
      this.askAgain(text, this.trace);
    };
    const form = h("form", { class: "editing", on: {
      submit: (event) => {
        event.preventDefault();
        submit();
      },
      keydown: (event) => {
        if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
          event.preventDefault();
          submit();
        } else if (event.key === "Escape") {
          event.stopPropagation();
          close();
        }
      },
    } }, field, h("p", { class: "hint" }, t("This answer and all messages after it are replaced.")),
    h("div", { class: "tools" }, h("button", { type: "submit", class: "first" }, t("Ask again")), button(t("Cancel"), close)));
    heading.hidden = this.edit.hidden = true;
    heading.after(form);
    field.focus();
  }

  /** Shows a tool call. */
  call({ id, name, arguments: args }) {
    this.tools.append(h("li", { "data-call": plain(id) }, h("span", { class: "tool", title: plain(name) }, TOOLS[name] ?? plain(name)), " ", h("span", { class: "given" }, formatArguments(args)), " ", h("span", { class: "said", "data-running": true }, t("running"))));
  }

  /** Shows the result of a tool call. */
  result({ id, ok, summary, seconds: duration }) {
    const item = [...this.tools.children].findLast((call) => call.dataset.call === plain(id));
    if (!item) return;
    item.classList.toggle("failed", !ok);
    const said = item.querySelector(".said");
    said.removeAttribute("data-running");
    said.textContent = [ok ? plain(summarized(summary)) : t("failed: {why}", { why: plain(summary) }), formatSeconds(duration ?? 0)].filter(Boolean).join(", ");
  }

  /** Appends text; renders once per animation frame. */
  write(delta) {
    this.text += delta;
    this.state.hidden = true;
    this.frame ||= requestAnimationFrame(() => {
      this.frame = 0;
      renderInto(this.body, this.text, pendingChip);
    });
  }

  /** Shows the text so far of an answer that another connection asked for. */
  goOn(text) {
    if (text.length > this.text.length) this.write(text.slice(this.text.length));
    else if (text.length < this.text.length) this.text = text;
    if (!text) this.state.textContent = t("The answer is still being generated.");
  }

  /** Discards the text so far: the model restarts. */
  discard() {
    this.text = "";
    rerender(this.body, "", pendingChip);
  }

  /** Shows the final answer. */
  finish(message) {
    this.text = message.content;
    this.trace = message.trace_id ?? "";
    this.element.dataset.trace = this.trace;
    this.edit.hidden = !this.trace || !this.askAgain;
    const citations = message.citations ?? [];
    const chip = citationChips(citations);
    const refused = message.outcome === "refused";
    const shown = message.abstained ? stripRefusal(message.content) : message.content;
    rerender(this.body, message.model === "extractive" ? recordsAsTables(shown) : shown, chip);
    const unsupported = (message.statements ?? []).filter(({ support }) => support === "not_found" || (support === "no_citation" && citations.length > 0));
    markStatements(this.body, unsupported);
    this.state.replaceWith(message.abstained ? h("p", { class: "abstained" }, abstention(message)) : refused ? h("p", { class: "abstained" }, t("The model refused")) : "");
    this.end.replaceChildren(...[
      message.searched_for && !this.tools.textContent.includes(plain(message.searched_for)) && h("p", { class: "note", dir: "auto" }, t("Searched for: {query}", { query: plain(message.searched_for) })),
      ...(message.notices ?? []).map((notice) => h("p", { class: "note warn" }, plain(sentence(notice)))),
      STATUS_TEXT[message.status] && h("p", { class: "note warn" }, STATUS_TEXT[message.status], message.error && message.status !== "cancelled" ? ` ${plain(message.error.message ?? message.error)}` : ""),
      unsupported.length > 0 && unsupportedList(unsupported),
      citations.length > 0 && (message.abstained ? passageList(citations, message) : sourceChips(citations)),
      usageLine(message, this),
    ].filter(Boolean));
    this.settle();
    announce(message.abstained ? `${abstention(message)}.` : message.notices?.length ? sentence(message.notices[0]) : STATUS_TEXT[message.status] ?? [t("The answer is complete."), tn("{n} citation.|{n} citations.", citations.length), unsupported.length > 0 && tn("{n} unsupported statement.|{n} unsupported statements.", unsupported.length)].filter(Boolean).join(" "));
  }

  /** Shows an error, with a button to retry. */
  fail(message, retry) {
    this.settle();
    if (this.text) rerender(this.body, this.text, pendingChip);
    this.end.replaceChildren(h("p", { class: "trouble", role: "alert" }, plain(message), " ", retry && button(t("Try again"), retry)));
  }

  settle() {
    cancelAnimationFrame(this.frame);
    this.state.remove();
    this.element.setAttribute("aria-busy", "false");
    for (const label of this.tools.querySelectorAll(".said")) if (label.dataset.running) label.textContent = t("not finished");
  }
}

function formatArguments(args) {
  const values = typeof args === "string" ? args : Object.values(args ?? {}).map((value) => (typeof value === "string" ? value : JSON.stringify(value))).join(", ");
  return plain(values.length > 160 ? `${values.slice(0, 157)}...` : values);
}

/** A citation mark while the answer streams, before the citations are known. */
const pendingChip = (n) => h("span", { class: "chip pending" }, n);

function citationChips(citations) {
  const byNumber = new Map(citations.map((citation, index) => [citation.n, index]));
  return (n) => (byNumber.has(n) ? createChip(citations, byNumber.get(n)) : null);
}

function createChip(citations, index) {
  const citation = citations[index];
  const level = citation.verified === false ? "bad" : supportLevel(citation.support ?? "");
  return withQuote(button(citation.n, (event) => openPassage(citation, event.currentTarget, { list: citations, index }), {
    class: `chip${level === "bad" ? " bad" : level === "warn" || citation.stale ? " warn" : ""}`,
    "aria-label": plain(`${t("Citation {n}", { n: citation.n })}: ${[place(citation), ...states(citation)].join(", ")}`) }), nearby(citation), citation.quote);
}

const place = (citation) => `${shortName(citation.source)}, ${formatLocation(citation)}`;

const nearby = (citation) => `${shortName(citation.source).split("/").pop()}, ${formatLocation(citation)}`;

/** What was found wrong, or is worth a look, of a citation. */
const states = (citation) => [citation.verified === false ? t("not verified") : citation.support && said(citation.support), citation.stale && t("changed since")].filter(Boolean);

/** The cited files once each, with the numbers and pages of their citations. */
function sourceChips(citations) {
  const files = Map.groupBy(citations.map((citation, index) => ({ citation, index })), ({ citation }) => citation.source);
  const items = [...files].map(([source, cited]) => h("li", { class: "source-chip" },
    h("bdi", { class: "file", title: plain(shortName(source)) }, plain(shortName(source).split("/").pop())),
    cited.map(({ citation, index }) => {
      const marks = statusMarks(citation).filter((mark) => !mark.classList.contains("good"));
      const label = plain(`${t("Source {n}", { n: citation.n })}: ${[place(citation), ...states(citation)].join(", ")}`);
      return withQuote(h("button", { type: "button", class: "cite", "aria-label": label, on: { click: (event) => openPassage(citation, event.currentTarget, { list: citations, index }) } },
        h("span", { class: "chip", "aria-hidden": "true" }, citation.n), h("span", { class: "where" }, formatLocation(citation)), marks.map((mark) => [" ", mark])), nearby(citation), citation.quote);
    }), alsoIn(cited[0].citation)));
  return h("div", { class: "sources", role: "group", "aria-label": t("Sources") }, h("h3", {}, t("Sources")), h("ul", { class: "chips" }, items));
}

/** A notice as a sentence. */
const sentence = (text) => `${text[0].toUpperCase()}${text.slice(1)}.`;

/** What a search says of its result, in the language of the page. */
const summarized = (said) => said.replace(/^(\d+) passages?\b/, (_, n) => tn("{n} passage|{n} passages", Number(n))).replace(/\bevidence\b/, t("evidence"));

const abstention = (message) => (message.outcome === "passages" ? t("No direct answer found") : t("Not in these documents"));

/** The text without the sentences that `finish` shows as a status and a list of sources. */
const stripRefusal = (text) => text.replace(/^\s*(?:not in these documents|no direct answer found)\.?\s*(the \w+ passages: [[\]\d ,]*$|closest passages: [[\]\d ,]*$)?/i, "").replace(/\s*its \w+ passages: [[\]\d ,]*$/i, "");

/** What was found in place of an answer, with quotes. */
function passageList(citations, { outcome }) {
  const title = outcome === "passages" ? t("Closest passages") : t("Nearest passages");
  const items = citations.map((citation, index) => h("li", {},
    h("button", { type: "button", class: "cite", on: { click: (event) => openPassage(citation, event.currentTarget, { list: citations, index }) } },
      h("span", { class: "chip", "aria-hidden": "true" }, citation.n),
      h("span", { class: "what" }, sourceName(citation.source), " ", h("span", { class: "where" }, formatLocation(citation)), " ", ...statusMarks(citation)),
      h("span", { class: "quote", dir: "auto" }, plain(citation.quote)), alsoIn(citation))));
  return h("div", { class: `sources ${outcome}`, role: "group", "aria-label": title }, h("h3", {}, title), h("ol", {}, items));
}

/** Underlines the texts of statements in a rendered answer, where Markdown has not divided them. */
function markStatements(body, statements) {
  for (const { text, reason } of statements) {
    const nodes = document.createTreeWalker(body, NodeFilter.SHOW_TEXT);
    for (let node = nodes.nextNode(); node; node = nodes.nextNode()) {
      const wanted = plain(text).replace(/[.,;:!?]+$/, "");
      const at = node.data.indexOf(wanted);
      if (at < 0 || node.parentElement.closest("button, code, .unsupported")) continue;
      const range = document.createRange();
      range.setStart(node, at);
      range.setEnd(node, at + wanted.length);
      range.surroundContents(h("span", { class: "unsupported", title: plain(reason) }));
      break;
    }
  }
}

/** The statements that the cited passages do not support, with the reason. */
function unsupportedList(statements) {
  const once = statements.filter((one, at) => statements.findIndex(({ text, reason }) => text === one.text && reason === one.reason) === at);
  const items = once.map(({ text, support, reason, found_in: found }) => h("li", {},
    h("span", { dir: "auto" }, plain(text)), " ", h("span", { class: "mark bad" }, support === "no_citation" ? t("no citation") : t("not supported")), " ",
    h("span", { class: "where" }, plain(reason), found ? t("; it is in [{n}]", { n: found }) : "")));
  return h("section", { class: "note warn", "aria-label": t("Unsupported statements") }, h("h3", {}, t("Not supported by the cited passages")), h("ul", {}, items));
}

function usageLine(message, turn) {
  const usage = message.usage ?? {};
  const tokens = (usage.prompt_tokens ?? 0) + (usage.completion_tokens ?? 0);
  const copy = async (event) => {
    const pressed = event.currentTarget;
    // browsers offer no clipboard to pages over plain http from another machine
    const done = await Promise.resolve(navigator.clipboard?.writeText(turn.text).then(() => true)).catch(() => false);
    const label = done ? t("Copied") : t("Copy failed");
    setIcon(pressed, done ? "done" : "copy", label);
    announce(label);
  };
  const isDone = message.status === "done";
  return h("footer", { class: "figures" }, timeElement(message.created), isDone && WITH_EVIDENCE.includes(message.outcome ?? "answered") && evidenceBar(message.evidence, message.confidence),
    message.model && h("span", {}, plain(message.model)), tokens > 0 && h("span", {}, tn("{n} token|{n} tokens", tokens)), message.usage && h("span", {}, formatDollars(usage.total_cost_usd)),
    h("span", { class: "tools" }, turn.text && iconButton("copy", t("Copy"), copy),
      turn.trace && turn.askAgain && iconButton("redo", t("Regenerate"), () => turn.askAgain(turn.question, turn.trace)), isDone && message.id && thumbs(message),
      message.trace_id && iconButton("trace", t("Trace"), (event) => openTrace(message.trace_id, event.currentTarget))));
}

/** How likely an answer is right, in words and as a bar; of a model's answer, how likely the passages contain one. */
export function evidenceBar(value, confidence) {
  if (value === null || value === undefined) return null;
  const level = value >= 0.8 ? "strong" : value >= 0.24 ? "fair" : "weak"; // the levels of ragkit/answer/confidence.py
  const [name, said, title] = confidence ? [t("Confidence"), t(confidence), t("How likely this answer is right")] : [t("Evidence"), t(level), t("How likely the passages contain the answer")];
  const fill = h("span", { class: "fill" });
  fill.style.setProperty("--share", `${Math.round(value * 100)}%`);
  return h("span", { class: `evidence ${level}`, title },
    `${name} `, h("span", { class: "track", role: "meter", "aria-label": name, "aria-valuemin": 0, "aria-valuemax": 1, "aria-valuenow": value.toFixed(2), "aria-valuetext": `${value.toFixed(2)}, ${said}` }, fill),
    ` ${value.toFixed(2)} ${said}`);
}
