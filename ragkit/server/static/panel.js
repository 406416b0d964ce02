// The panel beside an answer: one at a time, closed with Escape, and the focus goes back to what opened it.
// On a narrow screen it is a sheet over the page, and what lies below cannot be reached.

import { button, byId, h } from "./dom.js";

const narrow = matchMedia("(max-width: 820px)");
let opener = null;
let turn = 0;

const behind = () => [byId("main"), byId("side"), byId("bar"), byId("skip")];

/**
 * Opens the panel. `fill(body)` may be slow; it is given the body to fill and a function that says whether the panel
 * still shows what was asked for.
 */
export async function openPanel({ title, subtitle = null, tools = [] }, from, fill) {
  const panel = byId("panel");
  if (!panel.contains(from)) {
    opener?.classList.remove("shown");
    opener = from;
    opener.classList.add("shown");
  }
  turn += 1;
  const mine = turn;
  const heading = h("h2", { id: "panel-title", tabindex: -1 }, title);
  const body = h("div", { class: "panel-body", tabindex: -1, role: "region", "aria-labelledby": "panel-title" });
  panel.replaceChildren(
    h("header", {}, heading, button("Close", closePanel, { id: "panel-close", "aria-keyshortcuts": "Escape" }),
      subtitle && h("p", { class: "where" }, subtitle), tools.length > 0 && h("div", { class: "tools" }, tools)),
    body);
  panel.hidden = false;
  document.body.classList.add("with-panel");
  arrange();
  heading.focus({ preventScroll: true });
  await fill(body, () => turn === mine && !panel.hidden);
}

export function closePanel() {
  const panel = byId("panel");
  if (panel.hidden) return;
  turn += 1;
  panel.hidden = true;
  panel.replaceChildren();
  document.body.classList.remove("with-panel");
  arrange();
  const back = opener?.isConnected ? opener : byId("question") ?? byId("main");
  opener?.classList.remove("shown");
  opener = null;
  back.focus({ preventScroll: true });
}

export const panelIsOpen = () => !byId("panel").hidden;

/** Whether it is a sheet depends on the width, which may change while it is open. */
function arrange() {
  const sheet = narrow.matches && panelIsOpen();
  for (const element of behind()) element.inert = sheet;
  const panel = byId("panel");
  if (sheet) {
    panel.setAttribute("role", "dialog");
    panel.setAttribute("aria-modal", "true");
  } else {
    panel.removeAttribute("role");
    panel.removeAttribute("aria-modal");
  }
}

narrow.addEventListener("change", arrange);
