// Builds elements and text nodes. No string is ever parsed as HTML.

import { locale, t } from "./words.js";

const ATTRIBUTES = new Set([
  "alt", "autocomplete", "checked", "class", "colspan", "rowspan", "cols", "datetime", "dir", "disabled", "download", "enterkeyhint", "for",
  "hidden", "href", "id", "inert", "lang", "max", "maxlength", "min", "multiple", "name", "open", "placeholder", "readonly", "rel", "role",
  "rows", "scope", "selected", "spellcheck", "start", "tabindex", "target", "title", "type", "value", "webkitdirectory",
]);

/**
 * An element with attributes, listeners (`on: {click}`) and children; strings become text nodes.
 * Throws for attributes that are not in ATTRIBUTES, such as event handlers and styles.
 */
export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "on") {
      for (const [type, listener] of Object.entries(value)) element.addEventListener(type, listener);
    } else if (value === true) {
      element.setAttribute(checkAttribute(name), "");
    } else if (value !== false && value !== null && value !== undefined) {
      element.setAttribute(checkAttribute(name), String(value));
    }
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

function checkAttribute(name) {
  if (ATTRIBUTES.has(name) || /^(aria|data)-[a-z-]+$/.test(name)) return name;
  throw new TypeError(`attribute ${name} is not allowed`);
}

export function button(label, onclick, attributes = {}) {
  return h("button", { type: "button", ...attributes, on: { click: onclick } }, label);
}

/** Asks whether to go on, in a dialog; resolves to a boolean. */
export function confirmAction(title, text, action) {
  return new Promise((resolve) => {
    const dialog = h("dialog", { "aria-labelledby": "confirm-title" },
      h("h2", { id: "confirm-title" }, title), h("p", {}, text),
      h("div", { class: "tools" }, button(t("Cancel"), () => dialog.close()), button(action, () => dialog.close("yes"), { class: "first" })));
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(dialog.returnValue === "yes");
    });
    document.body.append(dialog);
    dialog.showModal();
  });
}

/** A field with a text to copy, and the button for it: {box, field}. */
export function copyField(id, label, text) {
  const field = h("input", { type: "text", id, value: text, readonly: true, spellcheck: "false" });
  const line = h("p", { role: "status" });
  const copy = button(t("Copy"), async () => {
    field.select();
    const done = await Promise.resolve(navigator.clipboard?.writeText(text).then(() => true)).catch(() => false);
    line.textContent = done ? t("Copied.") : t("Copy the selected text.");
  }, { class: "first" });
  return { field, box: h("div", { class: "copy-field" }, h("label", { for: id }, label), field, copy, line) };
}

/** Saves bytes as a file of the user. */
export function download(blob, fileName) {
  const url = URL.createObjectURL(blob);
  h("a", { href: url, download: fileName }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

export const byId = (id) => document.getElementById(id);

// Invisible characters that change how text is displayed: direction overrides and isolates, tags, controls.
// eslint-disable-next-line no-control-regex
const CONTROL_CHARS = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069\ufff9-\ufffb]|[\u{e0000}-\u{e007f}]/gu;

/** Untrusted text with invisible characters escaped, as [U+202E]. */
export function plain(text) {
  return String(text ?? "").replace(CONTROL_CHARS, (char) => `[U+${char.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}]`);
}

/** An untrusted name, isolated from the text direction around it. */
export function nameElement(text, attributes = {}) {
  return h("bdi", attributes, plain(text));
}

let uploads = "";

/** The folder of uploads, which the names of uploaded files leave out. */
export function setUploads(folder) {
  uploads = folder ? `${folder}/` : "";
}

/** A source as its readers know it. */
export const shortName = (source) => (uploads && source.startsWith(uploads) ? source.slice(uploads.length) : source);

/** The path of a source, with the folder dimmed. */
export function sourceName(full) {
  const source = shortName(full);
  const cut = source.lastIndexOf("/", source.length - 2) + 1;
  return h("bdi", { class: "source", title: plain(source) },
    cut > 0 && h("span", { class: "folder" }, plain(source.slice(0, cut))), h("span", { class: "file" }, plain(source.slice(cut))));
}

/** The location of a citation or hit: `page 3`, the place in the file (`Pumps!A20:D23`), or `lines 59-60`. */
export function formatLocation({ place, page, start_line: first, end_line: last }) {
  if (page) return t("page {n}", { n: page });
  if (place && !/^lines? \d/.test(place)) return plain(place);
  return first === last ? t("line {n}", { n: first }) : t("lines {first}\u2013{last}", { first, last });
}

/** Announces text to screen readers. */
export function announce(text) {
  byId("announcer").textContent = plain(text);
}

// numbers and times

export const formatNumber = (value) => Number(value ?? 0).toLocaleString(locale);

export function formatSeconds(value) {
  if (value < 0.0995) return `${(value * 1000).toFixed(value < 0.01 ? 1 : 0)} ms`;
  return value < 60 ? `${value.toFixed(value < 10 ? 2 : 1)} s` : `${Math.floor(value / 60)} min ${Math.round(value % 60)} s`;
}

/** A cost in US dollars; null is `cost unknown`. */
export function formatDollars(value) {
  if (value === null || value === undefined) return t("cost unknown");
  return value === 0 ? t("no cost") : `$${value < 0.01 ? value.toPrecision(2) : value.toFixed(3)}`;
}

export function formatBytes(value) {
  const power = Math.min(Math.floor(Math.log10(Math.max(value, 1)) / 3), 4);
  return `${(value / 1000 ** power).toFixed(power && value / 1000 ** power < 10 ? 1 : 0)} ${["B", "kB", "MB", "GB", "TB"][power]}`;
}

/** Milliseconds since 1970, from seconds or an ISO date. */
export const toMillis = (value) => (typeof value === "number" ? value * 1000 : Date.parse(value));

// English without a region of its own writes the day first, as most readers of English do
const dates = locale === "en" || locale === "en-US" ? "en-GB" : locale;
const CLOCK = { hour: "2-digit", minute: "2-digit" };
const DAY = { day: "numeric", month: "short" };
const isToday = (date) => date.toDateString() === new Date().toDateString();

/** A short local time: hour and minute if today, else the day. */
export function formatTime(value) {
  const date = new Date(toMillis(value));
  if (Number.isNaN(date.getTime())) return "";
  return date.toLocaleString(dates, isToday(date) ? CLOCK : DAY);
}

/** A day with its year. */
export const formatDay = (value) => new Date(toMillis(value)).toLocaleDateString(dates, { dateStyle: "medium" });

/** The local time of a message, with the day unless that is today; the full date on hover and for screen readers. */
export function timeElement(value) {
  const date = new Date(toMillis(value));
  if (Number.isNaN(date.getTime())) return null;
  const full = date.toLocaleString(dates, { dateStyle: "full", timeStyle: "short" });
  return h("time", { class: "when", datetime: date.toISOString(), title: full },
    h("span", { "aria-hidden": "true" }, date.toLocaleString(dates, isToday(date) ? CLOCK : { ...DAY, ...CLOCK })), h("span", { class: "unseen" }, full));
}
