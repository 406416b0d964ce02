// Icons of 24 units, as strokes; the label is shown on hover and on focus, and is the name for screen readers.

import { h } from "./dom.js";

const SVG = "http://www.w3.org/2000/svg";
const PATHS = {
  copy: "M9 9h11v11H9z M5 15H4V4h11v1",
  redo: "M20 11a8 8 0 1 0-2 6 M20 5v6h-6",
  good: "M7 11v9H4v-9z M7 11l4-8c2 0 2.5 1.5 2 4l-.5 3H19l-1.5 10H7",
  bad: "M7 13V4H4v9z M7 13l4 8c2 0 2.5-1.5 2-4l-.5-3H19L17.5 4H7",
  trace: "M4 6h9 M8 12h9 M12 18h8",
  edit: "M4 20l1-4L16 5l3 3L8 19z M14 7l3 3",
  more: "M5 12h.01 M12 12h.01 M19 12h.01",
  done: "M5 12l5 5L20 7",
};

export function icon(name) {
  const svg = document.createElementNS(SVG, "svg");
  const path = document.createElementNS(SVG, "path");
  svg.setAttribute("viewBox", "0 0 24 24");
  svg.setAttribute("class", "icon");
  svg.setAttribute("aria-hidden", "true");
  path.setAttribute("d", PATHS[name]);
  svg.append(path);
  return svg;
}

export function iconButton(name, label, onclick, attributes = {}) {
  return h("button", { type: "button", class: "icon-button", "aria-label": label, "data-tip": label, ...attributes, on: { click: onclick } }, icon(name));
}

/** Gives a button another icon and label. */
export function setIcon(element, name, label) {
  element.replaceChildren(icon(name));
  for (const attribute of ["aria-label", "data-tip"]) element.setAttribute(attribute, label);
}
