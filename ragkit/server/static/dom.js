// Builds the page from elements and text nodes. Nothing here, or anywhere else, parses a string as HTML.

const ATTRIBUTES = new Set([
  "alt", "autocomplete", "checked", "class", "colspan", "cols", "dir", "disabled", "download", "enterkeyhint", "for",
  "hidden", "href", "id", "inert", "lang", "max", "maxlength", "min", "name", "open", "placeholder", "rel", "role",
  "rows", "scope", "selected", "spellcheck", "start", "tabindex", "target", "title", "type", "value",
]);

/**
 * An element with attributes, listeners (`on: {click}`) and children; strings become text nodes.
 * An attribute that is not on the list, such as a handler or a style, is a mistake of ours and throws.
 */
export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "on") {
      for (const [type, listener] of Object.entries(value)) element.addEventListener(type, listener);
    } else if (value === true) {
      element.setAttribute(checked(name), "");
    } else if (value !== false && value !== null && value !== undefined) {
      element.setAttribute(checked(name), String(value));
    }
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

function checked(name) {
  if (ATTRIBUTES.has(name) || /^(aria|data)-[a-z-]+$/.test(name)) return name;
  throw new TypeError(`the attribute ${name} is not one that this page sets`);
}

export function button(label, onclick, attributes = {}) {
  return h("button", { type: "button", ...attributes, on: { click: onclick } }, label);
}

export const byId = (id) => document.getElementById(id);

// Characters that are not seen but change how others are read: direction overrides and isolates, tags, controls.
// eslint-disable-next-line no-control-regex
const UNSEEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069\ufff9-\ufffb]|[\u{e0000}-\u{e007f}]/gu;

/** Text from outside with unseen characters written out, as [U+202E]. */
export function plain(text) {
  return String(text ?? "").replace(UNSEEN, (one) => `[U+${one.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}]`);
}

/** A name from outside, kept from changing the direction of what stands beside it. */
export function name(text, attributes = {}) {
  return h("bdi", attributes, plain(text));
}

/** A source as the person reads it: the folder dim, the file's own name not. */
export function sourceName(source) {
  const cut = source.lastIndexOf("/", source.length - 2) + 1;
  return h("bdi", { class: "source", title: plain(source) },
    cut > 0 && h("span", { class: "folder" }, plain(source.slice(0, cut))), h("span", { class: "file" }, plain(source.slice(cut))));
}

/** Where a citation or a hit stands: `page 3, lines 59-60`. */
export function place({ page, start_line: first, end_line: last }) {
  const lines = first === last ? `line ${first}` : `lines ${first}\u2013${last}`;
  return page === null || page === undefined ? lines : `page ${page}, ${lines}`;
}

/** Says something to those who listen to the page, and to nobody else. */
export function announce(text) {
  byId("announcer").textContent = plain(text);
}

// numbers and times

export const figures = (count, one, many = `${one}s`) => `${Number(count).toLocaleString("en")} ${count === 1 ? one : many}`;

export function seconds(value) {
  if (value < 0.0995) return `${(value * 1000).toFixed(value < 0.01 ? 1 : 0)} ms`;
  return value < 60 ? `${value.toFixed(value < 10 ? 2 : 1)} s` : `${Math.floor(value / 60)} min ${Math.round(value % 60)} s`;
}

/** US dollars; a price that nobody knows is said to be unknown, never 0. */
export function dollars(value) {
  if (value === null || value === undefined) return "cost unknown";
  return value === 0 ? "no cost" : `$${value < 0.01 ? value.toPrecision(2) : value.toFixed(3)}`;
}

export function bytes(value) {
  const power = Math.min(Math.floor(Math.log10(Math.max(value, 1)) / 3), 4);
  return `${(value / 1000 ** power).toFixed(power && value / 1000 ** power < 10 ? 1 : 0)} ${["B", "kB", "MB", "GB", "TB"][power]}`;
}

/** Milliseconds since 1970 of what the server says: seconds, or an ISO date. */
export const moment = (value) => (typeof value === "number" ? value * 1000 : Date.parse(value));

/** A time as short as it can be: the hour today, else the day. */
export function shortTime(value) {
  const date = new Date(moment(value));
  if (Number.isNaN(date.getTime())) return "";
  const today = date.toDateString() === new Date().toDateString();
  return date.toLocaleString("en-GB", today ? { hour: "2-digit", minute: "2-digit" } : { day: "numeric", month: "short" });
}
