// The quote of a citation on hover or focus: it stays while the pointer is over it, and Escape closes it.

import { byId, h, plain } from "./dom.js";

const SHOW_MS = 120; // milliseconds
const HIDE_MS = 200;
const MAX_CHARS = 400;
let timer = 0;
let owner = null;
addEventListener("scroll", (event) => event.target.id !== "tip" && hideTip(), { capture: true, passive: true });

/** Shows `title` and `quote` beside a button while it is pointed at or focused. */
export function withQuote(element, title, quote) {
  const soon = () => later(() => show(element, title, quote), SHOW_MS);
  element.addEventListener("pointerenter", (event) => event.pointerType !== "touch" && soon());
  element.addEventListener("focus", () => element.matches(":focus-visible") && soon());
  for (const type of ["pointerleave", "blur"]) element.addEventListener(type, () => later(hideTip, HIDE_MS));
  element.addEventListener("click", hideTip);
  return element;
}

function later(work, ms) {
  clearTimeout(timer);
  timer = setTimeout(work, ms);
}

/** Hides the quote; false if none was shown. */
export function hideTip() {
  clearTimeout(timer);
  const tip = byId("tip");
  owner?.removeAttribute("aria-describedby");
  owner = null;
  tip?.remove();
  return Boolean(tip);
}

/** A quote as it is read: without the marks of Markdown, and the line breaks of its source but those of rows and lists. */
export const flowing = (quote) => quote.replace(/^ *(?:```|~~~).*$|^ *#{1,6} |\*\*|`/gm, "").replace(/\[([^\]\n]{1,200})\]\([^)\n]{0,300}\)/g, "$1").split("\n").reduce((text, line) => `${text}${!line.trim() || /^\s*(?:[-*+•#>]|\d+[.)])|[|;]/.test(line) ? "\n" : " "}${line.trim()}`);

function show(element, title, quote) {
  if (!element.isConnected || !quote) return;
  hideTip();
  const text = flowing(quote.length > MAX_CHARS ? `${quote.slice(0, MAX_CHARS)}\u2026` : quote);
  const tip = h("div", { id: "tip", class: "tip", role: "tooltip", on: { pointerenter: () => clearTimeout(timer), pointerleave: () => later(hideTip, HIDE_MS) } },
    h("strong", {}, plain(title)), h("span", { dir: "auto" }, plain(text)));
  (element.closest("main, #panel") ?? document.body).append(tip); // in a landmark
  const at = element.getBoundingClientRect();
  const { width, height } = tip.getBoundingClientRect();
  const above = at.top > height + 12;
  tip.style.setProperty("--left", Math.round(Math.max(8, Math.min(at.left, innerWidth - width - 8))));
  tip.style.setProperty("--top", Math.round(above ? at.top - height - 6 : at.bottom + 6));
  owner = element;
  element.setAttribute("aria-describedby", "tip");
}
